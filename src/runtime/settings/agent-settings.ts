/** One role with every default filled in. What the role says goes first, then the team, then the default. */
import type { RoundBounds } from '../../actors/definition/cycles.ts'
import type { AgentRole, CommunicationConfig, ContextStrategy, RoleInfo } from '../../actors/definition/role.ts'
import type { Overflow } from '../../mailbox/overflow.ts'
import type { Models } from '../providers/models.ts'
import { blackboardScope } from './blackboard-scope.ts'
import { contextStrategyOf } from './context-shape.ts'
import { roundBounds } from './livelock.ts'
import { moduleFrom } from './module.ts'
import { offeredVerbs } from './offered-verbs.ts'
import type { RestartType, Strategy, TeamOptions } from './options.ts'
import { infoFrom } from './role-info.ts'
import { type ToolSettings, toolSettings } from './tools.ts'
import { checkTrust } from './trust-checks.ts'
import { checkVerbs } from './verb-checks.ts'

/** How much may wait for an agent, and what happens beyond it. */
export interface MailboxSettings {
  /** Messages. */
  capacity: number
  /** Of waiting frames. */
  bytes: number
  /** Of one encoded message. */
  maxMessageBytes: number
  overflow: Overflow
}

/** How an agent is kept alive. Durations in ms. */
export interface SupervisionSettings {
  /** The team's. */
  strategy: Strategy
  restart: RestartType
  /** Infinity: for ever. */
  maxRestarts: number
  withinMs: number
  backoff: { baseMs: number; capMs: number }
  poisonAttempts: number
  onHandlerError: 'fail' | 'retry' | 'restart'
  /** false: nobody watches. */
  watchdogMs: number | false
  coolDownMs: number
  stopGraceMs: number
}

/** All that the runtime needs to know of one agent. Durations in ms. */
export interface AgentSettings {
  name: string
  /** As the user wrote it. */
  role: AgentRole
  /** What its thread sees of it: data alone, a frozen copy. */
  info: RoleInfo
  /** The href of a file: URL, or a bare specifier; null: the definition is given, nothing is imported. */
  module: string | null
  /** A language model plays it: there is no code. */
  playedByModel: boolean
  /** The verbs that a model has as tools. */
  verbs: string[]
  /** When the rounds of its model are a loop; false: nobody looks. */
  loops: RoundBounds | false
  /** How its model's context is chosen. */
  contextStrategy: ContextStrategy | undefined
  env: string[]
  /** null: Node's own limit. */
  maxHeapMb: number | null
  /** null: no limit but the machine's. */
  maxExternalMb: number | null
  turnTimeoutMs: number | false
  /** Turns that may be open in its thread at a time, each of another run. */
  concurrency: number
  /** Threads that take from its mailbox. */
  instances: number
  /** 'chain': a request that one of its open turns has led to runs within that turn. */
  reentrancy: 'chain' | 'none'
  mailbox: MailboxSettings
  responseTimeoutMs: number
  /** Of one call of a model. */
  modelTimeoutMs: number
  /** Of a question to a person; false: as long as the run. */
  questionTimeoutMs: number | false
  /** false: as long as the run. */
  queueTimeoutMs: number | false
  /** How often its own requests are asked again. */
  retries: number
  supervision: SupervisionSettings
  /** Its own, and those that all roles share. */
  tools: ToolSettings
}

/** Code may block its thread, so it has one turn at a time unless it says otherwise. The work of a model is waiting. */
const OF_CODE = { concurrency: 1, reentrancy: 'none' } as const
const OF_MODELS = { concurrency: 32, reentrancy: 'chain' } as const

/** What of the team's options speaks for each role that says nothing. */
type TeamDefaults = Pick<TeamOptions, 'communication' | 'supervision' | 'enableBlackboard' | 'tools' | 'registry'>

/**
 * The settings of the role at `path`. A role without code (`hasDefinition` says that it has some) is played by one of
 * `models`. Throws if its module cannot be one, or if there is no such model.
 */
export function agentSettings(
  role: AgentRole,
  path: string,
  team: TeamDefaults,
  hasDefinition: boolean,
  models: Pick<Models, 'assertHas'>,
): AgentSettings {
  const blackboard = blackboardScope(team.enableBlackboard)
  checkTrust(role, path)
  checkVerbs(role, path, blackboard)
  const own = role.communication ?? {}
  const all = team.communication ?? {}
  const module = role.module === undefined ? null : moduleFrom(role.module, `${path}.module`)
  const playedByModel = module === null && !hasDefinition
  if (playedByModel) models.assertHas(role.model, path)
  const defaults = playedByModel ? OF_MODELS : OF_CODE
  const shared = (role.trust !== 'untrusted' && team.tools) || []
  return {
    name: role.name,
    role,
    info: infoFrom(role),
    module: hasDefinition ? null : module,
    playedByModel,
    verbs: offeredVerbs(
      { ...role, tools: [...shared, ...(role.tools ?? [])] },
      blackboard,
      team.registry !== undefined,
    ),
    loops: roundBounds(team.supervision?.livelock),
    contextStrategy: contextStrategyOf(role, path, playedByModel),
    env: [...(role.env ?? [])],
    maxHeapMb: role.limits?.maxHeapMb ?? null,
    maxExternalMb: role.limits?.maxExternalMb ?? null,
    turnTimeoutMs: role.limits?.turnTimeoutMs ?? 300_000,
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
    supervision: supervisionSettings(team, role.supervision),
    tools: toolSettings(shared, role.tools, path),
  }
}

/** How long models and people may take. */
export function slowTimeouts(
  own: CommunicationConfig,
  all: CommunicationConfig,
): Pick<AgentSettings, 'modelTimeoutMs' | 'questionTimeoutMs'> {
  return {
    modelTimeoutMs: own.modelTimeoutMs ?? all.modelTimeoutMs ?? 300_000,
    questionTimeoutMs: own.questionTimeoutMs ?? all.questionTimeoutMs ?? 86_400_000,
  }
}

/** Of a role, or of what the team has besides. */
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
  }
}
