/** Verbs for messages: to one agent, to several agents, to subscribers, and to a person. */
import type { Blackboard, BlackboardEntry, WriteOptions } from '../../blackboard/entry.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import type { DramatisError } from '../../shared/errors.ts'

/** An agent's name with the types of its input and output. */
export interface AgentRef<In = unknown, Out = unknown> {
  readonly name: string
  readonly '~types'?: { input: In; output: Out }
}

/** An agent that a message is for: by its name, or by its name with its types (`agentRef`). */
export type Recipient<In = unknown, Out = unknown> = string | AgentRef<In, Out>

/** Input that each of the recipients takes. */
export type InputOf<To extends Recipient> = (
  To extends AgentRef<infer In>
    ? (input: In) => void
    : (input: unknown) => void
) extends (input: infer Both) => void
  ? Both
  : never

/** Output of any one of the recipients. */
export type OutputOf<To extends Recipient> = To extends AgentRef<unknown, infer Out> ? Out : unknown

/** Options of a question to a person. */
export interface AskOptions {
  /** The allowed answers; 1 to 100 texts. */
  choices?: readonly string[] | undefined
  /**
   * Time that the question stays open, in ms, but never longer than the run. Default: `communication.answerWithinMs`,
   * without which it has no limit.
   */
  answerWithinMs?: number | undefined
  /** Withdraws the question: its promise rejects with `CancelledError`. */
  signal?: AbortSignal | undefined
}

/** Options of a message. Durations in ms. */
export interface RequestOptions<In = unknown> {
  /** A JSON value beside the content; any other value is refused with its path. -0 arrives as 0. */
  structuredData?: In | undefined
  /** Priority, a 32-bit integer: higher overtakes lower in a mailbox. Default: 0. */
  priority?: number | undefined
  /** Limit for the answer, from the start of the callee's turn. Default: the callee's `responseTimeoutMs`. */
  timeoutMs?: number | undefined
  /**
   * true: `timeoutMs` counts the time of models too, and is for all tries of the turn together. Only the time in which
   * a person is asked does not count. Default: false.
   */
  wallClock?: boolean | undefined
  /**
   * Number of retries if there is no answer by the deadline; at most 126. Default: `communication.retries` of the
   * sender's role. A retry keeps the id of the request, and waits for the same turn once more: the work is not done
   * twice.
   */
  retries?: number | undefined
  /**
   * Allows the callee to do the work twice: a retry tells the late turn to stop, and starts it again with the steps
   * that it had finished. Default: false.
   */
  idempotent?: boolean | undefined
  /** Id of the conversation that the message belongs to. Default: that of the run. */
  threadId?: string | undefined
  /**
   * Has the request done by the agent of that key, for `request` alone: in a run of its own, in the conversation with
   * this id. In a cluster that is in the shard of the key, wherever that is, and the request is durable there. One
   * agent does the requests of one key one after the other. Beside it only `structuredData`, `metadata`, `priority`,
   * `timeoutMs` (from the begin of its run; people's answers do not count) and `signal` are taken.
   */
  key?: string | undefined
  /**
   * A JSON object that travels with the message. A model agent evaluates these fields:
   *
   * - `answerSchema`: the JSON schema that its answer has to fit.
   * - `answerFunction: { name, description }`, with `answerSchema`: a function that the model has to call with its
   *   answer, after it has used tools of its role if it wants to. A client that does not support functions answers with
   *   JSON.
   * - `answerContent`, with `answerSchema`: the field of its answer whose text is the `content` of the response. The
   *   answers of code agents without words of their own get it too.
   * - `inWords: true`: the content says everything that the data says.
   * - `lastSpeaker: true`: its answer is the run's answer.
   * - `verbs: [name, ...]`, from a protocol script: verbs that the model has as tools in that turn.
   */
  metadata?: object | undefined
  /**
   * Images, sounds and files for the callee, and texts between them. Default: none; for the protocol script, the parts
   * of the query if the content has the words of the query. See `AgentMessage.parts`.
   */
  parts?: readonly MessagePart[] | undefined
  /** Withdraws the request: its promise rejects with `CancelledError`, and its turn is told to stop. */
  signal?: AbortSignal | undefined
  /**
   * Marks an intended repetition: livelock detection (`supervision.livelock`) ignores this message. Default: false. The
   * recipient has to mark its own requests that follow from it.
   */
  polling?: boolean | undefined
}

