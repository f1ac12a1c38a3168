/** Handle of a run for its caller: its result, its events as they happen, and a way to end it. */
import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import type { ModelMessage, TokenUsage } from '../../actors/definition/model.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import type { BlackboardView } from '../../blackboard/read-only.ts'
import type { ConfigurationError, ErrorCode } from '../../errors.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { onAbort } from '../../on-abort.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { TokenLimit } from '../settings/options.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import { answerQuestion, type OpenQuestionInfo, openQuestionsOf } from '../verbs/open-question.ts'
import { type EventPosition, readPosition } from './event-position.ts'
import { EventReader } from './event-reader.ts'
import { readTypes } from './event-types.ts'
import type { EventSource, RuntimeEvent } from './events.ts'
import type { MultiAgentResult } from './result.ts'
import type { RunStatus, RunSummary } from './run-list.ts'
import { STREAMED, type StreamPart, StreamParts } from './stream-parts.ts'
import { historyOf, traceOf } from './trace.ts'
import type { OrchestrationTrace } from './trace-types.ts'

/** Options of one run that differ from the team's defaults; undefined is as good as left out. Durations in ms. */
export interface RunOptions<T = undefined> {
  /** Signal that aborts the run. */
  signal?: AbortSignal | undefined
  /** Time limit of the run. Default: the team's `globalTimeoutMs`. */
  timeoutMs?: number | undefined
  /** Priority in the queue of runs; higher first. */
  priority?: number | undefined
  /** Id of the run. Same id and query: joins that run; other query: ConfigurationError. */
  runId?: string | undefined
  /**
   * Thread of the run. Runs of one thread continue the conversations of model agents. A run begins with the
   * conversation that an agent had when it first heard of the run. Two concurrent runs do not see each other. The next
   * run sees both, in the order in which their turns ended. Conversations are kept in memory: up to 1,000 conversations
   * and 64 Mi characters per team; beyond that the least recently used ones are dropped. The conversations of an agent
   * are dropped when it is removed.
   */
  threadId?: string | undefined
  /**
   * Metadata for the agents to read: `context.run.metadata`. In a team with `telemetry` the run continues the trace
   * that `traceparent` (and `tracestate`, in the format of W3C Trace Context) names. Agents then read the run's own
   * place in that trace.
   */
  metadata?: Record<string, string> | undefined
  /**
   * Replacement models for this run. A key is a model name that roles use (`default` for roles that name none). Its
   * value is the name of another entry of the team's `models`, or of another model of the same provider.
   */
  models?: Record<string, string> | undefined
  /** Token budget of this run. A limit given here replaces the same limit in the team's `budget.perRun`. */
  budget?: TokenLimit | undefined
  /**
   * Schema for the answer's structured data, or its text, or the JSON in that text; `result.data` is what the schema
   * returns. A model agent that speaks last is asked for its answer in this schema, and once more if the answer does
   * not fit. The built-in strategies know the last speaker. A script of your own marks the request whose answer is the
   * run's with `metadata: { lastSpeaker: true }`. A later process has `result.data` as JSON has it.
   */
  output?: ModelSchema<unknown, T> | undefined
  /**
   * true: models answer in pieces, as `run.text()` and `run.stream()` show them, whether or not anyone reads. false: a
   * broken answer of the last speaker can always be retried. Default: true for `launch` and `stream`, false for
   * `execute`.
   */
  stream?: boolean | undefined
  /**
   * Conversation so far, which is kept by you: messages of role 'user', 'assistant' and 'tool'. All model agents of the
   * team begin the run with it, those without tools without the calls of tools. `result.messages` has it with the
   * query and the answer, for the next run. Not together with `threadId`. At most 2,000 messages and 4 Mi characters.
   */
  messages?: readonly ModelMessage[] | undefined
}

/** Options of `team.resume`: what a run does not keep in its log. */
export interface ResumeOptions<T = undefined> extends Pick<RunOptions<T>, 'output' | 'signal' | 'timeoutMs'> {
  /** Fate of the run if its code has changed. Default: the team's `stateManagement.onMismatch`. */
  onMismatch?: 'refuse' | 'continue' | undefined
}

