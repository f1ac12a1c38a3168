/** The tools of one agent in its thread: by name, with the description for a model and the place where each runs. */
import { ConfigurationError } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import type { AssignedTools } from '../definition/assignment.ts'
import type { ToolSpec } from '../definition/model.ts'
import type { ToolDefinition } from '../definition/tool.ts'
import { VERB_NAMES } from '../model/verb-tools.ts'

/** A tool from a module, loaded into this thread. `option` is its path in the team's options. */
export interface LoadedTool {
  readonly tool: ToolDefinition
  readonly option: string
}

/** A tool of the agent. With a `definition` it runs in this thread, otherwise in the host. */
interface Entry {
  readonly spec: ToolSpec
  readonly sequential: boolean
  readonly option: string
  readonly definition: ToolDefinition | undefined
  readonly polling: boolean
  /** True if a person may have to approve a call that the host makes. */
  readonly approval: boolean
}

export class Toolbox {
  /** True if the rehearsal model may answer in this team. */
  readonly rehearsed: boolean
  readonly #entries = new Map<string, Entry>()

  /**
   * Builds the toolbox.
   *
   * @throws ConfigurationError if two tools have the same name, or a name belongs to no tool and no verb.
   */
  constructor({ host, names, rehearsed = false }: AssignedTools, loaded: readonly LoadedTool[] = []) {
    this.rehearsed = rehearsed
    for (const { option, sequential, polling, approval, ...spec } of host)
      this.#add({ spec, option, sequential, polling, approval, definition: undefined })
    for (const { tool, option } of loaded) {
      const { name, description, inputSchema, sequential, polling, approval } = tool
      this.#add({ spec: { name, description, inputSchema }, option, sequential, polling, approval, definition: tool })
    }
    checkNamed(names, [...this.#entries.keys()])
  }

  #add(entry: Entry): void {
    const { name } = entry.spec
    checkUnique(name, entry.option, this.#entries.get(name)?.option)
    this.#entries.set(name, entry)
  }

  /** Descriptions of the tools for a model, in the given order, host tools first. */
  get specs(): ToolSpec[] {
    return Array.from(this.#entries.values(), ({ spec }) => spec)
  }

  /** Checks whether calls of that tool are polls. */
  polls(name: string): boolean {
    return this.#entries.get(name)?.polling ?? false
  }

  /** Checks whether a person may have to approve a call of that tool. */
  asksApproval(name: string): boolean {
    return this.#entries.get(name)?.approval ?? false
  }

  /** Names of the tools, by which tasks can be routed to the agent. */
  get names(): string[] {
    return [...this.#entries.keys()]
  }

  /** Names of the tools from modules that are not `readOnly`. */
  get harmful(): string[] {
    return [...this.#entries].filter(([, { definition }]) => definition?.readOnly === false).map(([name]) => name)
  }

  /** Checks whether a call of that tool runs alone among the calls of one answer. */
  isSequential(name: string): boolean {
    return this.#entries.get(name)?.sequential ?? false
  }

  /**
   * Returns the definition of a tool, or null if the host runs it.
   *
   * @throws ConfigurationError if the agent has no tool of that name.
   */
  find(name: string, agent: string): ToolDefinition | null {
    const entry = this.#entries.get(name)
    if (entry) return entry.definition ?? null
    throw unknownTool(name, `Agent "${agent}"`, { agent }, [...this.#entries.keys()])
  }
}

/**
 * Checks that no verb and no other tool of the agent (at `before`) has that name.
 *
 * @throws ConfigurationError if the name is taken.
 */
export function checkUnique(name: string, option: string, before: string | undefined): void {
  const taken = VERB_NAMES.includes(name) ? 'a verb of the runtime has it' : before && `the tool at ${before} has it`
  if (!taken) return
  throw new ConfigurationError(`${option}: a tool named "${name}" cannot be told apart: ${taken}. Rename it.`, {
    path: option,
    got: name,
  })
}

/**
 * Checks that each name is that of a tool of the agent (`own`) or of a verb. `others`: tools of other agents, each with
 * the name of such an agent.
 *
 * @throws ConfigurationError for the first name that is neither.
 */
export function checkNamed(
  names: readonly Readonly<AssignedTools['names'][number]>[],
  own: readonly string[],
  others: ReadonlyMap<string, string> = new Map(),
): void {
  const known = [...own, ...VERB_NAMES]
  for (const { name, option } of names) {
    if (known.includes(name)) continue
    const meant = nearest(name, [...known, ...others.keys()])
    const guess = meant === undefined || meant === name ? '' : ` Did you mean "${meant}"?`
    const owner = known.includes(meant ?? name) ? undefined : others.get(meant ?? name)
    const advice =
      owner === undefined
        ? 'A name that tasks are routed by, and that no tool stands behind, belongs into `skills`.'
        : `"${owner}" has that tool: give this role the tool itself, or give it to the whole team.`
    throw new ConfigurationError(
      `${option}: this role has no tool and no verb "${name}".${guess} ${advice} There are: ${known.join(', ')}.`,
      { path: option, got: name, accepted: known.join(', ') },
    )
  }
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
