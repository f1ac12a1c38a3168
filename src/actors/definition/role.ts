/** What a role is, as its user writes it, and what a thread gets to see of it. */
import type { OVERFLOW_POLICIES } from '../../mailbox/overflow.ts'
import type { Tool } from './tool.ts'

/** A declared ability, by which tasks find their agent (`orchestrator.route`, auctions). Source: document 002, 2.1.2. */
export interface Capability {
  /** What a task names it by, in any letter case. */
  name: string
  /** What it entails: told to models that may give tasks to the agent, and to an auctioneer. */
  description?: string
  /** What goes in; anything, if it is left out. A task that says other types is not for it. */
  inputTypes?: string[]
  /** What comes out; anything, if it is left out. */
  outputTypes?: string[]
  /** What such a task takes, in tokens. Its agent gets none with fewer left, of `maxTokens` or of its budget. */
  estimatedTokens?: number
  /** How sure the agent is of it, from 0 to 1; 1, like a capability that is a name alone. */
  confidence?: number
}

/** What a thread gets of a role: data only. `context.role` is this, never AgentRole. */
export interface RoleInfo<Name extends string = string, Data = unknown> {
  name: Name
  description?: string
  /** What a model is told before all else: in a role without code, and before each `prompt` of `context.complete`. */
  systemPrompt?: string
  capabilities?: (string | Capability)[]
  /** A name in the team's `models`; by default `default`, or else the first. */
  model?: string
  /** From 0 to 2; the provider's own by default. */
  temperature?: number
  /** The window of its model, in tokens, with the answer; 128,000. `contextStrategy` keeps to it. */
  maxTokens?: number
  /** Of one completion, in tokens; less than `maxTokens`. An answer that it cuts off goes on as it is, with a warning in the log. */
  maxOutputTokens?: number
  /** Model-and-tool rounds a turn, then escalation; 12. */
  maxRounds?: number
  /**
   * Calls of tools and verbs at a time, of those that its model asks for in one answer; 32. 1 runs them one after the other, in the
   * order of the answer, for tools that cannot bear each other. A single such tool says `sequential: true` instead (`defineTool`).
   */
  maxParallelToolCalls?: number
  /** Whether it may give tasks to others; true. */
  delegationAllowed?: boolean
  /** To whom alone; names of agents of the team. Anybody by default. */
  canDelegateTo?: string[]
  /** Whether others may give tasks to it; true. */
  canBeDelegatedTo?: boolean
  /** Its manager: who is asked when it cannot go on, and gets its reports. */
  escalateTo?: string
  /** Who may read its agent_shared state. */
  sharedWith?: string[]
  /** Higher goes first when permits are scarce; 0. */
  priority?: number
  /** Of its vote; 1. null, NaN and Infinity are legal and mean that the majority decides. */
  weight?: number | null
  /**
   * 'untrusted': it may answer, and report to `escalateTo` and the protocol script, nothing else. 'internal' (the
   * default): also send and ask, delegate along the graph, use the blackboard, sync points and its tools. 'privileged': also
   * `spawn` and `defineAgent`. The host holds to it: what is refused is a dead letter, or stands in the log.
   */
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
  /**
   * 'block': the sender's verb waits, and nobody else does. 'reject': it gets `MailboxFullError`. 'drop_newest': what
   * comes is dropped. 'drop_oldest': it takes the place of what waits with no higher priority, of the lowest the oldest;
   * where that would not make room enough, it is dropped itself. What is dropped is a dead letter with reason `overflow`;
   * a request among it is answered with `MailboxFullError` at once, and a send is told nothing. A message whose turn has
   * begun is never dropped.
   */
  overflow?: keyof typeof OVERFLOW_POLICIES
  /**
   * From the start of the callee's turn; 60,000. The time does not count in which that turn, or one that it waits for by its requests,
   * has a call of a model or a question to a person under way: those have limits of their own.
   */
  responseTimeoutMs?: number
  /** How long one call of a model of this agent may take, with its retries, its wait for the provider and for tokens; 300,000. */
  modelTimeoutMs?: number
  /**
   * How long a person may take to answer a question of this agent (`ask`, approval of a tool); 86,400,000, which is a day.
   * `timeoutMs` of a question goes before it. false: until the run ends.
   */
  questionTimeoutMs?: number | false
  /** How long a message may wait in a mailbox, and for room in it; false: until the run's deadline. */
  queueTimeoutMs?: number | false
  /**
   * How often a request of this agent is asked again when there is no answer by its deadline (`responseTimeoutMs`,
   * `queueTimeoutMs`); 0. Then its `escalateTo` gets a report, and the request fails.
   */
  retries?: number
}

