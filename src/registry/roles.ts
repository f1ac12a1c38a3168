/** The entries of `agents`, made into roles: what an entry says goes first, then its class, then agent_config.yaml. */
import type { AgentRole, ContextStrategy, ToolReference } from '../actors/definition/role.ts'
import type { Tool } from '../actors/definition/tool.ts'
import { VERB_NAMES } from '../actors/model/verb-tools.ts'
import { nearest } from '../nearest.ts'
import { type Check, type Fields, isObject, shape, text } from '../runtime/checks/checks.ts'
import { refused, refusedAs } from '../runtime/checks/refused.ts'
import { roleFields, someText } from '../runtime/settings/role-shape.ts'
import type { AgentDefaults } from './agent-config.ts'
import { moduleAt, moduleOfClass, stemsOf } from './modules.ts'

/** One entry of `agents`: a role whose name is its key, and where its code is. */
type Entry = Omit<AgentRole, 'name' | 'module' | 'contextStrategy'> & {
  /** Of an entry of `loadTeam`'s `agents`, or of a file beside this one. */
  class?: string
  module?: string
  contextStrategy?: ContextStrategy | string
}

/** What entries are read against. */
export interface Surroundings {
  /** The file that has them. */
  file: URL
  /** By the name of their class. */
  classes: Readonly<Record<string, AgentRole>>
  /** By their names. */
  tools: ReadonlyMap<string, Tool>
  defaults: AgentDefaults
}

const { name: _itsKey, ...fields } = roleFields

const entryFields: Fields<Entry> = {
  ...fields,
  class: someText,
  module: text, // relative ones are fine here
  contextStrategy: (value, path) => {
    if (typeof value !== 'string' && !isObject(value))
      throw refused(path, value, 'the name of a strategy, or an object')
  },
}

const entryShape: Check = shape(entryFields)

/** The roles of a file, in its order. Throws for the first entry that is wrong, with its path. */
export function rolesFrom(agents: unknown, surroundings: Surroundings): AgentRole[] {
  if (!isObject(agents) || Object.keys(agents).length === 0)
    throw refused('agents', agents, 'an entry for each agent, by its name')
  return Object.entries(agents).map(([name, entry]) => roleFrom(name, entry, `agents.${name}`, surroundings))
}

function roleFrom(name: string, given: unknown, path: string, surroundings: Surroundings): AgentRole {
  roleFields.name(name, path)
  const entry = given ?? {} // all of it is in agent_config.yaml
  entryShape(entry, path)
  const { class: className, contextStrategy, module, tools, ...own } = entry as Entry
  if (className !== undefined && module !== undefined)
    throw refusedAs(`${path}.module`, 'a module beside a class', 'one of the two')
  const { file, classes, defaults } = surroundings
  const code = className === undefined ? {} : ofClass(className, `${path}.class`, file, classes)
  const role: AgentRole = { ...defaults.role, canDelegateTo: [], ...code, ...own, name }
  if (module !== undefined) role.module = moduleAt(module, `${path}.module`, file)
  if (tools !== undefined) role.tools = tools.map((tool, i) => toolFrom(tool, `${path}.tools[${i}]`, surroundings))
  const strategy = strategyFrom(contextStrategy) ?? role.contextStrategy
  if (strategy) role.contextStrategy = withHistory(strategy, defaults.historyKeep)
  return role
}

function ofClass(name: string, path: string, file: URL, classes: Surroundings['classes']): Partial<AgentRole> {
  if (Object.hasOwn(classes, name)) return classes[name]!
  const module = moduleOfClass(name, file)
  if (module !== undefined) return { module }
  const known = Object.keys(classes)
  const meant = nearest(name, known)
  const files = stemsOf(name).map((stem) => `${stem}.ts`)
  const accepted = `a class given to loadTeam (${known.join(', ') || 'there are none'}), or one with a file beside this one (${files.join(', ')}, or .mts, .js, .mjs)`
  const advice = meant === undefined ? 'Leave it out for an agent that is only a prompt.' : `Did you mean "${meant}"?`
  throw refused(path, name, accepted, advice)
}

/** A name that no tool here has is that of a verb, or a skill, unless it is all but that of a tool. */
export function toolFrom(tool: ToolReference, path: string, { file, tools }: Surroundings): ToolReference {
  if (typeof tool === 'string') {
    const meant = tools.has(tool) || VERB_NAMES.includes(tool) ? undefined : nearest(tool, tools.keys(), 1)
    if (meant === undefined) return tools.get(tool) ?? tool
    throw refused(
      path,
      tool,
      `a tool given to loadTeam (${[...tools.keys()].join(', ')}), a verb or a skill`,
      `Did you mean "${meant}"?`,
    )
  }
  if (!isObject(tool) || !('module' in tool))
    throw refused(path, tool, 'the name of a tool, or an object with a module')
  text(tool.module, `${path}.module`)
  return { ...tool, module: moduleAt(String(tool.module), `${path}.module`, file) }
}

/** Documents name it alone. What is wrong in it is for who makes the team to say. */
function strategyFrom(given: Entry['contextStrategy']): ContextStrategy | undefined {
  return typeof given === 'string' ? ({ strategy: given } as ContextStrategy) : given
}

function withHistory(strategy: ContextStrategy, historyKeep: number | undefined): ContextStrategy {
  return strategy.strategy === 'hierarchical' && historyKeep !== undefined ? { historyKeep, ...strategy } : strategy
}
