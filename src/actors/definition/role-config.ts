/** Options of mailboxes and messages, of a team or of one role, and of agents elsewhere. */
import type { ApprovalPolicy } from './tool.ts'

/** Sizes of mailboxes, their overflow policy, and time limits of messages. Sizes in bytes, durations in ms. */
export interface CommunicationConfig {
  /** Number of messages that a mailbox holds. Default: 1,024. */
  mailboxCapacity?: number
  /**
   * Bytes of waiting frames that a mailbox holds. Default: 1 MiB. A larger message is accepted when nothing else waits.
   */
  mailboxBytes?: number
  /** Bytes of one encoded message. Default: 16 MiB. */
  maxMessageBytes?: number
  /**
   * Policy for a message to a full mailbox.
   *
   * - 'block' (the default): the sender's verb waits, and no other agent does.
   * - 'reject': the sender gets `MailboxFullError`.
   * - 'drop_newest': the new message is dropped.
   * - 'drop_oldest': the new message replaces a waiting one with no higher priority: the oldest of the lowest priority.
   *   If that does not free enough space, the new message is dropped itself.
   *
   * A dropped message is a dead letter with reason `overflow`. The sender of a dropped request gets `MailboxFullError`
   * at once; the sender of a dropped send is not notified. A message whose turn has begun is never dropped.
   */
  overflow?: keyof typeof OVERFLOW_POLICIES
  /**
   * Limit for an answer, from the start of the callee's turn. Default: 60,000. The time does not count while that turn,
   * or a turn that it waits for by its requests, has a model call or a question to a person open: these have their own
   * limits.
   */
  responseTimeoutMs?: number
  /**
   * Limit of one model call of this agent, with its retries, its wait for the provider and for tokens. Default:
   * 300,000.
   */
  modelTimeoutMs?: number
  /**
   * Limit for a person's answer to a question of this agent (`ask`, approval of a tool). Default: false, which is until
   * the run ends. `answerWithinMs` of a question, or of a tool, takes precedence.
   */
  answerWithinMs?: number | false
  /**
   * Limit for the wait of a message in a mailbox, and for space in it. Default: false, which is until the run's
   * deadline.
   */
  queueTimeoutMs?: number | false
  /**
   * Number of retries of a request of this agent that has no answer by its deadline (`responseTimeoutMs`,
   * `queueTimeoutMs`). Default: 0. After the last retry its `escalateTo` gets a report, and the request fails.
   */
  retries?: number
  /**
   * Number of times that a turn of this agent is tried again after it threw or was late (`responseTimeoutMs`,
   * `limits.turnTimeoutMs`). Default: 1 for a role that a model plays, 0 for code, since what code did outside of steps
   * would be done twice. The next try begins when the one before has ended, at another of the role's `instances` where
   * one is free, with the steps that had finished.
   *
   * After the last try whoever asked gets the error, and the role's `escalateTo` gets a report. An error that no other
   * try can change is final at once: wrong options and schemas, budgets, refusals, cancellations, and an error of your
   * own with `final: true`. A late turn with a step under way that may not repeat ends with `OutcomeUnknownError`. With
   * `supervision.onHandlerError` set, that says how often a turn that threw is tried.
   */
  turnRetries?: number
}

/**
 * Options for restarts of agents, and for the detection of stuck, deadlocked and livelocked agents. Durations in ms.
 * Source: OTP's `supervisor` (restart intensity), capped exponential backoff.
 */