/** Options of `run.events`. */
export interface EventOptions {
  /** Event that was seen last: its `seq`, or its id (`<logName>.<seq>`). Default: none, so all events come. */
  after?: number | string | undefined
  /** Types of the events that are wanted. Default: all. */
  types?: readonly RuntimeEvent['type'][] | undefined
  /** false: ends when all events until now were read. Default: true, it ends with the run. */
  follow?: boolean | undefined
  /** Ends the reading when it is aborted. */
  signal?: AbortSignal | undefined
}

/**
 * Handle of a run for its caller.
 *
 * @example
 * const run = team.launch('Should we migrate?')
 * for await (const chunk of run.text()) process.stdout.write(chunk)
 * const result = await run.result
 */
export interface Run<T = undefined> {
  readonly id: string
  /** Query of the run. The team's keys are removed from it. */
  readonly query: string
  /** Time of the launch, in epoch ms. */
  readonly startedAt: number
  /** Metadata that the caller has given. The team's keys are removed from it. */
  readonly metadata: Readonly<Record<string, string>>
  readonly status: RunStatus
  /** Result of the run. It never becomes an unhandled rejection. Rejects only for a configuration that cannot work. */
  readonly result: Promise<MultiAgentResult<T>>
  /**
   * Yields past and future events, until the run has finished. It changes nothing in the run, however slowly they are
   * read. `after` is the `seq` of the last event that was seen, or its id: the team's `logName`, a dot and that `seq`.
   * An id of another log yields `reset` and then all events. Events that the log has given up are told as `gap`.
   * Throws `ConfigurationError` for another `after`, and for `types` that there are not.
   */
  events(options?: EventOptions): AsyncIterable<RuntimeEvent<T>>
  /**
   * Yields the answer in pieces as they come, then the rest of it: joined they are `finalOutput`. A model agent that
   * speaks last streams its answer, unless it has tools or a schema to fit. In that case only the end shows which part
   * is the answer, and the answer comes as a whole. The answer of a code agent comes as a whole, too. A script of your
   * own decides by what it emits: if that is not the beginning of its answer, it replaces the answer here. For a run
   * that fails there is the output until then.
   */
  text(): AsyncIterable<string>
  /**
   * Yields the run as a chat shows it, past and future: text, reasoning and tool inputs of all models as they come,
   * what of it was superseded, the answer as a growing object if the run has an `output`, tools, questions, and
   * `run.finished` at the end. Unlike `text()`, it has the words of a model with tools as they come: a part
   * `superseded` follows if they are not the answer. `after` is the `seq` of the last part that was seen. A run without
   * `stream` has only what is known at the end.
   */
  stream(options?: { after?: number }): AsyncIterable<StreamPart<T>>
  /** Aborts the run. Resolves when the run has ended. */
  cancel(reason?: string): Promise<void>
  /**
   * Answers a question of an agent, by the id of its `question` event. An approval is answered with 'yes' or 'no', or
   * with an `ApprovalAnswer`, which can replace the input of the tool or say why not.
   *
   * Rejects with `ConfigurationError` if no such question is open, and says whether it was answered, withdrawn or late
   * (`details.how`). Also if the answer is none of its choices, or its input misses the schema of the tool: then the
   * question stays open.
   */
  answer(questionId: string, answer: string | ApprovalAnswer): Promise<void>
  /** Questions of this run that nobody has answered yet, in the order in which they were asked. */
  readonly questions: readonly OpenQuestionInfo[]
  /** Tasks that the script has given so far, with their status. */
  readonly tasks: readonly AgentTask[]
  /** Trace of the run until now, of what the log still has. */
  readonly trace: OrchestrationTrace
  /** All messages of the run that the log still has, in order. */
  readonly messageHistory: readonly TypedMessage[]
  /**
   * Blackboard of the run; undefined if the team has none. Who reads this property may write: from then on no wait for
   * an entry counts as a stall. A write resolves when the durable log has it, if the team has one. `board()` only
   * looks.
   */
  readonly blackboard: Blackboard | undefined
  /**
   * Returns the blackboard as it is now, or as it was when the run ended, to look at; undefined if the team has none.
   * It changes nothing in the run.
   */
  board(): BlackboardView | undefined
  /** Tokens that models have used so far. */
  readonly usage: TokenUsage
  /** The same for each agent whose models were called, by name. */
  readonly usageByAgent: Readonly<Record<string, TokenUsage>>
}

