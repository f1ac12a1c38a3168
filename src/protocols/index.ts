/** Table of the built-in strategies, and the types of their configurations. */
import { type CustomConfig, checkedResult, type Protocol } from '../actors/definition/protocol.ts'
import { jsonIssue } from '../mailbox/message.ts'
import { depthBound, MAX_DELEGATION_DEPTH } from '../runtime/settings/agent-settings.ts'
import { moduleFrom } from '../runtime/settings/module.ts'
import type { TeamOptions } from '../runtime/settings/options.ts'
import type { TeamSettings } from '../runtime/settings/settings.ts'
import { type Check, integer, isObject, oneOf, reading, refused, refusedAs, rule, shape } from '../shared/checks.ts'
import { nearest } from '../shared/text.ts'
import { type AuctionConfig, auction } from './auction.ts'
import { type BlackboardConfig, blackboard } from './blackboard.ts'
import { type CollaborateConfig, collaborate } from './collaborate.ts'
import { type ConsensusConfig, consensus } from './consensus.ts'
import { type DebateConfig, debate } from './debate.ts'
import { type HandoffConfig, handoff } from './handoff.ts'
import { type HierarchicalConfig, hierarchical } from './hierarchical.ts'
import { type ParallelConfig, parallel } from './parallel.ts'
import { type SequentialConfig, sequential } from './sequential.ts'
import type { AgentName, AnyAgent, Strategy, Unnamed } from './strategy.ts'
import { type SupervisorConfig, supervisor } from './supervisor.ts'

/* Strategy `custom`: the user's own protocol. It has the same verbs as the built-in ones, and no others. */

export type { CustomConfig } from '../actors/definition/protocol.ts'

/** Runs a closure in the host, under its `name`, or a module in a worker thread, under the name in its definition. */
const custom: Strategy<CustomConfig> = {
  strategy: 'custom',
  routes: true,
  protocol(config) {
    if ('module' in config) {
      moduleOptions(config, 'orchestration')
      return { name: 'custom', module: moduleFrom(config.module, 'orchestration.module'), config: config.config }
    }
    closureOptions(config, 'orchestration')
    const { name = 'custom', run } = config
    return {
      name,
      run: async (orchestrator, query) => checkedResult(name, await run(orchestrator, query)),
      foreign: true,
      text: String(run),
    }
  },
  prepare: ({ maxDelegationDepth }, settings) =>
    maxDelegationDepth === undefined ? settings : { ...settings, delegation: depthBound(maxDelegationDepth) },
}

const closureOptions = shape<Extract<CustomConfig, { run: unknown }>>(
  {
    strategy: oneOf('custom'),
    maxDelegationDepth: integer(1, MAX_DELEGATION_DEPTH),
    name: rule('a name', (name) => typeof name === 'string' && name !== ''),
    run: rule(
      'a function (orchestrator, query) => answer; or "module" in its place',
      (run) => typeof run === 'function',
    ),
  },
  'run',
)

/** Checks for a plain JSON object, because a thread gets a copy of it and the log stores one. */
const jsonObject: Check = (value, path) => {
  if (!isObject(value)) throw refused(path, value, 'an object')
  const issue = jsonIssue(value, path)
  if (issue) throw refusedAs(issue.path, issue.got, 'a JSON value')
}

const moduleOptions = shape<Extract<CustomConfig, { module: unknown }>>(
  {
    strategy: oneOf('custom'),
    maxDelegationDepth: integer(1, MAX_DELEGATION_DEPTH),
    module: rule('a URL or a string', (module) => module instanceof URL || typeof module === 'string'),
    config: jsonObject,
  },
  'module',
)

/** Configuration of a built-in strategy. */
export type BuiltInConfig<Name extends AgentName> =
  | SequentialConfig<Name>
  | ParallelConfig<Name>
  | AuctionConfig<Name>
  | BlackboardConfig<Name>
  | ConsensusConfig<Name>
  | DebateConfig<Name>
  | HierarchicalConfig<Name>
  | CollaborateConfig<Name>
  | HandoffConfig<Name>
  | SupervisorConfig<Name>

/**
 * Way in which a team works together. `Name` is the type of its agents' names, so that a misspelt name does not
 * compile. Without it any names are taken, and are checked when the team is made.
 */
export type OrchestrationConfig<Name extends string = AnyAgent> = BuiltInConfig<Name> | CustomConfig<Name>

/** A configuration whose type names no agents. */
export type UnnamedConfig = BuiltInConfig<Unnamed>

const strategies: readonly Strategy[] = [
  sequential,
  parallel,
  auction,
  blackboard,
  consensus,
  debate,
  hierarchical,
  collaborate,
  handoff,
  supervisor,
  custom,
]

/**
 * Returns the protocol that a configuration asks for.
 *
 * @param team the names of the team's agents, in order.
 * @throws {ConfigurationError} with the path of the first option that cannot work.
 *
 * @example
 * protocolFrom({ strategy: 'sequential', agentOrder: ['writer', 'editor'] }, ['writer', 'editor']).name // 'sequential'
 */
export function protocolFrom(config: OrchestrationConfig, team: readonly string[]): Protocol {
  return strategyOf(config).protocol(config, team)
}

/**
 * Checks for a team's options by which tasks go to whoever names a skill: then a name in `tools` may be one. Any value
 * is taken: the checks that follow refuse what is no team.
 */
export function routesBySkills(options: unknown): boolean {
  try {
    return Object(Object(options).orchestration).strategy === 'collaborate'
  } catch {
    return false
  }
}

/**
 * Returns the settings of a team for a configuration from which the protocol has already been made.
 *
 * @param given the team's options as they were written: an option that the strategy would ignore is no default.
 * @throws {ConfigurationError} for an option of the team that the strategy cannot work with.
 */
export function preparedFor(
  config: OrchestrationConfig,
  settings: TeamSettings,
  given: Pick<TeamOptions, 'taskRouting'>,
): TeamSettings {
  const { strategy, routes, prepare } = strategyOf(config)
  if (given.taskRouting !== undefined && !routes) {
    const routing = strategies.flatMap((one) => (one.routes ? `"${one.strategy}"` : [])).join(' and ')
    const advice = `Leave it out: under "${strategy}" no task is routed; ${routing} route tasks.`
    throw refused('taskRouting', given.taskRouting, `no value under the strategy "${strategy}"`, advice)
  }
  return prepare?.(config, settings) ?? settings
}

function strategyOf(config: OrchestrationConfig): Strategy {
  if (!isObject(config)) throw refused('orchestration', config, 'an object with a strategy')
  const path = 'orchestration.strategy'
  const wanted: unknown = reading(path, () => config.strategy)
  const known = strategies.find(({ strategy }) => strategy === wanted)
  if (known) return known
  const available = strategies.map(({ strategy }) => strategy)
  const meant = typeof wanted === 'string' ? nearest(wanted, available) : undefined
  throw refused(path, wanted, available.join(', '), meant && `Did you mean "${meant}"?`)
}
