/** The verbs with which a turn talks: to one agent, to several, to whoever listens, and to a person. */
import type { Blackboard, BlackboardEntry, WriteOptions } from '../../../blackboard/entry.ts'
import type { DramatisError } from '../../../errors.ts'
import type { AgentMessage } from '../../../mailbox/message.ts'

/** An agent's name that knows the types of what it takes and answers. */
export interface AgentRef<In = unknown, Out = unknown> {
  readonly name: string
  readonly '~types'?: { input: In; output: Out }
}

/** What goes with a question to a person. */
export interface AskOptions {
  /** The answer is one of these; 1 to 100 texts. */
  choices?: string[]
  /** How long the question stays open, in ms; `communication.questionTimeoutMs` (a day), and never longer than the run. */
  timeoutMs?: number
  /** Withdraws the question: its promise rejects with `CancelledError`. */
  signal?: AbortSignal
}

/** What goes with a message. Durations in ms. */
export interface RequestOptions<In = unknown> {
  /** A JSON value beside the content; anything else is refused with its path. -0 arrives as 0. */
  structuredData?: In
  /** Higher overtakes lower in a mailbox; 0. A 32-bit integer. */
  priority?: number
  /** From the start of the callee's turn; its `responseTimeoutMs` by default. */
  timeoutMs?: number
  /**
   * How often it is asked again when there is no answer by its deadline; as `communication.retries` of the sender's role
   * says. At most 126. It keeps its id, and waits for the same turn once more: nobody does it twice.
   */
  retries?: number
  /**
   * It may be done twice: a retry tells the turn that is late to stop, and has it begin again with the steps that it had
   * finished. false.
   */
  idempotent?: boolean
  /** The conversation that the message belongs to; the run's by default. */
  threadId?: string
  /**
   * A JSON object that travels with the message. Of what is in it a role that a model plays knows some: `answerSchema`, the JSON
   * schema that its answer has to fit; beside it `answerFunction: { name, description }`, a function that the model has to call with
   * its answer, after tools of its role if it wants them (a client that knows no functions answers with JSON); `inWords: true`, the
   * content says all that the data says; `lastSpeaker: true`, its answer is the run's.
   */
  metadata?: object
  /** Withdraws the request: its promise rejects with `CancelledError`, and its turn is told to stop. */
  signal?: AbortSignal
  /**
   * true: repetition is meant, livelock detection (`supervision.livelock`) leaves this message alone. What its recipient asks
   * others because of it has to be marked by that one. false.
   */
  polling?: boolean
}

/** What came of one request of several: the answer, or why there is none. */
export type Outcome<Out = unknown> =
  | { agent: string; ok: true; message: AgentMessage<Out> }
  | { agent: string; ok: false; error: DramatisError }

/** Who met at a sync point, and what each brought. Source: document 002, 2.6.3. */
export interface SyncResult<T = unknown> {
  /** Counts the meetings at this point in this run, from 1. */
  generation: number
  /** In the order of `requiredAgents`, like `missing`. */
  arrived: string[]
  /** Required agents without which it ended. */
  missing: string[]
  /** It ended without some: their time was up, one of them is gone for good, or it was given up. */
  timedOut: boolean
  /** By the agent's name; of those that brought something. Empty with `dataExchange: false`. */
  data: Record<string, T>
}