export interface SupervisionConfig {
  /**
   * Agents that restart together with a crashed agent.
   *
   * - 'one_for_one' (the default): no other agent.
   * - 'rest_for_one': those after it in `agents`.
   * - 'one_for_all': all agents.
   *
   * The others are ended at once, last first and without their `stop` hook, and all are started in order. The turns of
   * the others are redelivered and are not charged with the crash. The restarts of all agents count together. If they
   * are too many, these agents are stopped together. Source: OTP's `supervisor`.
   */
  strategy?: 'one_for_one' | 'one_for_all' | 'rest_for_one'
  /** Restarts that are allowed within `withinMs`. Default: 3. */
  maxRestarts?: number
  /** Time window for `maxRestarts`. Default: 60,000. With more restarts the agent is stopped for `coolDownMs`. */
  withinMs?: number
  /**
   * Delay of restarts. The first restart in a row is immediate. The next one waits `baseMs` (200), each later one twice
   * as long, up to `capMs` (10,000); each delay is multiplied by a random factor from 0.5 to 1.
   */
  backoff?: { baseMs?: number; capMs?: number }
  /**
   * Number of attempts after which a message that crashes its agent is a dead letter. Default: 3. Two crashes in the
   * same way are enough. With a durable log also the number of deaths of the process, in a row and at least 2, at which
   * its turn was open and got no further.
   */
  poisonAttempts?: number
  /**
   * Reaction to a handler that throws. 'fail' (the default): the caller gets `AgentFailedError`. 'retry': the turn runs
   * again, up to `poisonAttempts`. 'restart': the same in a new thread.
   */
  onHandlerError?: 'fail' | 'retry' | 'restart'
  /**
   * Silence of a thread with an open turn after which the thread is ended. Default: 5,000. Off while a debugger is
   * attached. Half of it holds for a thread that takes memory while its event loop does not turn: the process has grown
   * by 64 MiB. Such a thread is ended at once when that is half of the memory that the process may use.
   *
   * The time in which the thread ran or was blocked counts; the time in which it waited for a processor does not. On
   * Linux the kernel's figures of the thread tell them apart. Where these cannot be read (another system, or Node's
   * permission model), silence while the machine has no processor to spare counts with the processor time only (0
   * before Node 24.6). After ten times `watchdogMs` the thread is ended in any case. The message is not charged with
   * such a crash for its first `poisonAttempts`.
   */
  watchdogMs?: number | false
  /** Time after which an agent that was stopped is tried again. Default: 60,000. */
  coolDownMs?: number
  /** Time that a cancelled handler and the `stop` hook may take before the thread is terminated. Default: 5,000. */
  stopGraceMs?: number
  /**
   * Time after which what a turn does is told as slow: by `team.turns()`, `team.judgement()` and all faces. A number
   * holds for all kinds, false tells nothing. Nothing is ended by it, and waits for people are never slow.
   *
   * - `step`, `tool`, `model`: of one step, one call of a tool, one call of a model (120,000);
   * - `turn`: of a turn that does nothing that the runtime knows, as one that awaits a promise of its own, and of a
   *   wait that is none of the other kinds;
   * - `queued`: of a wait for a limit on how much runs at once.
   *
   * Default: 30,000 for each but `model`.
   */
  slowMs?: number | false | SlowMs
  /**
   * Reaction to turns that wait for each other, or for something that no agent can do any more. 'break' (the default):
   * names them at once in a `deadlock` or `stall` event and, after `confirmMs`, rejects one of their waits with
   * `DeadlockError` or `StallError`. 'report': only names them. false: does not look.
   */
  deadlock?: 'break' | 'report' | false
  /** Time that a deadlock must have lasted before it is broken. Default: 250. */
  confirmMs?: number
  /**
   * Finds agents that are busy without progress. Default: it watches model agents within their turns, and all messages
   * of a run in which a model asks somebody. It looks at a run of code alone now and then, from its 2,000th message or
   * answer on. An object watches code and the protocol from the first on, with these bounds. false watches nothing.
   *
   * In a turn of a model the signs are:
   *
   * - the same tool calls with the same results in `maxRepeats` (8) rounds in a row;
   * - two to eight rounds that come in the same order three quarters as often (6);
   * - the same error of a tool, whatever its input, twice as often (16).
   *
   * The model is told of each sign in the open turn, before its next round. The first and the second sign are also a
   * `livelock` event. The eighth in a row ends the turn with `LivelockError`, so 64 equal rounds end it. A round that
   * is new takes all signs back. A call that is marked as a poll begins a new count. The verbs of a model have a field
   * `polling`, its tools have one from the first notice on, and `defineTool({ polling: true })` marks all calls of a
   * tool.
   *
   * Among agents, progress is something that was not there before in this run: a message, a result to a question, the
   * output of a `step` or of a tool, an entry of the blackboard, another status of a task. Retries, restarts, and
   * word-for-word repetitions are not progress. Counted from the last progress, the signs are:
   *
   * - `maxStalledRounds` (24) rounds of the protocol; a round lasts from when its script waits for an agent until it
   *   waits for none;
   * - the same request or tool call with the same result `maxRepeats` (24) times, one after the other;
   * - the same error of one agent to another three quarters as often;
   * - two agents that write to each other and back half as often again;
   * - `maxMessagesWithoutProgress` (100) messages in a thread, each sent because of the one before;
   * - a task that is delegated or handed off back to an agent that had it, in the same words or for the third time.
   *
   * These are not signs: a message that is marked `polling: true`, an answer that comes too late, a retry after a
   * longer pause than all before, and a repetition while another agent waits for a model, a tool or a person.
   *
   * Signs are counted for each cause: the same agents, in the same words. The first sends a message of type report from
   * `$runtime` to the `observe` of the agents involved, with `structuredData { event: 'livelock', evidence }`. The
   * second is for the protocol: like the first it is a `livelock` event with the evidence. The third ends the run with
   * `LivelockError` if models alone take part. Code that counts in a variable looks the same as code that is stuck, so
   * with code the run goes on, unless `onFound` is 'end'; with 'report' no run and no turn of a model is ended. Each
   * sign is counted from the one before. Progress takes them back, but for a task that comes back in the same words.
   * Text that is new each time but says nothing is not found. Source: the stall counter of Magentic-One, the stuck
   * detector of OpenHands.
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
 * Call of a tool that a program behind a role wants to make. `kind`: read, edit, delete, move, search, execute, think,
 * fetch, switch_mode or other. `input`: what it says of the call, cut to what a person can be shown.
 */
export interface RemotePermission {
  readonly agent: string
  readonly runId: string
  readonly kind: string
  readonly title: string
  readonly input: unknown
}

/**
 * A program that speaks the Agent Client Protocol, as coding agents do. It is started with the first task, in a process
 * group of its own, and ended with the team. It works in `cwd` by itself: this process gives it no files and no
 * terminals. Needs the package @agentclientprotocol/sdk. Source: agentclientprotocol.com.
 *
 * @example
 * const coder: AgentRole = {
 *   name: 'coder',
 *   remote: { acp: { command: 'opencode', args: ['acp'], cwd: '/srv/shop', env: { PATH: process.env.PATH! } } },
 * }
 */
export interface AcpAgent {
  command: string
  args?: readonly string[]
  /** Folder that it works in, as an absolute path. */
  cwd: string
  /** Variables for it, beside the those that `env` and `keys` of the role name. It gets no others, PATH neither. */
  env?: Readonly<Record<string, string>>
  /**
   * Decision on a call of a tool that it asks permission for. 'ask' (the default): people are asked, as for a tool
   * with `approval`; 'yes' allows that call once. `{ by, groups, quorum }` says which people. 'deny': it is rejected. A
   * function decides; what it throws rejects.
   */
  permissions?:
    | 'ask'
    | 'deny'
    | Omit<ApprovalPolicy, 'when'>
    | ((asked: RemotePermission) => 'allow' | 'deny' | 'ask' | Promise<'allow' | 'deny' | 'ask'>)
  /** MCP servers for its sessions, as the protocol has them. */
  mcpServers?: readonly object[]
  /** Owner of its memory: a run (the default), or a thread (`threadId`), over runs and restarts. */
  session?: 'run' | 'thread'
  /** Id of the mode that its sessions work in, one of its own. */
  mode?: string
  /**
   * Says that a task may be gone on with after the program or this process has ended in the middle of it: the agent is
   * told to look at what is done. Default: false, which makes it an `OutcomeUnknownError`.
   */
  idempotent?: boolean
  /** Time that it has to start, and then to open a session, in ms. Default: 60,000. */
  startMs?: number
  /** Longest time without a word from it while no question to people is open, in ms. Default: 600,000. */
  idleMs?: number
  /** Time that it has to stop a cancelled task, in ms. Default: 10,000. Then it is ended. */
  cancelMs?: number
}

/**
 * An agent that speaks A2A 1.0 by JSON-RPC, such as a team that `httpApi({ a2a })` serves. What it asks, people are
 * asked, and a task that it has begun is gone on with after a broken connection or a restart. Source: a2a-protocol.org.
 *
 * @example
 * const url = 'https://legal.example.com'
 * const lawyer: AgentRole = { name: 'legal', remote: { a2a: { url, auth: () => process.env.LEGAL! } } }
 */
export interface A2aAgent {
  /** Address below which its card is, or that of the card itself (`.json`). */
  url: string
  /** Bearer token, or what returns it for each request. It is sent to the origin of `url` alone. Default: none. */
  auth?: string | (() => string | Promise<string>)
  /** Owner of its memory: a run (the default), or a thread (`threadId`), over runs and restarts. */
  session?: 'run' | 'thread'
  /**
   * Says that a message may be sent again whose outcome is not known. Default: false, which makes it an
   * `OutcomeUnknownError`, unless the agent says in its card that it begins each message once, as teams with a durable
   * log do.
   */
  idempotent?: boolean
  /** Longest time for which it may be away, in ms. Default: 600,000. */
  timeoutMs?: number
}

/** Address of the agent behind a role: of one kind. `a2a`: also its `url` alone. */
export type RemoteAgent = { acp: AcpAgent; a2a?: never } | { a2a: string | A2aAgent; acp?: never }

/** Times of `supervision.slowMs`, in ms; false: that kind is never slow. */
export interface SlowMs {
  turn?: number | false
  step?: number | false
  tool?: number | false
  model?: number | false
  queued?: number | false
}

/**
 * The overflow policies of mailboxes (`communication.overflow`): each row says what becomes of a message that finds no
 * room.
 */
interface OverflowPolicy {
  /** The sender's verb waits until there is room. */
  readonly waits: boolean
  /** A message that is not taken is refused: its sender gets the error. Else only requests are answered with it. */
  readonly refuses: boolean
  /** Waiting messages with no higher priority make room: the lowest priority first, then the oldest. */
  readonly displaces: boolean
  /** Ends the sentence of the error that says why the mailbox did not take a message. */
  readonly fate: string
}

export const OVERFLOW_POLICIES = {
  block: { waits: true, refuses: false, displaces: false, fate: 'its senders wait' },
  reject: { waits: false, refuses: true, displaces: false, fate: "its overflow policy is 'reject'" },
  drop_oldest: {
    waits: false,
    refuses: false,
    displaces: true,
    fate: "its overflow policy is 'drop_oldest', so this message was dropped",
  },
  drop_newest: {
    waits: false,
    refuses: false,
    displaces: false,
    fate: "its overflow policy is 'drop_newest', so what comes now is dropped",
  },
} as const satisfies Record<string, OverflowPolicy>

export type Overflow = keyof typeof OVERFLOW_POLICIES

export const policyOf = (overflow: Overflow): OverflowPolicy => OVERFLOW_POLICIES[overflow]

/** The names of the policies, for checks of options. */
export const OVERFLOWS = Object.keys(OVERFLOW_POLICIES) as [Overflow, ...Overflow[]]