/** Functions of the team that a handle needs. */
export interface RunHost {
  name(index: number): string
  epochOf(index: number): number
  cancel(run: RunState, reason: string): void
  blackboard(run: RunState): Blackboard | undefined
  board(run: RunState): BlackboardView | undefined
  /** Resolves when all that was logged until now is written; undefined without a durable log. */
  written(): Promise<void> | undefined
  /** Number of the next record. */
  readonly seq: number
  /** Number behind the last entry that stands in the durable log; undefined without one. */
  readonly keptEnd: number | undefined
  /** Name of the log; undefined as long as it is not open. */
  readonly logName: string | undefined
  /** Calls back after each batch of records. Returns a function that ends this. */
  onRecords(listener: () => void): () => void
  /** Removes the team's keys from all that leaves the team. */
  readonly redactor: Redactor
}

export class RunHandle<T> implements Run<T> {
  readonly result: Promise<MultiAgentResult<T>>
  #status: RunStatus = 'queued'
  state: RunState
  readonly #host: RunHost
  #settle!: { resolve(result: MultiAgentResult<T>): void; reject(error: unknown): void }
  #settled = false
  #endedAt: number | null = null
  #errorCode: ErrorCode | null = null
  #finished: MultiAgentResult<T> | undefined
  #source: EventSource
  /** Functions that wake the readers of events when the result is known. */
  readonly #enders = new Set<() => void>()

  constructor(state: RunState, host: RunHost) {
    this.state = state
    this.#host = host
    this.#source = this.#sourceOf(state)
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.result.catch(() => {}) // nobody has to wait for it
  }

  /** Makes it the handle of a run of an earlier process, which has the same id. */
  becomes(state: RunState): void {
    this.state = state
    this.#source = this.#sourceOf(state)
  }

  /** A source of its own: a handle outlives what the team keeps of its run. */
  #sourceOf(state: RunState): EventSource {
    return {
      ...directoryOf(state, this.#host),
      epochOf: (index) => this.#host.epochOf(index),
      resultOf: () => this.#finished,
    }
  }

  get id(): string {
    return this.state.id
  }
  get query(): string {
    return this.#host.redactor.data(this.state.query)
  }
  get startedAt(): number {
    return this.state.startedAt
  }
  get metadata(): Readonly<Record<string, string>> {
    return this.#host.redactor.data({ ...this.state.metadata })
  }
  /** Status of the run. 'waiting': the run waits for a person. */
  get status(): RunStatus {
    return this.#status === 'running' && this.state.questions.size > 0 ? 'waiting' : this.#status
  }
  set status(status: RunStatus) {
    this.#status = status
  }

  /** True if its result is known. */
  get isSettled(): boolean {
    return this.#settled
  }

  /** Summary of the run as of now; undefined while the run is read from the log. */
  get summary(): RunSummary | undefined {
    const { index, startedAt, threadId = null, spent } = this.state
    if (index === 0) return undefined
    const { id, query, status } = this
    return {
      id,
      query,
      status,
      startedAt,
      endedAt: this.#endedAt,
      errorCode: this.#errorCode,
      usage: spent.total,
      threadId,
    }
  }

  finish(result: MultiAgentResult<T>, status: RunStatus): void {
    this.status = status
    this.#errorCode = result.error?.code ?? null
    if (status !== 'interrupted') this.#endedAt = this.state.startedAt + result.executionTimeMs
    this.#settled = true
    this.#finished = result
    this.#settle.resolve(result)
    this.#wakeReaders()
  }
  misconfigured(error: ConfigurationError, endedAt = this.state.startedAt): void {
    this.status = 'failed'
    this.#errorCode = error.code
    this.#endedAt = endedAt
    this.#settled = true
    this.#settle.reject(error)
    this.#wakeReaders()
  }

