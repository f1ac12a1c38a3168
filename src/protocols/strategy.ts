/** Interface of all built-in strategies: a name, and a function from a configuration to a protocol. */

import type { OrchestratorContext } from '../actors/definition/context.ts'
import type { Protocol } from '../actors/definition/protocol.ts'
import { compilePattern } from '../blackboard/entry.ts'
import type { TeamSettings } from '../runtime/settings/settings.ts'
import { type Check, isObject, refused } from '../shared/checks.ts'
import { MessageRejectedError } from '../shared/errors.ts'
import { nearest } from '../shared/text.ts'

/*
 * Names of agents in the types of configurations. A literal name is checked by the compiler. A configuration whose type
 * names no agents, like `const config: SequentialConfig`, is taken by every team, which checks its names at run time.
 */

declare const unnamed: unique symbol

/** Mark of `AnyAgent`. No literal text is assignable to it. */
export type Unnamed = { readonly [unnamed]?: true }

/** Name of any agent: a configuration that has it takes every text, and a team checks it when it is made. */
export type AnyAgent = string & Unnamed

/** Type of the names in a configuration: those of a team, or the mark of a type that names none. */
export type AgentName = string | Unnamed

/** Patterns of keys by the names of agents. */
export type InterestsOf<N extends AgentName> = Partial<Record<Extract<N, string>, readonly string[]>> & Unnamed

export function agentOf(team: readonly string[]): Check {
  return (name, path) => {
    if (typeof name === 'string' && team.includes(name)) return
    const meant = typeof name === 'string' ? nearest(name, team) : undefined
    const advice = meant === undefined ? 'Define that agent, or remove the name.' : `Did you mean "${meant}"?`
    throw refused(path, name, `an agent of this team (${team.join(', ')})`, advice)
  }
}

/** Checks for a list of at least one agent of the team. Without `repeats` each agent may be listed only once. */
export function agentsOf(team: readonly string[], repeats?: 'repeats'): Check {
  const agent = agentOf(team)
  return (list, path) => {
    const accepted = `a list of at least one agent of this team (${team.join(', ')})`
    if (!Array.isArray(list) || list.length === 0) throw refused(path, list, accepted)
    for (const [at, name] of list.entries()) {
      agent(name, `${path}[${at}]`)
      const again = repeats === undefined && list.indexOf(name) < at
      if (again) throw refused(`${path}[${at}]`, name, 'each agent once', 'It is in the list already; remove it here.')
    }
  }
}

export const namesIn = ({ agents }: OrchestratorContext): string[] => agents.map(({ name }) => name)

/** Returns a function that selects the agents to ask: those in the list, otherwise all of the team but some. */
export function choosing(
  list: readonly string[] | undefined,
  ...but: readonly unknown[]
): (team: readonly string[]) => string[] {
  const listed = list && [...list]
  return (team) => listed?.slice() ?? team.filter((name) => !but.includes(name))
}

/** Checks for patterns of keys by agent name. Each agent must be in the team and in `readers`. */
export function interestsOf(team: readonly string[], readers: readonly string[]): Check {
  const agent = agentOf(team)
  return (interests, path) => {
    if (!isObject(interests)) throw refused(path, interests, 'an object with a list of patterns for each agent')
    for (const [name, patterns] of Object.entries(interests)) {
      agent(name, `${path}.${name}`)
      if (patterns === undefined) continue
      if (!readers.includes(name)) {
        throw refused(`${path}.${name}`, patterns, 'nothing', `"${name}" is not among the agents that contribute.`)
      }
      patternsOf(patterns, `${path}.${name}`)
    }
  }
}

function patternsOf(patterns: unknown, path: string): void {
  if (!Array.isArray(patterns) || patterns.length === 0) {
    throw refused(path, patterns, 'a list of at least one pattern', 'Leave it out for all entries.')
  }
  for (const [at, pattern] of patterns.entries()) {
    try {
      compilePattern(pattern)
    } catch (error) {
      if (!(error instanceof MessageRejectedError)) throw error
      const accepted = 'words with dots between them, where "*" stands for one word and "**" for any number of words'
      throw refused(`${path}[${at}]`, pattern, accepted, 'Write "finding.*", not "finding*".')
    }
  }
}

/** Built-in strategy. It is a value, so that the table in index.ts can hold it and the runtime need not know it. */
export interface Strategy<Config extends { strategy: string } = { strategy: string }> {
  readonly strategy: Config['strategy']
  /** true: it gives tasks to agents that no option names, so the team's `taskRouting` has an effect. */
  readonly routes?: true
  /**
   * Returns the protocol that the configuration asks for.
   *
   * @param team the names of the team's agents, in order.
   * @throws {ConfigurationError} at once, with the path of the option that cannot work.
   */
  protocol(config: Config, team: readonly string[]): Protocol
  /**
   * Returns the settings of a team for a configuration that has been checked, with what the strategy changes before the
   * first run.
   *
   * @throws {ConfigurationError} for an option of the team that the strategy cannot work with.
   */
  prepare?(config: Config, settings: TeamSettings): TeamSettings
}
