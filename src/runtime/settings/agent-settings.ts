/** Settings of one role with all defaults. A value of the role comes first, then one of the team, then the default. */

import type { CommunicationConfig } from '../../actors/definition/communication-config.ts'
import type { RoundBounds } from '../../actors/definition/cycles.ts'
import type { AgentRole, ContextStrategy, RoleInfo } from '../../actors/definition/role.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import type { Overflow } from '../../mailbox/overflow.ts'
import { refusedAs } from '../checks/refused.ts'
import type { Models } from '../providers/models.ts'
import { blackboardScope } from './blackboard-scope.ts'
import { contextStrategyOf } from './context-shape.ts'
import { type AgentGuards, guardsOf } from './guardrail-shape.ts'
import { type Isolation, isolationOf } from './isolation.ts'
import { type HeldKeys, heldKeys } from './key-profiles.ts'
import { roundBounds } from './livelock.ts'
import { moduleFrom } from './module.ts'
import { offeredVerbs } from './offered-verbs.ts'
import type { RestartType, Strategy, TeamOptions } from './options.ts'
import { schemaFrom } from './output-shape.ts'
import { infoFrom } from './role-info.ts'
import { type SlowTimes, slowTimes } from './slow-times.ts'
import { type ToolSettings, toolSettings } from './tools.ts'
import { checkTrust } from './trust-checks.ts'
import { checkVerbs } from './verb-checks.ts'

/** Limits on the messages that may wait for an agent, and the behaviour beyond them. */
export interface MailboxSettings {
  /** Limit on messages. */
  capacity: number
  /** Limit on the bytes of waiting frames. */
  bytes: number
  /** Limit on the bytes of one encoded message. */
  maxMessageBytes: number
  overflow: Overflow
}

/** Supervision of an agent. Durations in ms. */
export interface SupervisionSettings {
  /** Strategy of the team. */
  strategy: Strategy
  restart: RestartType
  /** Infinity: no limit. */
  maxRestarts: number
  withinMs: number
  backoff: { baseMs: number; capMs: number }
  poisonAttempts: number
  onHandlerError: 'fail' | 'retry' | 'restart'
  /** false: no watchdog. */
  watchdogMs: number | false
  coolDownMs: number
  stopGraceMs: number
  slowMs: SlowTimes
}

/** Settings of one agent for the runtime. Durations in ms. */
export interface AgentSettings extends HeldKeys {
  name: string
  /** Role as the user wrote it. */
  role: AgentRole
  /** Data of the role that its thread sees: a frozen copy, data alone. */
  info: RoleInfo
  /**
   * Code of the agent: the href of a file: URL, or a bare specifier. null: the definition is given, nothing is
   * imported.
   */
  module: string | null
  /** True for a model agent: a language model plays the role, there is no code. */
  playedByModel: boolean
  /** 'shared': it may share its thread with other agents. */
  isolation: Isolation
  /** Verbs that a model has as tools. */
  verbs: string[]
  /** Bounds at which the rounds of its model are a loop; false: no check. */
  loops: RoundBounds | false
  /** Schema of the answers of its model. */
  output?: ModelSchema
  /** Strategy that chooses the context of its model. */
  contextStrategy: ContextStrategy | undefined
  /** Heap limit of its thread in MiB; null: Node's own limit. */
  maxHeapMb: number | null
  /** Limit on memory outside of the heap in MiB; null: no limit but the machine's. */
  maxExternalMb: number | null
  turnTimeoutMs: number | false
  /** Number of messages that a turn may send. Infinity: no limit. */
  messagesPerTurn: number
  /** Number of turns that may be open in its thread at a time, each of another run. */
  concurrency: number
  /** Number of threads that take messages from its mailbox. */
  instances: number
  /** 'chain': a request that one of its open turns has led to runs within that turn. */
  reentrancy: 'chain' | 'none'
  mailbox: MailboxSettings
  responseTimeoutMs: number
  /** Time limit of one call of a model. */
  modelTimeoutMs: number
  /** Time limit of a question to a person; false: as long as the run. */
  answerWithinMs: number | false
  /** Time limit of a message in the queue; false: as long as the run. */
  queueTimeoutMs: number | false
  /** Number of times that its own requests are retried. */
  retries: number
  /** Number of times that a turn which threw or was late is tried again. */
  turnRetries: number
  supervision: SupervisionSettings
  /** Tools of the role, and those that all roles share. */
  tools: ToolSettings
  /** Checks of what its model is asked and answers, and of its calls of tools. */
  guards: AgentGuards
}

/**
 * Defaults for code and model agents. Code may block its thread, so it has one turn at a time unless it says otherwise.
 * A model mostly waits, and all that its turns do stands in the log.
 */
const OF_CODE = {
  concurrency: 1,
  reentrancy: 'none',
  turnRetries: 0,
  messagesPerTurn: Number.POSITIVE_INFINITY,
} as const
const OF_MODELS = { concurrency: 32, reentrancy: 'chain', turnRetries: 1, messagesPerTurn: 1_000 } as const

/** Team options that apply to each role that sets nothing itself. */
type TeamDefaults = Pick<
  TeamOptions,
  | 'communication'
  | 'supervision'
  | 'enableBlackboard'
  | 'syncPoints'
  | 'tools'
  | 'registry'
  | 'guardrails'
  | 'threads'
  | 'keys'
