/** Makes roles from the entries of `agents`. The entry itself has priority, then its class, then agent_config.yaml. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import type { AgentRole, ContextStrategy, ToolReference } from '../actors/definition/role.ts'
import type { ModelSchema, Tool } from '../actors/definition/tool.ts'
import { VERB_NAMES } from '../actors/model/verb-tools.ts'
import type { ModelsConfig } from '../runtime/providers/provider.ts'
import { namesOfModule, othersInWords } from '../runtime/settings/module-file.ts'
import { outputShape, roleFields, someText } from '../runtime/settings/role-shape.ts'
import {
  anyObject,
  type Check,
  type Fields,
  integer,
  isObject,
  refused,
  refusedAs,
  shape,
  text,
} from '../shared/checks.ts'
import { describe } from '../shared/errors.ts'
import { nearest } from '../shared/text.ts'
import { own } from '../shared/values.ts'
import { type EntryWorkspace, type Naming, type ReadyClasses, withoutFolder } from './ready-classes.ts'

interface AgentConfig {
  llm?: {
    model?: string
    temperature?: number
    systemPrompt?: string
    maxOutputTokens?: number
    baseURL?: string
    apiKeyEnv?: string
  }
  context?: { historyKeep?: number; maxTokens?: number }
  rounds?: { maxPerSubtask?: number }
}

export interface AgentDefaults {
  role: Partial<AgentRole>
  /** Limit at which an 'append_until_full' makes its summary. A hierarchical context keeps exchanges, and has none. */
  maxTokens: number | undefined
  /** Option of the context strategy 'hierarchical'. */
  historyKeep: number | undefined
  models: ModelsConfig
}

const llmShape = shape<NonNullable<AgentConfig['llm']>>({
  model: someText,
  temperature: roleFields.temperature,
  systemPrompt: text,
  maxOutputTokens: roleFields.maxOutputTokens,
  baseURL: someText,
  apiKeyEnv: someText,
})

const configShape = shape<AgentConfig>({
  llm: (value, path) => {
    llmShape(value, path)
    const { model, baseURL, apiKeyEnv } = value as NonNullable<AgentConfig['llm']>
    if (baseURL !== undefined || apiKeyEnv !== undefined) someText(model, `${path}.model`)
  },
  context: shape<NonNullable<AgentConfig['context']>>({ historyKeep: integer(1), maxTokens: roleFields.maxTokens }),
  rounds: shape<NonNullable<AgentConfig['rounds']>>({ maxPerSubtask: roleFields.maxRounds }),
})

const NAMES = ['agent_config.yaml', 'agent_config.yml']

/** Returns the configuration files that exist beside the given file; there should be at most one. */
export function configBeside(file: URL): URL[] {
  return NAMES.map((name) => new URL(name, file)).filter((url) => existsSync(url))
}

/** Returns the defaults of a parsed file. Throws for the first invalid setting, with its path. */
export function agentDefaults(value: unknown): AgentDefaults {
  const given = value ?? {} // an empty file
  anyObject(given, 'agent_config')
  configShape(given, '')
  const { llm = {}, context = {}, rounds = {} } = given as AgentConfig
  const { baseURL, apiKeyEnv, ...settings } = llm
  const { model } = settings
  const isReached = model !== undefined && (baseURL !== undefined || apiKeyEnv !== undefined)
  const role: Partial<AgentRole> = { ...settings }
  if (rounds.maxPerSubtask !== undefined) role.maxRounds = rounds.maxPerSubtask
  return {
    role,
    maxTokens: context.maxTokens,
    historyKeep: context.historyKeep,
    models: isReached ? { [model]: { model, baseURL, apiKeyEnv } } : {},
  }
}

const RELATIVE = /^\.\.?[\\/]/
const ENDINGS = ['.ts', '.mts', '.js', '.mjs']

/** Returns the href of a module that is named relative to a file, and any other name as it is. */
export function moduleAt(module: string, path: string, file: URL): string {
  if (!RELATIVE.test(module)) return module
  const { href, pathname } = new URL(module.replaceAll('\\', '/'), file)
  const found = namesOfModule(href).find((name) => isFile(new URL(name)))
  if (found !== undefined) return found
  const advice = `It is looked for beside the file that names it: ${pathname}${othersInWords(pathname)}`
  throw refused(path, module, 'a file that is there', advice)
}

