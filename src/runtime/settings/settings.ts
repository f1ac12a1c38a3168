/**
 * Settings of a team, made of its options. The rest of the runtime never sees an option. Each option has its check and
 * its default in one place: `team-shape.ts`, or `role-shape.ts` for what a role may have too.
 */
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import type { RoundBounds } from '../../actors/definition/assignment.ts'
import type { HandoffFilter } from '../../actors/definition/protocol.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import type { Logger, ModelSchema } from '../../actors/definition/tool.ts'
import { type Filled, filled } from '../../shared/checks.ts'
import { type Scheduler, schedulerFrom, systemClock } from '../../shared/clock.ts'
import { type Environment, environment } from '../../shared/environment.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { LimitNotices } from '../logging/limit-notices.ts'
import { defaultLogger, guardedLogger } from '../logging/logger.ts'
import { Redactor, SecretVariables } from '../logging/redactor.ts'
import { Models, type RehearsedModels } from '../providers/models.ts'
import { rehearsalModel } from '../providers/rehearsal-model.ts'
import type { LogStore } from '../store/log-files.ts'
import {
  type AgentSettings,
  agentSettings,
  type BlackboardScope,
  blackboardScope,
  DELEGATION_BOUND,
  type DelegationBound,
  type LivelockBounds,
  livelockBounds,
  roundBounds,
  type SupervisionSettings,
  supervisionSettings,
} from './agent-settings.ts'
import { checkNames, checkNewName, folderFrom } from './module.ts'
import { Prices } from './money.ts'
import type {
  AgentRegistry,
  BudgetConfig,
  ConversationStore,
  TeamOptions,
  Telemetry,
  TenantsConfig,
  ThreadsConfig,
} from './options.ts'
import {
  type AgentGuards,
  communicationFields,
  deadlockFields,
  roleShape,
  schemaFrom,
  variablesIn,
} from './role-shape.ts'
import {
  checkMoney,
  type EndingState,
  keepFields,
  type SyncPointSettings,
  stateFields,
  syncPointsFrom,
  teamFields,
  teamShape,
  threadFields,
} from './team-shape.ts'
import { checkToolNames, namesAsSkills, type ToolSettings, toolSettings } from './tools.ts'

export interface ThreadSettings extends Readonly<Omit<Filled<typeof threadFields>, 'toolQueue'>> {
  /** Threads of tools, for each set of limits that tools have, and calls that may wait for one. */
  readonly tools: { readonly threads: number; readonly queue: number }
}

export function threadSettings(given: ThreadsConfig = {}): ThreadSettings {
  const { toolQueue: queue, ...threads } = filled(threadFields, given)
  return { ...threads, tools: { threads: given.tools ?? Math.max(2, availableParallelism()), queue } }
}

export type { AgentSettings, BlackboardScope, SupervisionSettings } from './agent-settings.ts'
export type { TeamOptions } from './options.ts'

/** Settings of a durable log. `commits`: what leaves the process waits until it would survive the machine's death. */
export interface DurableLog
  extends Readonly<Pick<Filled<typeof stateFields>, 'syncMs' | 'waitForLogMs' | 'onMismatch'>> {
  /** Folder of the log; undefined: `store` has it. */
  readonly path: string | undefined
  readonly store: LogStore | undefined
  readonly commits: boolean
  readonly resumes: 'start' | 'manual'
  readonly keep: KeepSettings
  readonly archive: string | undefined
  readonly endsWithSession?: readonly EndingState[]
}

export interface KeepSettings extends Readonly<Filled<typeof keepFields>> {
  /** Default: a day. */
  readonly keysMs?: number
}

/** `agents`: those that may speak, also if they come later. `filter`: makes what the next of them sees. */
export interface FloorSettings {
  readonly start: string
  readonly agents: ReadonlySet<string>
  readonly filter: HandoffFilter | undefined
}

export interface TeamSettings
  extends Filled<typeof teamFields>,
    Filled<typeof deadlockFields>,
    Pick<AgentSettings, 'modelTimeoutMs' | 'answerWithinMs'> {
  agents: AgentSettings[]
  /** Supervision of the protocol script, when it has a thread. */
  supervision: SupervisionSettings
  delegation: DelegationBound
  /** Set where agents share one conversation, and one of them speaks. */
  floor?: FloorSettings
  retries: number
  threads: ThreadSettings
  livelock: LivelockBounds | false
  /** Bounds at which the rounds of a model that the protocol script asks are a loop; false: no check. */
  loops: RoundBounds | false
  /** Scope of the blackboards: one for each run, for the team, or for each run whose agents use it, or none. */
  blackboard: BlackboardScope
  syncPoints: SyncPointSettings[]
  resolveFrom: string
  tools: ToolSettings
  models: Models
  limits: LimitNotices
  realTools: boolean
  budget: BudgetConfig
  prices: Prices | undefined
  tenants: TenantsConfig
  persistentFile?: string
  durableLog: DurableLog | undefined
  conversations: ConversationStore | undefined
  guards: AgentGuards
  output?: ModelSchema
  logger: Logger
  /** Redactor that knows the keys in the environment. Code that obtains another key adds it. */
  redactor: Redactor
  secrets: SecretVariables
  clock: Scheduler
  /**
   * Returns the settings of a role that comes later, at that path of the input: checked, and with the same defaults.
   * The role may name agents that are only expected.
   */
  newcomer(role: AgentRole, path: string, others: readonly string[], expected?: readonly string[]): AgentSettings
  registry: AgentRegistry | undefined
  telemetry: Telemetry | undefined
  /** True for a shard of a team over several processes. */
  inCluster: boolean
}