/**
 * How an agent is kept alive. Durations in ms. Source: OTP's `supervisor` (restart intensity), capped exponential
 * backoff.
 */
export interface SupervisionConfig {
  /**
   * Who is ended and started again with an agent that died: 'one_for_one' (the default): nobody else. 'rest_for_one': those
   * after it in `agents`. 'one_for_all': all. They are ended last first, at once and without their `stop` hook, and started
   * in order. The turns of the others come again and are not charged with the death; the restarts of all agents count
   * together, and when they are too many these agents are stopped together. Source: OTP's `supervisor`.
   */
  strategy?: 'one_for_one' | 'one_for_all' | 'rest_for_one'
  /** 3 restarts ... */
  maxRestarts?: number
  /** ... in 60,000 ms, then the agent is stopped for `coolDownMs`. */
  withinMs?: number
  /**
   * The first restart in a row is immediate; then base 200 ms, doubled each time up to 10,000, times 0.5 to 1 by
   * chance.
   */
  backoff?: { baseMs?: number; capMs?: number }
  /** Attempts after which a message that kills its agent is a dead letter; 3. */
  poisonAttempts?: number
  /**
   * 'fail': who asked gets `AgentFailedError`. 'retry': the turn again, up to `poisonAttempts`. 'restart': in a new
   * thread.
   */
  onHandlerError?: 'fail' | 'retry' | 'restart'
  /**
   * 5,000: silence of a thread with an open turn after which it is ended; off while a debugger is attached. The time counts in which
   * the thread ran or was blocked, not the time in which it waited for a processor: on Linux by the kernel's figures of the thread.
   * Where these cannot be read (another system, or Node's permission model), silence while the machine has no processor to spare
   * counts with the processor time alone (0 before Node 24.6), and after ten times `watchdogMs` the thread is ended in any case.
   * The message is not charged with such a death for its first `poisonAttempts`.
   */
  watchdogMs?: number | false
  /** 60,000: an agent stopped for good is tried again after this. */
  coolDownMs?: number
  /** 5,000: how long a cancelled handler and `stop` may take before the thread is terminated. */
  stopGraceMs?: number
  /**
   * What is done when turns wait for each other, or for nobody who could come: 'break' (the default) names them at once in a
   * `deadlock` or `stall` event and, after `confirmMs`, rejects one of their waits with `DeadlockError` or `StallError`;
   * 'report' names them alone; false does not look.
   */
  deadlock?: 'break' | 'report' | false
  /** 250: how long a deadlock must have stood before it is broken. */
  confirmMs?: number
  /**
   * Finds agents that are busy without progress. Left out, it watches what models do within their turns. An object also watches
   * all messages between agents, code and the protocol, with these bounds. false watches nothing.
   *
   * In a turn of a model these are signs: the same calls of tools with the same results in `maxRepeats` (8) rounds in a row; two
   * to eight rounds that come in the same order three quarters as often (6); the same error of a tool, whatever it is
   * given, twice as often (16). Each is told to the model in the open turn, before its next round. The first and the second are
   * an event, `livelock`; the eighth in a row ends the turn with `LivelockError`, so that 64 equal rounds end it. A round that
   * is new takes all of them back. A call that is marked as a poll begins a new count: the verbs of a model have a field
   * `polling`, its tools have one from the first notice on, and `defineTool({ polling: true })` marks all calls of a tool.
   *
   * Among agents progress is what was not there before in this run: a message, a result to a question, the output of a `step`
   * or of a tool, an entry of the blackboard, another status of a task. Retries, restarts, and what comes again word for word
   * are none. From the last progress on these are signs: `maxStalledRounds` (24) rounds of the protocol, from when its script
   * waits for somebody until it waits for nobody; the same request or call of a tool with the same result `maxRepeats` (24)
   * times, one after the other; the same error of one agent to another three quarters as often; two that write to each other
   * and back half as often again; `maxMessagesWithoutProgress` (100) messages in a thread, each sent because of the one
   * before; a task that is delegated or handed off back to one that had it, in the same words or for the third time. These are
   * none: a message that is marked `polling: true`, an answer that comes too late, a retry after a longer pause than all
   * before, and what comes again while somebody else is at a model, a tool or a person.
   *
   * The first of these signs sends a message of type report from `$runtime` to the `observe` of those involved, with
   * `structuredData { event: 'livelock', evidence }`. The second is there for the protocol: like the first it is an event,
   * `livelock`, with the evidence. Code that counts in a variable looks the same as code that is stuck, so the run goes on:
   * `onFound: 'end'` ends it at the third sign with `LivelockError`, and `'report'` ends no turn of a model either. Each sign is
   * counted from the one before, and progress takes all of them back. Text that is new each time and says nothing is not found.
   * Source: the stall counter of Magentic-One, the stuck detector of OpenHands.
   */
  livelock?:
    | false
    | {
        maxStalledRounds?: number
        maxRepeats?: number
        maxMessagesWithoutProgress?: number
        onFound?: 'report' | 'end'
      }
}

