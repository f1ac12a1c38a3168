/** Settings of a `Cell`: those of an agent, or those of the runtime's own names. */
import type { RoundBounds } from '../../actors/definition/cycles.ts'
import type { ContextStrategy, RoleInfo } from '../../actors/definition/role.ts'
import type { AgentGuards } from '../settings/guardrail-shape.ts'
import type { Isolation } from '../settings/isolation.ts'
import type { AgentSettings, MailboxSettings, SupervisionSettings, TeamSettings } from '../settings/settings.ts'
import type { ToolSettings } from '../settings/tools.ts'

const MIB = 2 ** 20

export interface CellSettings {
  info: RoleInfo
  /** Place of the role in the team's options, for errors: `agents[0]`. */
  option: string
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
  verbs: readonly string[]
  loops: RoundBounds | false
  contextStrategy: ContextStrategy | undefined
  maxHeapMb: number | null
  maxExternalMb: number | null
  /** Number of turns that may be open in its thread, each of another run. */
  concurrency: number
  /** Number of threads that take messages from its mailbox. */
  instances: number
  /** 'chain': a request that one of its open turns has led to runs within that turn. */
  reentrancy: 'chain' | 'none'
  mailbox: MailboxSettings
  supervision: SupervisionSettings
  responseTimeoutMs: number
  modelTimeoutMs: number
  answerWithinMs: number | false
  queueTimeoutMs: number | false
  /** Number of times that a request of this agent is retried. */
  retries: number
  turnTimeoutMs: number | false
  env: readonly string[]
  tools: ToolSettings
  guards: AgentGuards
  /**
   * True for agents, false for the protocol script and for callers outside. Only turns of agents need a permit of the
   * run.
   */
  isAgent: boolean
  /** True if it may only answer and report (admission/trust.ts). */
  untrusted: boolean
}

/** Returns the settings of an agent. `option` is the agent's place in the team's options, for errors. */
export function agentCell(agent: AgentSettings, option: string): CellSettings {
  const {
    info,
    module,
    playedByModel,
    isolation,
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
    answerWithinMs,
    queueTimeoutMs,
    retries,
    turnTimeoutMs,
    env,
    tools,
    guards,
  } = agent
  return {
    info,
    option,
    module,
    playedByModel,
    isolation,
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
    answerWithinMs,
    queueTimeoutMs,
    retries,
    turnTimeoutMs,
    env,
    tools,
    guards,
    untrusted: info.trust === 'untrusted',
    isAgent: true,
  }
}

/** Returns the settings of one of the runtime's own names. They have no limits except on the size of a message. */
export function fixedCell(name: string, settings: TeamSettings): CellSettings {
  const { supervision, retries, modelTimeoutMs, answerWithinMs, tools, loops } = settings
  return {
    info: { name },
    option: 'orchestration',
    module: null,
    playedByModel: false,
    isolation: 'thread',
    verbs: [],
    loops,
    contextStrategy: undefined,
    maxHeapMb: null,
    maxExternalMb: null,
    concurrency: Number.MAX_SAFE_INTEGER,
    instances: 1,
    reentrancy: 'none', // nobody can send it a request
    mailbox: { capacity: 2 ** 30, bytes: 2 ** 30, maxMessageBytes: 16 * MIB, overflow: 'block' },
    supervision: { ...supervision, onHandlerError: 'fail' }, // a script that throws has failed
    responseTimeoutMs: Number.POSITIVE_INFINITY,
    modelTimeoutMs,
    answerWithinMs,
    queueTimeoutMs: false,
    retries,
    turnTimeoutMs: false,
    env: [],
    guards: { input: [], output: [], tool: settings.guards.tool },
    tools: { ...tools, modules: [], names: [], skills: [] }, // these run in the threads of agents
    untrusted: false,
    isAgent: false,
  }
}
