/** What cells are made with: an agent's settings, or those of the runtime's own names. */
import type { RoundBounds } from '../../actors/definition/cycles.ts'
import type { ContextStrategy, RoleInfo } from '../../actors/definition/role.ts'
import type { AgentSettings, MailboxSettings, SupervisionSettings, TeamSettings } from '../settings/settings.ts'
import type { ToolSettings } from '../settings/tools.ts'

const MIB = 2 ** 20

export interface CellSettings {
  info: RoleInfo
  /** Where its role stands in the team's options, for errors: `agents[0]`. */
  option: string
  /** Its code: the href of a file: URL, or a bare specifier; null: the definition is given, nothing is imported. */
  module: string | null
  /** A language model plays it: there is no code. */
  playedByModel: boolean
  /** The verbs that a model has as tools. */
  verbs: readonly string[]
  loops: RoundBounds | false
  contextStrategy: ContextStrategy | undefined
  maxHeapMb: number | null
  maxExternalMb: number | null
  /** How many turns may be open in its thread, each of another run. */
  concurrency: number
  /** How many threads take from its mailbox. */
  instances: number
  /** 'chain': a request that one of its open turns has led to runs within that turn. */
  reentrancy: 'chain' | 'none'
  mailbox: MailboxSettings
  supervision: SupervisionSettings
  responseTimeoutMs: number
  modelTimeoutMs: number
  questionTimeoutMs: number | false
  queueTimeoutMs: number | false
  /** How often a request of this one is asked again. */
  retries: number
  turnTimeoutMs: number | false
  env: readonly string[]
  tools: ToolSettings
  /** Needs a permit of the run for its turns. The protocol script does not. */
  counted: boolean
  /** It may answer and report alone (admission/trust.ts). */
  untrusted: boolean
}

/** `option`: where the agent stands in the team's options, for errors. */
export function agentCell(agent: AgentSettings, option: string): CellSettings {
  const {
    info,
    module,
    playedByModel,
    verbs,
    loops,
    contextStrategy,
    maxHeapMb,
    maxExternalMb,
    concurrency,
    instances,
    reentrancy,
    mailbox,
    supervision,
    responseTimeoutMs,
    modelTimeoutMs,
    questionTimeoutMs,
    queueTimeoutMs,
    retries,
    turnTimeoutMs,
    env,
    tools,
  } = agent
  return {
    info,
    option,
    module,
    playedByModel,
    verbs,
    loops,
    contextStrategy,
    maxHeapMb,
    maxExternalMb,
    concurrency,
    instances,
    reentrancy,
    mailbox,
    supervision,
    responseTimeoutMs,
    modelTimeoutMs,
    questionTimeoutMs,
    queueTimeoutMs,
    retries,
    turnTimeoutMs,
    env,
    tools,
    untrusted: info.trust === 'untrusted',
    counted: true,
  }
}

/** The runtime's own names: no limits but that of a message's size. */
export function fixedCell(name: string, settings: TeamSettings): CellSettings {
  const { supervision, retries, modelTimeoutMs, questionTimeoutMs, tools, loops } = settings
  return {
    info: { name },
    option: 'orchestration',
    module: null,
    playedByModel: false,
    verbs: [],
    loops,
    contextStrategy: undefined,
    maxHeapMb: null,
    maxExternalMb: null,
    concurrency: Number.MAX_SAFE_INTEGER,
    instances: 1,
    reentrancy: 'none', // nobody can ask it
    mailbox: { capacity: 2 ** 30, bytes: 2 ** 30, maxMessageBytes: 16 * MIB, overflow: 'block' },
    supervision: { ...supervision, onHandlerError: 'fail' }, // a script that throws has failed
    responseTimeoutMs: Number.POSITIVE_INFINITY,
    modelTimeoutMs,
    questionTimeoutMs,
    queueTimeoutMs: false,
    retries,
    turnTimeoutMs: false,
    env: [],
    tools: { ...tools, modules: [], names: [], skills: [] }, // those run in the threads of agents
    untrusted: false,
    counted: false,
  }
}
