/** The tools of one agent, as its thread has them: by name, with what a model is told of each, and where each runs. */
import { ConfigurationError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import type { AssignedTools } from '../definition/assignment.ts'
import type { ToolSpec } from '../definition/model.ts'
import type { ToolDefinition } from '../definition/tool.ts'
import { VERB_NAMES } from '../model/verb-tools.ts'

/** A tool from a module, loaded into this thread. `option`: where it stands in the team's options. */
export interface LoadedTool {
  readonly tool: ToolDefinition
  readonly option: string
}

/** `definition`: it runs in this thread; without, the host runs it. */
interface Entry {
  readonly spec: ToolSpec
  readonly sequential: boolean
  readonly option: string
  readonly definition: ToolDefinition | undefined
  readonly polling: boolean
}

export class Toolbox {
  /** Whether the rehearsal model may answer in this team. */
  readonly rehearsed: boolean
  readonly #entries = new Map<string, Entry>()
  readonly #skills: readonly string[]

  /** Throws `ConfigurationError` for two tools of one name, and for a name that is nearly that of one. */
  constructor({ host, names, rehearsed = false }: AssignedTools, loaded: readonly LoadedTool[] = []) {
    this.rehearsed = rehearsed
    for (const { option, sequential, polling, ...spec } of host)
      this.#add({ spec, option, sequential, polling, definition: undefined })
    for (const { tool, option } of loaded) {
      const { name, description, inputSchema, sequential, polling } = tool
      this.#add({ spec: { name, description, inputSchema }, option, sequential, polling, definition: tool })
    }
    this.#skills = skillsAmong(names, this.#entries.keys())
  }

  #add(entry: Entry): void {
    const { name } = entry.spec
    checkUnique(name, entry.option, this.#entries.get(name)?.option)
    this.#entries.set(name, entry)
  }

  /** What a model is told of them, in the order in which they were given: those of the host first. */
  get specs(): ToolSpec[] {
    return Array.from(this.#entries.values(), ({ spec }) => spec)
  }

  /** Whether its calls are polls. */
  polls(name: string): boolean {
    return this.#entries.get(name)?.polling ?? false
  }

  /** What tasks may name to be routed to its agent: its tools, and skills that it alone knows of. */
  get names(): string[] {
    return [...this.#entries.keys(), ...this.#skills]
  }

  /** The names of those in modules that are not `readOnly`. */
  get harmful(): string[] {
    return [...this.#entries].filter(([, { definition }]) => definition?.readOnly === false).map(([name]) => name)
  }

  /** Whether calls of that tool run alone among those of one answer. */
  isSequential(name: string): boolean {
    return this.#entries.get(name)?.sequential ?? false
  }

  /** Where that tool runs: its definition, or null where the host does. Throws `ConfigurationError` for a name that none has. */
  find(name: string, agent: string): ToolDefinition | null {
    const entry = this.#entries.get(name)
    if (entry) return entry.definition ?? null
    throw unknownTool(name, `Agent "${agent}"`, { agent }, [...this.#entries.keys()])
  }
}

/** Throws where another tool of the same agent, at `before`, has that name, or a verb. */
export function checkUnique(name: string, option: string, before: string | undefined): void {
  const taken = VERB_NAMES.includes(name) ? 'a verb of the runtime has it' : before && `the tool at ${before} has it`
  if (!taken) return
  throw new ConfigurationError(`${option}: a tool named "${name}" cannot be told apart: ${taken}. Rename it.`, {
    path: option,
    got: name,
  })
}

/**
 * Names among `tools` that are no verb and that no tool has: skills, which tasks are routed by and no model is offered. Throws
 * for one that is nearly the name of a verb or a tool: it is mistyped.
 */
export function skillsAmong(names: AssignedTools['names'], known: Iterable<string>): string[] {
  const taken = [...known, ...VERB_NAMES]
  const skills = names.filter(({ name }) => !taken.includes(name))
  for (const { name, option } of skills)
    if (nearest(name, taken) !== undefined) throw unknownTool(name, `${option}: the team`, { path: option }, taken)
  return skills.map(({ name }) => name)
}

function unknownTool(name: string, who: string, details: object, known: readonly string[]): ConfigurationError {
  const meant = nearest(name, known)
  const advice = meant === undefined ? '' : ` Did you mean "${meant}"?`
  const has = known.length === 0 ? 'It has none; give its role tools.' : `It has ${known.join(', ')}.`
  return new ConfigurationError(`${who} has no tool "${name}".${advice} ${has}`, {
    ...details,
    got: name,
    accepted: known.join(', ') || 'none',
  })
}