/** Result of one of several requests: the answer, or the error. */
export type Outcome<Out = unknown> =
  | { agent: string; ok: true; message: AgentMessage<Out> }
  | { agent: string; ok: false; error: DramatisError }

/** Result of a sync point: the agents that arrived, and the data of each. */
export interface SyncResult<T = unknown> {
  /** Number of the meeting at this point in this run, from 1. */
  generation: number
  /** Agents that arrived, in the order of `requiredAgents`. `missing` has the same order. */
  arrived: string[]
  /** Required agents that had not arrived when the generation ended. */
  missing: string[]
  /** True if agents are missing: their time was up, one of them is gone for good, or the generation was given up. */
  timedOut: boolean
  /** Data by agent name, of the agents that brought data. Empty with `dataExchange: false`. */
  data: Record<string, T>
}

/** Verbs by which a turn sends messages, asks questions and subscribes to events. */
export interface ConversationContext {
  /**
   * Sends a request to an agent and waits for its answer, over restarts of the agent.
   *
   * Rejects with `UnknownAgentError`, `RequestTimeoutError`, `AgentFailedError` (its handler threw),
   * `AgentCrashedError` (the message crashed it more often than allowed), `OutcomeUnknownError`,
   * `AgentTerminatedError`, `TaskRefusedError`, `MailboxFullError`, `ChainDepthError` (a role's `reentrancy`),
   * `CancelledError`, or with `MessageRejectedError` for an invalid message.
   */
  request<In = unknown, Out = unknown>(
    to: Recipient<In, Out>,
    content: string,
    options?: RequestOptions<NoInfer<In>>,
  ): Promise<AgentMessage<Out>>
  /**
   * Requests an answer in pieces, as the other agent emits them. Leaving the loop withdraws the request. A redelivered
   * turn reads every piece from the first one on.
   *
   * A model agent emits only its answer. The answer comes as one piece if the model has tools, or a schema to fit. When
   * a part of its answer has been read, no option lets its turn run again, since it would give another answer.
   */
  requestStream<In = unknown, Out = unknown>(
    to: Recipient<In, Out>,
    content: string,
    options?: RequestOptions<NoInfer<In>>,
  ): AsyncIterable<string> & { readonly response: Promise<AgentMessage<Out>> }
  /**
   * Sends a request to several agents, `concurrency` at a time (default: all). A failure of an agent does not reject
   * it; it is an outcome. Outcomes are in the order of `to`.
   */
  requestAll<To extends Recipient>(
    to: readonly To[],
    content: string,
    options?: RequestOptions<InputOf<To>> & { concurrency?: number | undefined },
  ): Promise<Outcome<OutputOf<To>>[]>
  /**
   * Returns the first answer of several agents; the other requests are withdrawn. Rejects when all have failed, naming
   * each.
   */
  requestAny<To extends Recipient>(
    to: readonly To[],
    content: string,
    options?: RequestOptions<InputOf<To>>,
  ): Promise<AgentMessage<OutputOf<To>>>
  /**
   * Returns the first `count` answers of several agents, in order of arrival; the other requests are withdrawn.
   *
   * Rejects as soon as so many have failed that `count` answers are no longer possible: with `AgentFailedError`, which
   * names the failed agents and their errors, and in `details.answered` the agents that did answer. `count` is from 1
   * to the number of agents, and each agent is named once; otherwise it rejects with `MessageRejectedError` and sends
   * nothing.
   */
  requestQuorum<To extends Recipient>(
    to: readonly To[],
    count: number,
    content: string,
    options?: RequestOptions<InputOf<To>>,
  ): Promise<AgentMessage<OutputOf<To>>[]>
  /**
   * Sends a message without an answer. Resolves when the mailbox has accepted it, rejects when it is refused; many may
   * be in progress. `signal` withdraws it while it waits for space in a full mailbox.
   */
  send(to: Recipient, content: string, options?: RequestOptions): Promise<void>
  /**
   * Sends a message to the `observe` of every other agent: not to itself, not to the protocol script. The history shows
   * it once, with recipient null. It comes to each agent after the earlier messages of this turn to that agent.
   * `signal` withdraws it where it still waits for space.
   *
   * Resolves when each mailbox has accepted it. Rejects with `MessageRejectedError` if some were refused: the text and
   * `details.failures` name the agents and the reasons. Each refused one is a dead letter, and the other agents have
   * the message; a redelivered turn does not send it again.
   */
  broadcast(content: string, options?: RequestOptions): Promise<void>
  /**
   * Reports progress to the `observe` of the agent that `escalateTo` names, otherwise to '$orchestrator', the protocol
   * script. `data` is the message's `structuredData`. Resolves and rejects as `send` does.
   *
   * A script has no `observe`. Reports to it are in the run's history and trace, and are `message` events of type
   * report: a script that is a function can read `run.messageHistory` or `team.events`.
   */
  report(content: string, data?: object): Promise<void>
  /** Writes an entry on the blackboard; short for `blackboard.write`. */
  publish(key: string, value: unknown, entryType: string, options?: WriteOptions): Promise<BlackboardEntry>
  /**
   * Subscribes to entries of the blackboard: an entry whose key matches arrives at `observe` as a message of type
   * publish, in order. `*` matches one word, `**` any number of words. Each entry comes once, however often an agent
   * subscribes. The subscription survives the agent's restart and ends with the run. Rejects with `ConfigurationError`
   * if there is no `observe`, as in a protocol script: `blackboard.subscribe` takes a callback instead.
   */
  subscribe(pattern: string): Promise<void>
  /** The run's blackboard; rejects with `ConfigurationError` if the team has none (`enableBlackboard: false`). */
  readonly blackboard: Blackboard
  /**
   * Watches an agent. When it is gone for good, `observe` gets one message of type report from `$runtime`, with
   * `structuredData` `{ event: 'terminated', agent, reason }`; at once, if the agent is gone already.
   *
   * A restart is no end: an agent is gone when it has been stopped, for example after too many crashes. An agent that
   * is tried again after its cool-down can end again: call `watch` again to be notified of that. Each end is notified
   * once, however often an agent calls `watch`. A watch survives the restart of the watcher and ends with the run.
   *
   * Rejects with `UnknownAgentError`, and with `ConfigurationError` if there is no `observe`, as in a protocol script.
   */
  watch(agent: string): Promise<void>
  /**
   * Arrives at a sync point of the team (`syncPoints`) with `data`, a JSON value, and waits for the other required
   * agents. They have to meet in one run. When all have arrived, each gets the same result, and the next arrival opens
   * the next generation.
   *
   * A generation ends incomplete `timeoutMs` after its first arrival, or at once if an agent that it still waits for is
   * gone for good (a restart is no end). Then `onTimeout` decides what the waiting agents get: the result with
   * `missing` and `timedOut` ('proceed', 'notify'), or a rejection ('abort').
   *
   * An arrival is a step: it stays when the agent's thread ends, and the redelivered turn continues the same wait. It
   * is withdrawn with its turn.
   *
   * Rejects with `SyncPointTimeoutError` after 'abort'. It also does so for an agent that was missing when earlier
   * generations ended: its next arrival is late and does not count, and the one after that joins the generation that is
   * open then. Rejects with `ConfigurationError` for a point that is not declared and for an agent that the point does
   * not require, and with `MessageRejectedError` for an agent that waits there already, and for data that is not JSON.
   *
   * @example
   * const { data, missing } = await context.sync<number>('revealed', estimate)
   * const sum = Object.values(data).reduce((total, value) => total + value, 0)
   */
  sync<T = unknown>(point: string, data?: T): Promise<SyncResult<T>>
  /**
   * Asks a person: a `question` event of the run, which `run.answer(questionId, answer)` answers. Meanwhile the run's
   * status is 'waiting'. With `choices` the answer is one of them. A question stays open when the agent's thread ends,
   * and is asked once.
   *
   * Rejects with `RequestTimeoutError` if nobody has answered within `answerWithinMs` (default:
   * that of `communication`), with `MessageRejectedError` for an invalid question, and with
   * `ConfigurationError` in a turn that a message from outside of any run has caused: there is no handle of such a run.
   *
   * @example
   * const color = await context.ask('Which color?', { choices: ['red', 'blue'], answerWithinMs: 60_000 })
   */
  ask(question: string, options?: AskOptions): Promise<string>
}

/** Options of the message that carries a task, and a signal that withdraws the task. */
export type TaskMessageOptions = Pick<RequestOptions, 'metadata' | 'signal'>