/**
 * Checks all options that can be checked without loading a module, and fills in the defaults. `given.modules` names the
 * agents whose definition is given, so that they need no module. `given.model` says that a client is given which stands
 * for every model. With `given.skillsInTools` a name in `tools` that is no verb is a skill. `given.file` is the file
 * that has called, from which packages are resolved by default.
 *
 * @throws ConfigurationError for the first option that is wrong.
 */
export function settingsFrom(
  options: TeamOptions,
  given: {
    modules?: ReadonlySet<string>
    model?: boolean
    rehearsed?: RehearsedModels
    realTools?: boolean
    skillsInTools?: boolean
    env?: Environment
    file?: string | undefined
  } = {},
): TeamSettings {
  teamShape(options, '')
  checkNames(options.agents)
  const syncPoints = syncPointsFrom(options.syncPoints ?? [], options.agents)
  const isGiven = ({ name }: AgentRole) => given.modules?.has(name) ?? false
  const { supervision, communication, enableBlackboard, tools = [], registry, threads, keys } = options
  const defaults = {
    ...structuredClone({ supervision, communication, enableBlackboard, threads, keys }),
    syncPoints,
    tools: [...tools],
    registry,
    guardrails: options.guardrails,
  }
  const clock = schedulerFrom(options.clock)
  const { env = environment() } = given
  const redactor = new Redactor()
  const secrets = new SecretVariables(
    () => given.env ?? environment(),
    [...(options.secretVariables ?? []), ...variablesIn(keys)],
    redactor,
    systemClock.monotonic,
  )
  secrets.look()
  const logger = options.logger ?? defaultLogger
  const limits = new LimitNotices(clock, guardedLogger(logger, redactor))
  const models = new Models(options.models, {
    env,
    clock,
    redactor,
    rehearsal: rehearsalModel,
    notice: (text) => logger.warn({}, text),
    limits,
    weights: options.tenants?.weights,
    ...(given.rehearsed && { rehearsed: given.rehearsed }),
  })
  const { input = [], output = [], tool = [] } = options.guardrails ?? {}
  const teamGuards: AgentGuards = { input: [...input], output: [...output], tool: [...tool] }
  const known = given.model ? { assertHas() {} } : models // that client stands for every model
  const read = given.skillsInTools ? namesAsSkills : (role: AgentRole) => role
  const agents = options.agents.map((role, i) =>
    locating(registry, role, i, () => agentSettings(read(role), `agents[${i}]`, options, isGiven(role), known)),
  )
  for (const agent of agents) checkToolNames(agent, agents)
  if (!given.model) checkMoney(options, () => models.named(agents.map(({ info }) => info.model)))
  const { retries, modelTimeoutMs, answerWithinMs } = filled(communicationFields, options.communication)
  return {
    agents,
    ...filled(teamFields, options),
    ...filled(deadlockFields, options.supervision),
    supervision: supervisionSettings(options),
    delegation: DELEGATION_BOUND,
    retries,
    modelTimeoutMs,
    answerWithinMs,
    threads: threadSettings(options.threads),
    livelock: livelockBounds(options.supervision?.livelock),
    loops: roundBounds(options.supervision?.livelock),
    blackboard: blackboardScope(enableBlackboard),
    syncPoints,
    resolveFrom: folderFrom(options.resolveFrom ?? given.file ?? process.cwd(), 'resolveFrom'),
    tools: toolSettings(tools, {}, 'orchestration'),
    models,
    limits,
    realTools: given.realTools ?? options.rehearsal?.realTools ?? false,
    budget: structuredClone(options.budget ?? {}),
    prices: options.prices && new Prices(options.prices),
    tenants: structuredClone(options.tenants ?? {}),
    durableLog: durableLogOf(options.stateManagement),
    ...(options.persistentFile && { persistentFile: resolve(options.persistentFile) }),
    conversations: options.conversations,
    guards: teamGuards,
    ...(options.output && { output: schemaFrom(options.output, 'output') }),
    logger,
    redactor,
    secrets,
    clock,
    registry: options.registry,
    telemetry: options.telemetry,
    inCluster: false,
    newcomer(role, path, others, expected = []) {
      roleShape(role, path)
      checkNewName(role, path, others, expected)
      const settings = agentSettings(read(role), path, defaults, isGiven(role), known)
      checkToolNames(settings, agents)
      return settings
    },
  }
}

function durableLogOf(given: TeamOptions['stateManagement']): DurableLog | undefined {
  if (!given) return undefined
  const { path, store, keep = {}, archive, endsWithSession } = given
  const place = { path: path === undefined ? undefined : resolve(path), store, archive: archive && resolve(archive) }
  const { durability, resume: resumes, ...waits } = filled(stateFields, given)
  const ending = endsWithSession && { endsWithSession: [...endsWithSession] }
  return { ...place, ...waits, ...ending, commits: durability === 'commit', resumes, keep: keepSettings(keep) }
}

/** Fills in what is not said about the finished runs that a log keeps. */
export function keepSettings(given: Partial<KeepSettings>): KeepSettings {
  return { ...filled(keepFields, given), ...(given.keysMs !== undefined && { keysMs: given.keysMs }) }
}

/** Adds the place in the registry's file to an error about a role that is written there. */
function locating<T>(registry: AgentRegistry | undefined, role: AgentRole, index: number, read: () => T): T {
  try {
    return read()
  } catch (error) {
    const isItsOwn = registry?.loaded[index] === role && error instanceof ConfigurationError
    throw (isItsOwn && registry.located?.(error)) || error
  }
}