/**
 * A tool. What `defineTool` returns: it runs in the host. In a module (`export` 'default'): it is loaded with the agent and runs
 * in its thread; with `isolate: true` it runs in a thread of its own, which is ended when its time is up, has at most
 * `limits.maxHeapMb` of heap, and sees of the environment the variables that `env` names. A string is the name of a tool of the
 * team, or of a verb that a model is given as a tool: `delegate`, `ask_user`, `agent_status`, and others. Any other name is a
 * skill: tasks that name it are routed to the agent, its model cannot call it, and the log has a line about it when the team is
 * made. One that is nearly the name of a tool or a verb is refused.
 *
 * @example
 * const tools: ToolReference[] = [search, { module: new URL('./parse.js', import.meta.url), isolate: true }, 'delegate']
 */
export type ToolReference =
  | string
  | Tool
  | { module: URL | string; export?: string; isolate?: boolean; env?: string[]; limits?: { maxHeapMb?: number } }

/**
 * What of its conversation a model sees when that grows. By default 'append_until_full'. Source: document 003.
 *
 * 'append_until_full': all of it, until it takes `threshold` (0.8) of `maxTokens`, tools counted; then the last `keepRecent` (20)
 * messages, and one summary of the others, which the role's model makes: a step that is paid like any other. Where that fails
 * there is an excerpt, which says that it is one. 'hierarchical': the goal, the task and the sub-task, and the last `historyKeep` (12)
 * exchanges: what the model said, with the results of its tools. Sub-tasks are those that its tools `decompose_task` and
 * `mark_subtask_complete` have been told in the turn. 'custom': what `buildContext` of the definition returns.
 *
 * A call of a tool and its results stay together, the system prompt stays, and what is left out is counted in a message. Where
 * even that does not fit into `maxTokens`, older exchanges go, then the longest results of tools are shortened, with a note; where
 * the newest message alone does not fit the turn fails with `ConfigurationError`.
 *
 * `inherit`: what this agent's model is told of the conversation of a model that asks it or gives it a task. 'none' (the
 * default): what it is asked, and nothing else. 'summary': a summary, or the conversation itself where that is short. 'full': the
 * last 32,768 characters of it. It travels as `metadata.inherited`.
 */
export type ContextStrategy = { inherit?: 'none' | 'summary' | 'full' } & (
  | { strategy: 'append_until_full'; threshold?: number; keepRecent?: number }
  | { strategy: 'hierarchical'; historyKeep?: number }
  | { strategy: 'custom' }
)

/**
 * One agent of a team. What of it is data (`RoleInfo`) its thread sees as `context.role`.
 *
 * @example
 * const role: AgentRole = {
 *   name: 'critic',
 *   module: new URL('./critic.js', import.meta.url),
 *   data: { strictness: 3 },
 *   limits: { maxHeapMb: 256 },
 *   env: ['CRITIC_KEY'],
 * }
 */