/** Returns the href of the file beside the given one that is named after a class. */
function moduleOfClass(name: string, file: URL): string | undefined {
  if (!/^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name)) return undefined
  const places = stemsOf(name).flatMap((stem) => ENDINGS.map((ending) => new URL(`./${stem}${ending}`, file)))
  return places.find(isFile)?.href
}

const COMMENTS_AND_STRINGS = /\/\*[\s\S]*?\*\/|\/\/.*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g

/**
 * Refuses a class whose file also exports an object of its name that nothing there uses. Code of an agent runs in its
 * thread alone: the host does not import the file, so the tools and the prompt of that object would count for nothing.
 */
function refuseUnread(name: string, module: string, path: string): void {
  const source = sourceOf(module).replaceAll(COMMENTS_AND_STRINGS, '')
  const word = `(?<![\\p{L}\\p{N}_$])${name.replaceAll('$', '\\$&')}(?![\\p{L}\\p{N}_$])`
  const exported = new RegExp(`^export (?:class ${word}|(?:const|let|var) ${word}[^=\n]*=\\s*\\{)`, 'mu')
  if (!exported.test(source) || new RegExp(word, 'u').test(source.replace(exported, ''))) return
  const file = basename(new URL(module).pathname)
  throw refusedAs(
    `${path}.class`,
    `"${name}", and ${file} exports ${name}, whose fields nobody reads`,
    `a file whose default export is the agent's code, without ${name}`,
    `Give it to the team: loadTeam(file, { agents: { ${name} } }), with module: import.meta.url in it. Or write its fields into the entry.`,
  )
}

function sourceOf(module: string): string {
  try {
    return readFileSync(new URL(module), 'utf8')
  } catch {
    return '' // the thread that imports it says why
  }
}

/** Returns the names of a class's file: as it is, and in lower case with '_' or '-' between its words. */
function stemsOf(name: string): string[] {
  const words = name.replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1_$2').toLowerCase()
  return [...new Set([name, words, words.replaceAll('_', '-')])]
}

function isFile(url: URL): boolean {
  try {
    return statSync(url).isFile()
  } catch {
    return false // also for a URL that cannot be the path of a file
  }
}

export type WrittenOutput = ModelSchema | object | string

/** Accepts a JSON Schema, or the name of a file with one. */
export const writtenOutput: Check = (value, path) => {
  if (typeof value !== 'string') outputShape(value, path)
}

/** Returns the schema. A name is relative to `file`. */
export function outputAt(output: WrittenOutput, path: string, file: URL): ModelSchema | object {
  if (typeof output !== 'string') return output
  try {
    const schema: object = JSON.parse(readFileSync(new URL(output.replaceAll('\\', '/'), file), 'utf8'))
    outputShape(schema, path)
    return schema
  } catch (error) {
    const accepted = 'a JSON Schema, or the name of a JSON file with one'
    throw refusedAs(path, `"${output}", which cannot be read (${describe(error)})`, accepted)
  }
}

/** Entry of `agents`: a role whose name is its key, with the place of its code. */
type Entry = Omit<AgentRole, 'name' | 'module' | 'contextStrategy' | 'output'> & {
  /** Name of the class: a key of `loadTeam`'s `agents`, the name of a file beside the agents.yaml, or a ready one. */
  class?: string
  module?: string
  contextStrategy?: ContextStrategy | string
  /** Folder of a ready class that works in one. */
  workspace?: EntryWorkspace
  output?: WrittenOutput
}

export interface Surroundings {
  file: URL
  classes: Readonly<Record<string, AgentRole>>
  tools: ReadonlyMap<string, Tool>
  defaults: AgentDefaults
  ready: ReadyClasses
}

const { name: _itsKey, ...fields } = roleFields

const entryFields: Fields<Entry> = {
  ...fields,
  class: someText,
  module: text, // relative paths are allowed here
  output: writtenOutput,
  workspace: (value, path) => {
    if (!isObject(value)) someText(value, path) // its tools check its options
  },
  contextStrategy: (value, path) => {
    if (typeof value !== 'string' && !isObject(value))
      throw refused(path, value, 'the name of a strategy, or an object')
  },
}

const entryShape: Check = shape(entryFields)

