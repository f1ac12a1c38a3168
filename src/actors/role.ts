/** What a role is, as its user writes it, and what a thread gets to see of it. */
import type { Tool } from './tool.ts'

/** A declared ability: what goes in, what comes out, how sure the agent is (0 to 1). */
export interface Capability {
  name: string
  description?: string
  inputTypes?: string[]
  outputTypes?: string[]
  estimatedTokens?: number
  confidence?: number
}

/** What a thread gets of a role: data only. `context.role` is this, never AgentRole. */
export interface RoleInfo<Name extends string = string, Data = unknown> {
  name: Name
  description?: string
  systemPrompt?: string
  capabilities?: (string | Capability)[]
  model?: string
  temperature?: number
  /** The agent's context window, in tokens. */
  maxTokens?: number
  /** Of one completion, in tokens. */
  maxOutputTokens?: number
  /** Model-and-tool rounds a turn, then escalation. */
  maxRounds?: number
  delegationAllowed?: boolean
  canDelegateTo?: string[]
  canBeDelegatedTo?: boolean
  escalateTo?: string
  /** Who may read its agent_shared state. */
  sharedWith?: string[]
  /** Higher goes first when permits are scarce; 0. */
  priority?: number
  /** Of its vote; 1. null, NaN and Infinity are legal and mean that the majority decides. */
  weight?: number | null
  trust?: 'untrusted' | 'internal' | 'privileged'
  /** A JSON value for the agent's own use: `context.data`. */
  data?: Data
}

/** What full, slow and failing mailboxes do. Bytes and durations in ms. */
export interface CommunicationConfig {
  /** Messages; 1,024. */
  mailboxCapacity?: number
  /** Bytes of waiting frames; 1 MiB. A larger message is taken when nothing else waits. */
  mailboxBytes?: number
  /** Bytes of one encoded message; 16 MiB. */
  maxMessageBytes?: number
  overflow?: 'block' | 'reject' | 'drop_oldest' | 'drop_newest'
  /** From the start of the callee's turn; 60,000. */
  responseTimeoutMs?: number
  /** false: waiting in a mailbox ends with the run's deadline. */
  queueTimeoutMs?: number | false
  retries?: number
}

/** How an agent is kept alive. Rules 1 to 13 of supervision. Durations in ms. */
export interface SupervisionConfig {
  strategy?: 'one_for_one' | 'one_for_all' | 'rest_for_one'
  /** 3 restarts ... */
  maxRestarts?: number
  /** ... in 60,000 ms, then the agent is stopped for `coolDownMs`. */
  withinMs?: number
  /** base 200, cap 10,000. */
  backoff?: { baseMs?: number; capMs?: number }
  /** Attempts after which a message that kills its agent is a dead letter; 3. */
  poisonAttempts?: number
  onHandlerError?: 'fail' | 'retry' | 'restart'
  /** 5,000; off while a debugger is attached. */
  watchdogMs?: number | false
  /** 60,000: an agent stopped for good is tried again after this. */
  coolDownMs?: number
  /** 5,000: how long a cancelled handler and `stop` may take before the thread is terminated. */
  stopGraceMs?: number
  deadlock?: 'break' | 'report' | false
  confirmMs?: number
  livelock?: false | { maxStalledRounds?: number; maxRepeats?: number; maxMessagesWithoutProgress?: number }
}

export type ToolReference =
  | string
  | Tool
  | { module: URL | string; export?: string; isolate?: boolean; env?: string[]; limits?: { maxHeapMb?: number } }

export type ContextStrategy = { inherit?: 'none' | 'summary' | 'full' } & (
  | { strategy: 'append_until_full'; threshold?: number; keepRecent?: number }
  | { strategy: 'hierarchical'; historyKeep?: number }
  | { strategy: 'custom' }
)

/** One agent of a team. */
export interface AgentRole<Name extends string = string> extends RoleInfo<Name> {
  tools?: ToolReference[]
  /** Its code: a module whose default export is `defineAgent(...)`. A URL, an absolute path or a bare specifier. */
  module?: URL | string
  instances?: number
  concurrency?: number
  contextStrategy?: ContextStrategy
  reentrancy?: 'chain' | 'none'
  /** `turnTimeoutMs`: 300,000. */
  limits?: { maxHeapMb?: number; maxExternalMb?: number; turnTimeoutMs?: number | false }
  /** Names of the environment variables that its thread may see; no others exist there. */
  env?: string[]
  supervision?: Pick<
    SupervisionConfig,
    'maxRestarts' | 'withinMs' | 'backoff' | 'poisonAttempts' | 'onHandlerError' | 'watchdogMs' | 'stopGraceMs'
  > & { restart?: 'permanent' | 'transient' | 'temporary' }
  communication?: CommunicationConfig
}