/** What a turn says, asks and listens to. */
export interface ConversationContext {
  /**
   * Asks an agent and waits for its answer, over restarts of the agent.
   *
   * Rejects with `UnknownAgentError`, `RequestTimeoutError`, `AgentFailedError` (its handler threw),
   * `AgentCrashedError` (the message killed it more often than it may), `OutcomeUnknownError`, `AgentTerminatedError`,
   * `TaskRefusedError`, `MailboxFullError`, `ChainDepthError` (a role's `reentrancy`), `CancelledError`, or with
   * `MessageRejectedError` for what is no message.
   */
  request<In = unknown, Out = unknown>(
    to: string | AgentRef<In, Out>,
    content: string,
    options?: RequestOptions<NoInfer<In>>,
  ): Promise<AgentMessage<Out>>
  /**
   * Asks for an answer in pieces, as the other side emits them. Leaving the loop withdraws the request. A turn that is
   * tried again reads every piece from the first one on.
   *
   * What a role without code says in pieces is its answer and nothing else; it comes as one piece where the model has tools, or
   * a schema to fit. Its turn is not tried again, by whatever option, when a part of its answer has been read: it would say another.
   */
  requestStream(
    to: string,
    content: string,
    options?: RequestOptions,
  ): AsyncIterable<string> & { readonly response: Promise<AgentMessage> }
  /**
   * Asks several, `concurrency` at a time (all by default). Never rejects for a failure of theirs; in the order of
   * `to`.
   */
  requestAll(to: string[], content: string, options?: RequestOptions & { concurrency?: number }): Promise<Outcome[]>
  /** The first answer of several; the other requests are withdrawn. Rejects when all have failed, naming each. */
  requestAny(to: string[], content: string, options?: RequestOptions): Promise<AgentMessage>
  /**
   * The first `count` answers of several, in order of arrival; the other requests are withdrawn. Rejects as soon as so many
   * have failed that `count` answers cannot come any more: with `AgentFailedError`, which names who failed and why, and in
   * `details.answered` who did answer. `count` is from 1 to the number of agents, and each agent is named once; else it is a
   * `MessageRejectedError`, and nobody is asked.
   */
  requestQuorum(to: string[], count: number, content: string, options?: RequestOptions): Promise<AgentMessage[]>
  /**
   * A message that nobody answers. Resolves when the mailbox has accepted it, rejects when it is refused; many may be
   * under way. `signal` withdraws it while it waits for room in a full mailbox.
   */
  send(to: string, content: string, options?: RequestOptions): Promise<void>
  /**
   * To the `observe` of every other agent: not to itself, not to the protocol script. History shows it once, with recipient
   * null. Resolves when each mailbox has accepted it. Rejects with `MessageRejectedError` when some were refused: its text
   * and `details.failures` name who and why, each of these is a dead letter, and the others have it; a turn that is tried
   * again does not send it again. `signal` withdraws it where it still waits for room. It comes to each after what this
   * turn had sent them before.
   */
  broadcast(content: string, options?: RequestOptions): Promise<void>
  /**
   * Says how it goes: to the `observe` of the agent that `escalateTo` names, else to '$orchestrator', the protocol script.
   * `data` is the message's `structuredData`. Resolves and rejects as `send` does.
   *
   * A script has no `observe`. What is reported to it stands in the run's history and trace, and is a `message` event of type
   * report: a script given as a function can read `run.messageHistory` or `team.events`.
   */
  report(content: string, data?: object): Promise<void>
  /** Writes an entry on the blackboard: `blackboard.write` for short. */
  publish(key: string, value: unknown, entryType: string, options?: WriteOptions): Promise<BlackboardEntry>
  /**
   * Entries whose key fits arrive at `observe` as messages of type publish, in order. `*` is one word, `**` any number
   * of them. Each comes once, however often an agent subscribes; the subscription survives its restart and ends with the
   * run. Rejects with `ConfigurationError` where there is no `observe`, as in a protocol script.
   */
  subscribe(pattern: string): Promise<void>
  /** The run's blackboard; rejects with `ConfigurationError` where the team has none (`enableBlackboard: false`). */
  readonly blackboard: Blackboard
  /**
   * When that agent is gone for good, `observe` gets one message of type report from `$runtime`, with `structuredData`
   * `{ event: 'terminated', agent, reason }`; at once, if it is gone already. A restart is no end: the agent is gone when it
   * has been stopped, as one that dies too often. One that is tried again after its cool-down can end again: whoever wants to
   * hear of that watches again. However often an agent watches, it is told once of each end. A watch survives the restart of
   * the watcher and ends with the run.
   *
   * Rejects with `UnknownAgentError`, and with `ConfigurationError` where there is no `observe`, as in a protocol script.
   */
  watch(agent: string): Promise<void>
  /**
   * Arrives at a sync point of the team (`syncPoints`) with `data`, a JSON value, and waits for the other required agents.
   * They have to meet in one run. When all are there, everybody gets the same result, and the next arrival opens the next
   * generation. A generation ends without some `timeoutMs` after its first arrival, or at once where one of those it still
   * waits for is gone for good (a restart is no end). Then `onTimeout` says what who waits gets: the result with `missing`
   * and `timedOut` ('proceed', 'notify'), or a rejection ('abort').
   *
   * An arrival is a step: it stays when the agent's thread dies, and the turn that is tried again takes up the same wait. It
   * is withdrawn with its turn.
   *
   * Rejects with `SyncPointTimeoutError` where 'abort' says so; and for an agent without which generations have ended since
   * it was last there: its next arrival is late and does not count, the one after that arrives in the generation that is open
   * then. Rejects with `ConfigurationError` for a point that is not declared and for an agent that it does not require, and
   * with `MessageRejectedError` for an agent that waits there already, and for what is no JSON.
   *
   * @example
   * const { data, missing } = await context.sync<number>('revealed', estimate)
   * const sum = Object.values(data).reduce((total, value) => total + value, 0)
   */
  sync<T = unknown>(point: string, data?: T): Promise<SyncResult<T>>
  /**
   * Asks a person: a `question` event of the run, which `run.answer(questionId, answer)` answers; meanwhile the run's status is
   * 'waiting'. With `choices` the answer is one of them. A question stays open when the agent's thread dies, and is asked once.
   *
   * Rejects with `RequestTimeoutError` when nobody has answered within `timeoutMs` (`communication.questionTimeoutMs` by default), with
   * `MessageRejectedError` for what is no question, and with `ConfigurationError` in a turn that a message from outside of any
   * run has caused: nobody has a handle of that.
   *
   * @example
   * const color = await context.ask('Which color?', { choices: ['red', 'blue'], timeoutMs: 60_000 })
   */
  ask(question: string, options?: AskOptions): Promise<string>
}

/** What goes with a task beside it, and a signal that withdraws the task. */
export type TaskMessageOptions = Pick<RequestOptions, 'metadata' | 'signal'>
