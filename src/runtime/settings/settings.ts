/** A team's options, checked, and with every default filled in. The rest of the runtime never sees an option. */
import type { RoundBounds } from '../../actors/definition/cycles.ts'
import type { Logger } from '../../actors/definition/logger.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import type { TaskRouting } from '../../actors/definition/routing.ts'
import { type Scheduler, schedulerFrom } from '../../clock.ts'
import { ConfigurationError } from '../../errors.ts'
import { defaultLogger } from '../logging/default-logger.ts'
import { LimitNotices } from '../logging/limit-notices.ts'
import { Redactor } from '../logging/redactor.ts'
import type { Environment } from '../logging/secret-variables.ts'
import { SecretVariables } from '../logging/secret-variables.ts'
import { Models, type RehearsedModels } from '../providers/models.ts'
import { rehearsalModel } from '../providers/rehearsal-model.ts'
import type { AgentRegistry } from './agent-registry.ts'
import {
  type AgentSettings,
  agentSettings,
  type SupervisionSettings,
  slowTimeouts,
  supervisionSettings,
} from './agent-settings.ts'
import { type BlackboardScope, blackboardScope } from './blackboard-scope.ts'
import { DELEGATION_BOUND, type DelegationBound } from './delegation-bound.ts'
import type { LivelockBounds } from './livelock.ts'
import { livelockBounds, roundBounds } from './livelock.ts'
import { folderFrom } from './module.ts'
import { checkNames, checkNewName } from './name-checks.ts'
import type { BudgetConfig, TeamOptions } from './options.ts'
import { roleShape } from './role-shape.ts'
import { type SyncPointSettings, syncPointsFrom } from './sync-points.ts'
import { teamShape } from './team-shape.ts'
import type { Telemetry } from './telemetry.ts'
import { checkSkills, type ToolSettings, type ToolsOf, toolSettings } from './tools.ts'
import { refuseUnavailable } from './unavailable.ts'

export type { AgentSettings, MailboxSettings, SupervisionSettings } from './agent-settings.ts'
export type { BlackboardScope } from './blackboard-scope.ts'
export type { TeamOptions } from './options.ts'

/** All that the runtime needs to know of a team. Durations in ms. */
export interface TeamSettings {
  /** In the order in which they were given. */
  agents: AgentSettings[]
  /** What is done about turns that wait for each other, and how long it must have stood before. */
  deadlock: 'break' | 'report' | false
  confirmMs: number
  /** Of the protocol script, when it has a thread. */
  supervision: SupervisionSettings
  delegation: DelegationBound
  /** How often requests of the script, and of callers outside, are asked again. */
  retries: number
  /** How long models and people may take that the protocol script asks. */
  modelTimeoutMs: number
  questionTimeoutMs: number | false
  /** Turns of one run at a time. */
  maxConcurrentAgents: number
  maxConcurrentRuns: number
  maxQueuedRuns: number
  /** Agents that one run may make. */
  maxSpawnedAgents: number
  globalTimeoutMs: number
  /** Threads kept ready for a restart. */
  warmSpares: number
  /** Of what is no progress in messages; false: nobody watches them. */
  livelock: LivelockBounds | false
  /** When the rounds of a model that the protocol script asks are a loop; false: nobody looks. */
  loops: RoundBounds | false
  /** One for each run, one for the team, one for a run whose agents use it, or none. */
  blackboard: BlackboardScope
  syncPoints: SyncPointSettings[]
  /** Where a script does not say how. */
  taskRouting: TaskRouting
  /** The folder from which packages that hold code are resolved. */
  resolveFrom: string
  /** Of the protocol script: those that all roles share. */
  tools: ToolSettings
  models: Models
  /** All tools run, also where the rehearsal model calls them. */
  realTools: boolean
  budget: BudgetConfig
  logger: Logger
  /** Knows the keys in the environment; whoever obtains another one tells it. */
  redactor: Redactor
  /** Tells the redactor of the secrets in the environment. */
  secrets: SecretVariables
  clock: Scheduler
  /** Of a role that comes later, at that path of what was given: checked, and with the same defaults. It may name others that are expected. */
  newcomer(role: AgentRole, path: string, others: readonly string[], expected?: readonly string[]): AgentSettings
  registry: AgentRegistry | undefined
  telemetry: Telemetry | undefined
}

/**
 * Checks all of the options that can be checked without loading a module, and fills in the defaults.
 * `given.modules` names the agents whose definition is at hand, so that they need no module; `given.model` says that a client
 * is at hand which is every model; `given.rehearsed` what a rehearsal makes of models; `given.env` is the environment, the
 * process's own by default.
 *
 * @throws ConfigurationError for the first option that is wrong or not there yet. `details` has its `path`, what it
 * `got` and what is `accepted`.
 *
 * @example
 * const settings = settingsFrom({ agents: [{ name: 'critic', module: new URL('./critic.js', import.meta.url) }] })
 * settings.agents[0].supervision.maxRestarts // 3
 */