/** Returns the roles, in the order of the file. `planner`: the supervisor of the strategy of that name. */
export function rolesFrom(agents: unknown, surroundings: Surroundings, planner?: unknown): AgentRole[] {
  if (!isObject(agents) || Object.keys(agents).length === 0)
    throw refused('agents', agents, 'an entry for each agent, by its name')
  const entries = Object.entries(agents)
  const giversOf = (taker: string) => entries.flatMap(([name, entry]) => (givesTo(entry, taker) ? [name] : []))
  return entries.map(([name, entry]) =>
    roleFrom(name, entry, { givers: giversOf(name), plans: name === planner }, surroundings),
  )
}

/** Checks whether an entry, which nobody has checked yet, may give tasks to that agent. */
function givesTo(entry: unknown, taker: string): boolean {
  const { canDelegateTo } = Object(entry) as { canDelegateTo?: unknown }
  return Array.isArray(canDelegateTo) && canDelegateTo.includes(taker)
}

function roleFrom(
  name: string,
  given: unknown,
  place: Pick<Naming, 'givers' | 'plans'>,
  surroundings: Surroundings,
): AgentRole {
  const path = `agents.${name}`
  roleFields.name(name, path)
  const entry = given ?? {} // an empty entry: everything comes from agent_config.yaml
  entryShape(entry, path)
  const { class: className, contextStrategy, module, output, tools, workspace, ...own } = entry as Entry
  if (className !== undefined && module !== undefined)
    throw refusedAs(`${path}.module`, 'a module beside a class', 'one of the two')
  const { file, defaults } = surroundings
  const naming = { path, workspace, systemPrompt: defaults.role.systemPrompt, ...place }
  const code = className === undefined ? withoutFolder({}, naming) : ofClass(className, naming, surroundings)
  const role: AgentRole = { ...defaults.role, canDelegateTo: [], ...code, ...own, name }
  if (module !== undefined) role.module = moduleAt(module, `${path}.module`, file)
  if (output !== undefined) role.output = outputAt(output, `${path}.output`, file)
  if (tools !== undefined) role.tools = tools.map((tool, i) => toolFrom(tool, `${path}.tools[${i}]`, surroundings))
  // documents may give only its name; code that creates the team checks it
  const named =
    typeof contextStrategy === 'string' ? ({ strategy: contextStrategy } as ContextStrategy) : contextStrategy
  const strategy = named ?? role.contextStrategy
  const { historyKeep, maxTokens } = defaults
  const isHierarchical = strategy?.strategy === 'hierarchical'
  if (!isHierarchical && maxTokens !== undefined) role.maxTokens ??= maxTokens
  if (strategy)
    role.contextStrategy = isHierarchical && historyKeep !== undefined ? { historyKeep, ...strategy } : strategy
  return role
}

function ofClass(name: string, naming: Naming, { file, classes, ready }: Surroundings): Partial<AgentRole> {
  const given = own(classes, name)
  if (given !== undefined) return withoutFolder(given, naming)
  const module = moduleOfClass(name, file)
  if (module !== undefined) {
    refuseUnread(name, module, naming.path)
    return withoutFolder({ module }, naming)
  }
  const role = ready.role(name, naming)
  if (role !== undefined) return role
  const known = [...Object.keys(classes), ...ready.names]
  const meant = nearest(name, known)
  const files = stemsOf(name).map((stem) => `${stem}.ts`)
  const accepted = `a class given to loadTeam or ready (${known.join(', ')}), or one with a file beside this one (${files.join(', ')}, or .mts, .js, .mjs)`
  const advice = meant === undefined ? 'Leave it out for an agent that is only a prompt.' : `Did you mean "${meant}"?`
  throw refused(`${naming.path}.class`, name, accepted, advice)
}

/** Returns the tool for a reference. A name that matches no tool here has to be that of a verb or a skill. */
export function toolFrom(tool: ToolReference, path: string, { file, tools }: Surroundings): ToolReference {
  if (typeof tool === 'string') {
    const meant = tools.has(tool) || VERB_NAMES.includes(tool) ? undefined : nearest(tool, tools.keys(), 1)
    if (meant === undefined) return tools.get(tool) ?? tool // the team is checked as a whole
    const accepted = `a tool given to loadTeam (${[...tools.keys()].join(', ')}), a verb or a skill`
    throw refused(path, tool, accepted, `Did you mean "${meant}"?`)
  }
  if (!isObject(tool) || !('module' in tool))
    throw refused(path, tool, 'the name of a tool, or an object with a module')
  text(tool.module, `${path}.module`)
  return { ...tool, module: moduleAt(String(tool.module), `${path}.module`, file) }
}