  #wakeReaders(): void {
    for (const wake of [...this.#enders]) wake()
  }

  async *events(options: EventOptions = {}): AsyncGenerator<RuntimeEvent<T>> {
    const { after = -1, follow = true, signal } = options
    const types = readTypes(options.types)
    const reader = this.#reader(readPosition(after))
    let wake: (() => void) | undefined
    let changed = false
    const stop = this.#host.onRecords(() => {
      changed = true
      wake?.()
    })
    const ended = () => wake?.()
    this.#enders.add(ended)
    const forget = signal && onAbort(signal, ended)
    try {
      for (;;) {
        changed = false
        const { until, kept } = await this.#writtenTo()
        for (const event of reader.next(until, kept)) {
          if (signal?.aborted) return
          if (!types || types.has(event.type)) yield event as RuntimeEvent<T>
          if (event.type === 'run.finished') return
        }
        if (signal?.aborted || !follow || (this.#settled && !changed)) return
        if (!changed) {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    } finally {
      stop()
      forget?.()
      this.#enders.delete(ended)
    }
  }

  #reader(after: EventPosition): EventReader {
    return new EventReader(after, {
      state: () => this.state,
      source: () => this.#source,
      isSettled: () => this.#settled,
      host: this.#host,
    })
  }

  /**
   * Returns the number up to which the durable log has all entries. A reader gets no others: a later process would give
   * their numbers to something else. When the log is lost or closed, it gets all the same how the run ends for its
   * caller. None of that has a number from `kept` on.
   */
  async #writtenTo(): Promise<{ until: number; kept?: number | undefined }> {
    const writing = this.#host.written()
    if (!writing) return { until: Number.POSITIVE_INFINITY }
    const { seq } = this.#host
    return writing.then(
      () => ({ until: seq }),
      () => ({ until: Number.POSITIVE_INFINITY, kept: this.#host.keptEnd }),
    )
  }

  async *text(): AsyncGenerator<string> {
    let said = ''
    for await (const event of this.events({ types: ['output.delta', 'run.finished'] })) {
      if (event.type === 'output.delta' && event.final) {
        said += event.chunk
        yield event.chunk
      } else if (event.type === 'run.finished') {
        const answer = event.result.finalOutput ?? ''
        if (answer.length > said.length && answer.startsWith(said)) yield answer.slice(said.length)
      }
    }
  }

  async *stream({ after = -1 }: { after?: number } = {}): AsyncGenerator<StreamPart<T>> {
    let parts: StreamParts<T> | undefined
    for await (const event of this.events({ types: [...STREAMED] })) {
      parts ??= new StreamParts(this.state.output !== undefined)
      for (const part of parts.of(event)) if (part.seq > after) yield part
    }
  }

  async cancel(reason = 'cancelled by its caller'): Promise<void> {
    if (!this.state.over) this.#host.cancel(this.state, reason)
    await this.result.catch(() => {})
  }
  async answer(questionId: string, answer: string | ApprovalAnswer): Promise<void> {
    await answerQuestion(this.state, questionId, answer)
    await this.#host.written()
  }
  get questions(): readonly OpenQuestionInfo[] {
    return this.#host.redactor.data(openQuestionsOf(this.state))
  }
  get tasks(): readonly AgentTask[] {
    return this.#host.redactor.data([...this.state.tasks.values()])
  }
  get trace(): OrchestrationTrace {
    return this.#host.redactor.data(traceOf(this.state.log, this.#source))
  }
  get messageHistory(): readonly TypedMessage[] {
    return this.#host.redactor.data(historyOf(this.state.log, this.#source))
  }
  get blackboard(): Blackboard | undefined {
    return this.#host.blackboard(this.state)
  }
  board(): BlackboardView | undefined {
    return this.#host.board(this.state)
  }
  get usage(): TokenUsage {
    return this.state.spent.total
  }
  get usageByAgent(): Readonly<Record<string, TokenUsage>> {
    return Object.fromEntries(Array.from(this.state.spent.byAgent, ([name, usage]) => [name, { ...usage }]))
  }
}