export function settingsFrom(
  options: TeamOptions,
  given: {
    modules?: ReadonlySet<string>
    model?: boolean
    rehearsed?: RehearsedModels
    realTools?: boolean
    env?: Environment
  } = {},
): TeamSettings {
  teamShape(options, '')
  refuseUnavailable(options)
  checkNames(options.agents)
  const syncPoints = syncPointsFrom(options.syncPoints ?? [], options.agents)
  const isGiven = ({ name }: AgentRole) => given.modules?.has(name) ?? false
  const { supervision, communication, enableBlackboard, tools = [], registry } = options
  const defaults = { ...structuredClone({ supervision, communication, enableBlackboard }), tools: [...tools], registry }
  const clock = schedulerFrom(options.clock)
  const { env = process.env } = given
  const redactor = new Redactor()
  const secrets = new SecretVariables(env, options.secretVariables ?? [], redactor, () => performance.now())
  secrets.look()
  const logger = options.logger ?? defaultLogger
  const models = new Models(options.models, {
    env,
    clock,
    redactor,
    rehearsal: rehearsalModel,
    notice: (text) => logger.warn({}, text),
    limits: new LimitNotices(clock, logger),
    ...(given.rehearsed && { rehearsed: given.rehearsed }),
  })
  const known = given.model ? { assertHas() {} } : models // that client is every model
  const agents = options.agents.map((role, i) =>
    locating(registry, role, i, () => agentSettings(role, `agents[${i}]`, options, isGiven(role), known)),
  )
  for (const agent of agents) {
    checkSkills(agent, agents)
    noticeSkills(logger, agent, agents)
  }
  return {
    agents,
    deadlock: options.supervision?.deadlock ?? 'break',
    confirmMs: options.supervision?.confirmMs ?? 250,
    supervision: supervisionSettings(options),
    delegation: DELEGATION_BOUND,
    retries: options.communication?.retries ?? 0,
    ...slowTimeouts({}, options.communication ?? {}),
    maxConcurrentAgents: options.maxConcurrentAgents ?? 32,
    maxConcurrentRuns: options.maxConcurrentRuns ?? 100,
    maxQueuedRuns: options.maxQueuedRuns ?? 1_000,
    maxSpawnedAgents: options.maxSpawnedAgents ?? 64, // a runaway agent would take all threads of the machine
    globalTimeoutMs: options.globalTimeoutMs ?? 600_000,
    warmSpares: options.threads?.warmSpares ?? 1,
    livelock: livelockBounds(options.supervision?.livelock),
    loops: roundBounds(options.supervision?.livelock),
    blackboard: blackboardScope(enableBlackboard),
    syncPoints,
    taskRouting: options.taskRouting ?? 'capability_match',
    resolveFrom: options.resolveFrom === undefined ? process.cwd() : folderFrom(options.resolveFrom, 'resolveFrom'),
    tools: toolSettings(tools, [], 'orchestration'),
    models,
    realTools: given.realTools ?? options.rehearsal?.realTools ?? false,
    budget: structuredClone(options.budget ?? {}),
    logger,
    redactor,
    secrets,
    clock,
    registry: options.registry,
    telemetry: options.telemetry,
    newcomer(role, path, others, expected = []) {
      roleShape(role, path)
      checkNewName(role, path, others, expected)
      const settings = agentSettings(role, path, defaults, isGiven(role), known)
      checkSkills(settings, agents)
      noticeSkills(logger, settings, agents)
      return settings
    },
  }
}

/** A name that no tool has may be meant, as a skill that tasks name, or forgotten. */
function noticeSkills(logger: Logger, { name: agent, tools: { skills } }: ToolsOf, team: readonly ToolsOf[]): void {
  if (skills.length === 0) return
  const given = skills.filter((skill) => team.some(({ tools }) => tools.inline.some(({ tool }) => tool.name === skill)))
  const advice =
    given.length === 0
      ? ''
      : ` Other agents have ${given.join(', ')} as tools: if it is to have them too, give it the tools themselves.`
  const text = `Nobody defines ${skills.join(', ')} among the tools of "${agent}": tasks that name such a skill are routed to it, and its model cannot call it.${advice}`
  logger.warn({ agent, skills }, text)
}

/** What is wrong with a role that stands in a file is said with its place there. */
function locating<T>(registry: AgentRegistry | undefined, role: AgentRole, index: number, read: () => T): T {
  try {
    return read()
  } catch (error) {
    const isItsOwn = registry?.loaded[index] === role && error instanceof ConfigurationError
    throw (isItsOwn && registry.located?.(error)) || error
  }
}