>

/**
 * Returns the settings of the role at `path`. A role without code is a model agent, played by one of `models`;
 * `hasDefinition`: the code is given as a definition. Throws if its module cannot be one, or if there is no such model.
 */
export function agentSettings(
  role: AgentRole,
  path: string,
  team: TeamDefaults,
  hasDefinition: boolean,
  models: Pick<Models, 'assertHas'>,
): AgentSettings {
  const verbTeam = {
    blackboard: blackboardScope(team.enableBlackboard),
    syncPoints: team.syncPoints ?? [],
    hasRegistry: team.registry !== undefined,
  }
  checkTrust(role, path)
  checkVerbs(role, path, verbTeam)
  const own = role.communication ?? {}
  const all = team.communication ?? {}
  const module = role.module === undefined ? null : moduleFrom(role.module, `${path}.module`)
  const playedByModel = module === null && !hasDefinition
  if (playedByModel) models.assertHas(role.model, path)
  const defaults = playedByModel ? OF_MODELS : OF_CODE
  const shared = (role.trust !== 'untrusted' && team.tools) || []
  const tools = toolSettings(shared, role, path)
  const held = heldKeys(role, path, team.keys)
  return {
    name: role.name,
    role,
    info: infoFrom(role),
    module: hasDefinition ? null : module,
    playedByModel,
    isolation: isolationOf({ ...role, env: held.env }, path, { team: team.threads?.isolation, playedByModel, tools }),
    verbs: offeredVerbs({ ...role, tools: [...shared, ...(role.tools ?? [])] }, verbTeam),
    loops: roundBounds(team.supervision?.livelock),
    ...(role.output && { output: outputOf(role, path, role.output) }),
    contextStrategy: contextStrategyOf(role, path, playedByModel),
    ...held,
    maxHeapMb: role.limits?.maxHeapMb ?? null,
    maxExternalMb: role.limits?.maxExternalMb ?? null,
    turnTimeoutMs: role.limits?.turnTimeoutMs ?? 300_000,
    messagesPerTurn: role.limits?.messagesPerTurn ?? defaults.messagesPerTurn,
    concurrency: role.concurrency ?? defaults.concurrency,
    instances: role.instances ?? 1,
    reentrancy: role.reentrancy ?? defaults.reentrancy,
    mailbox: {
      capacity: own.mailboxCapacity ?? all.mailboxCapacity ?? 1_024,
      bytes: own.mailboxBytes ?? all.mailboxBytes ?? 2 ** 20,
      maxMessageBytes: own.maxMessageBytes ?? all.maxMessageBytes ?? 2 ** 24,
      overflow: own.overflow ?? all.overflow ?? 'block',
    },
    responseTimeoutMs: own.responseTimeoutMs ?? all.responseTimeoutMs ?? 60_000,
    ...slowTimeouts(own, all),
    queueTimeoutMs: own.queueTimeoutMs ?? all.queueTimeoutMs ?? false,
    retries: own.retries ?? all.retries ?? 0,
    turnRetries: own.turnRetries ?? all.turnRetries ?? defaults.turnRetries,
    supervision: supervisionSettings(team, role.supervision),
    tools,
    guards: guardsOf(role, path, team.guardrails, playedByModel),
  }
}

function outputOf({ module }: AgentRole, path: string, output: ModelSchema | object): ModelSchema {
  if (module === undefined) return schemaFrom(output, `${path}.output`)
  const advice = 'An agent with code has its output in defineAgent.'
  throw refusedAs(`${path}.output`, 'a schema beside a module', 'a schema of a role that a model plays', advice)
}

/** Returns the time limits for models and people. */
export function slowTimeouts(
  own: CommunicationConfig,
  all: CommunicationConfig,
): Pick<AgentSettings, 'modelTimeoutMs' | 'answerWithinMs'> {
  return {
    modelTimeoutMs: own.modelTimeoutMs ?? all.modelTimeoutMs ?? 300_000,
    answerWithinMs: own.answerWithinMs ?? all.answerWithinMs ?? false,
  }
}

/** Returns the supervision settings of a role, or of the team's other parts. */
export function supervisionSettings(team: TeamDefaults, own: AgentRole['supervision'] = {}): SupervisionSettings {
  const all = team.supervision ?? {}
  return {
    strategy: all.strategy ?? 'one_for_one',
    restart: own.restart ?? 'permanent',
    maxRestarts: own.maxRestarts ?? all.maxRestarts ?? 3,
    withinMs: own.withinMs ?? all.withinMs ?? 60_000,
    backoff: {
      baseMs: own.backoff?.baseMs ?? all.backoff?.baseMs ?? 200,
      capMs: own.backoff?.capMs ?? all.backoff?.capMs ?? 10_000,
    },
    poisonAttempts: own.poisonAttempts ?? all.poisonAttempts ?? 3,
    onHandlerError: own.onHandlerError ?? all.onHandlerError ?? 'fail',
    watchdogMs: own.watchdogMs ?? all.watchdogMs ?? 5_000,
    coolDownMs: all.coolDownMs ?? 60_000,
    stopGraceMs: own.stopGraceMs ?? all.stopGraceMs ?? 5_000,
    slowMs: slowTimes(own.slowMs, all.slowMs),
  }
}