export interface AgentRole<Name extends string = string> extends RoleInfo<Name> {
  /**
   * What it can call beside the tools of the team, each by a name of its own; and verbs that its model has as tools, beside those of
   * which its rights speak (`context.think`).
   */
  tools?: ToolReference[]
  /**
   * Its code: a module whose default export is `defineAgent(...)`. A URL, an absolute path or a bare specifier. Left out, a
   * model plays the role: each message is thought about (`context.think`) with what was said before in the same run.
   */
  module?: URL | string
  /**
   * Threads that take from one mailbox, from 1 to 256; 1. Each is a life of its own: it restarts alone, and is stopped alone
   * when it dies more often than `maxRestarts`; the agent is stopped when all of them are. Who sends to the name gets
   * whichever is free next, in the order of the mailbox, also for two messages of one run at once; `maxConcurrentAgents`
   * counts each turn. What the death of one cuts off another may try again, with the steps that were done. With more than
   * 1 the agent has no state: `initialState` and `initialRunState` are a `ConfigurationError`, and so are `setState` and
   * `setRunState`; what they have to share belongs on the blackboard. A model that plays the role
   * takes each message alone then. To `supervision.strategy` they stand one after the other.
   */
  instances?: number
  /**
   * Runs whose turns may be open in its thread at a time, from 1 to 256; 1, of models 32. One turn of a run at a time, and `maxConcurrentAgents`
   * counts each. For handlers that mostly wait: one that blocks the thread blocks all of them. With more than 1 the agent
   * has no state of its own: `initialState` is a `ConfigurationError`, and so is `setState`; the state of a run
   * (`initialRunState`, `setRunState`) works. After a crash with several turns open they come again one at a time, until
   * the guilty one is found. A message still never passes an earlier one of the same sender and priority that waits.
   */
  concurrency?: number
  /** What its model sees of its conversation, in a role without code and in `context.think`. */
  contextStrategy?: ContextStrategy
  /**
   * What becomes of a request that comes back: one that a turn of this agent has led to by its own requests, so that this
   * turn waits for what comes of it. 'none' (the default of code): it waits in the mailbox for the end of that turn, which
   * waits for it: a deadlock. 'chain' (the default of models): it runs within that turn, as a turn with an end, deadlines and a commit
   * of its own, as soon as that turn only waits for others; so a worker can ask the manager who awaits it.
   *
   * Of the turns of a run one works at a time: what the others wait for is let in when it waits itself, or has ended. They
   * share a permit (`maxConcurrentAgents`). The request passes all that waits in the mailbox, also what its own sender has
   * sent before, and a full mailbox takes it: those would wait for the turn that waits for it. Up to 8 turns of one chain
   * run within others; one more is refused with `ChainDepthError`. With the outer turn ends what it waits for, and so the
   * turn within it. After a death both come again, each with its steps; who was at work is charged. Between a request and
   * its answer the handler may run again, then: what it keeps in variables may have changed, and so may `state`
   * (`setState` loses nothing by it). A handler that holds a lock of its own over a request locks itself out. Source: Orleans'
   * call-chain reentrancy.
   */
  reentrancy?: 'chain' | 'none'
  /**
   * `maxHeapMb` of its thread's heap. `turnTimeoutMs` (300,000) of a turn, without the time in which it waits for models and people
   * as `responseTimeoutMs` has it, and of a start: its module and its start hook;
   * one that takes longer is a `StartFailedError`. `maxExternalMb` (no limit) of what its thread holds outside of the heap:
   * buffers, memories of WebAssembly and the like; not SharedArrayBuffers and shared memories, and before Node 22 not what a resizable
   * buffer has grown by: Node does not count them. It is looked at after turns, and every 250 ms while there is a turn; a thread that
   * holds more after a collection of garbage is ended, which counts as a crash. So it ends with what it takes in 250 ms beyond the
   * limit. A thread that blocks cannot say what it holds. From Node 22.16 on it is ended all the same at twice the limit and 256 MiB,
   * as garbage counts there; on an older Node when it goes on, or by `supervision.watchdogMs`.
   */
  limits?: { maxHeapMb?: number; maxExternalMb?: number; turnTimeoutMs?: number | false }
  /** Names of the environment variables that its thread may see; no others exist there. */
  env?: string[]
  /**
   * Goes before the team's. `restart`: 'permanent' (the default) lives again after every end of its thread. 'transient': only
   * after a crash; `process.exit(0)` is an end as it should be, unless another agent takes it along later
   * (`strategy`). 'temporary': never. An agent that does not live again is stopped: who waits for it gets
   * `AgentTerminatedError`, and its messages are dead letters. Source: OTP's `supervisor`.
   */
  supervision?: Pick<
    SupervisionConfig,
    'maxRestarts' | 'withinMs' | 'backoff' | 'poisonAttempts' | 'onHandlerError' | 'watchdogMs' | 'stopGraceMs'
  > & { restart?: 'permanent' | 'transient' | 'temporary' }
  /** Goes before the team's. */
  communication?: CommunicationConfig
}
