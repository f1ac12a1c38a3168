/** Handle of a run for its caller: its result, its events as they happen, and a way to end it. */

import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import type { Content } from '../../actors/definition/content.ts'
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { Guardrail } from '../../actors/definition/role.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import { type BlackboardView, readOnly } from '../../blackboard/views.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { oneOf, refused, shape } from '../../shared/checks.ts'
import { systemClock } from '../../shared/clock.ts'
import type { ConfigurationError, ErrorCode } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { nextTurn } from '../../shared/timers.ts'
import { USER_INDEX } from '../host/directory.ts'
import { speakerIn } from '../host/handed-answers.ts'
import { callerIn, directoryOf, type RunState } from '../host/run.ts'
import type { SteerWords } from '../host/steering.ts'
import { lastSeq, type RunLog } from '../log/run-log.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { Money } from '../settings/money.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { AnswerOptions } from '../verbs/approvals.ts'
import { redactedBlackboard } from '../verbs/boards.ts'
import { objectIn } from '../verbs/gateway.ts'
import { answerQuestion, type OpenQuestionInfo, openQuestionsOf } from '../verbs/questions.ts'
import { hasEnded, readSteerOptions, type SteerOptions } from '../verbs/steering.ts'
import { type EventPosition, type RuntimeEvent, readPosition, readTypes } from './events.ts'
import { type EventSource, eventsOf, passOver, StatusFold } from './log-events.ts'
import type { MultiAgentResult } from './result.ts'
import {
  type EventOptions,
  isLong,
  type ListedRun,
  listedQuery,
  type Run,
  type RunStatus,
  type SteerInfo,
  type SteerReceipt,
  type TextOptions,
} from './run.ts'
import { readQuery } from './run-options.ts'
import { SPOKEN, SpokenWords, STREAMED, type StreamPart, StreamParts } from './stream-parts.ts'
import { historyOf, type OrchestrationTrace, traceOf } from './trace.ts'

const textShape = shape<TextOptions>({ only: oneOf('answer') })

/** Gives a result the data that a schema makes of it. Never rejects. */
type Check<T> = (result: MultiAgentResult<unknown>, run: RunState) => Promise<MultiAgentResult<T>>

export class RunHandle<T> implements Run<T> {
  readonly result: Promise<MultiAgentResult<T>>
  #status: RunStatus = 'queued'
  state: RunState
  readonly host: RunViews
  #settle!: { resolve(result: MultiAgentResult<T>): void; reject(error: unknown): void }
  #settled = false
  #endedAt: number | null = null
  #errorCode: ErrorCode | null = null
  #finished: MultiAgentResult<T> | undefined
  source: EventSource
  #check: Check<T> | undefined
  /** Functions that wake the readers of events when the result is known. */
  readonly #enders = new Set<() => void>()

  constructor(state: RunState, host: RunViews) {
    this.state = state
    this.host = host
    this.source = this.#sourceOf(state)
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.result.catch(() => {}) // nobody has to wait for it
  }

  /** Makes it the handle of a run of an earlier process, which has the same id. */
  becomes(state: RunState): void {
    this.state = state
    this.source = this.#sourceOf(state)
  }

  /** A source of its own: a handle outlives what the team keeps of its run. */
  #sourceOf(state: RunState): EventSource {
    return {
      ...directoryOf(state, this.host),
      epochOf: (index) => this.host.epochOf(index),
      resultOf: () => this.#finished,
    }
  }

  get id(): string {
    return this.state.id
  }
  get query(): string {
    return this.host.redactor.data(this.state.query)
  }
  get startedAt(): number {
    return this.state.startedAt
  }
  get metadata(): Readonly<Record<string, string>> {
    return this.host.redactor.data({ ...this.state.metadata })
  }
  get tenant(): string | null {
    return this.state.tenant ?? null
  }
  get money(): Money | null {
    return this.state.spent.money.in(this.host.currency)
  }
  /** Status of the run. 'waiting': the run waits for a person. */
  get status(): RunStatus {
    return this.#status === 'running' && this.state.questions.size > 0 ? 'waiting' : this.#status
  }
  set status(status: RunStatus) {
    this.#status = status
  }

  get isSettled(): boolean {
    return this.#settled
  }

  /** The run for the list, as of now; undefined while the run is read from the log. */
  get listed(): ListedRun | undefined {
    const { index, startedAt, threadId = null, tenant = null, spent, metadata } = this.state
    if (index === 0) return undefined
    const { id, status } = this
    const { query } = this.state
    return {
      index,
      id,
      query: listedQuery(query),
      isCut: isLong(query),
      status,
      startedAt,
      endedAt: this.#endedAt,
      errorCode: this.#errorCode,
      usage: spent.total,
      paid: spent.money.byModel,
      threadId,
      caller: callerIn(metadata),
      tenant,
    }
  }

  /**
   * Returns a handle whose result is checked by a caller's schema, unless the run has one of its own. Of that the log
   * of an earlier process has the JSON schema alone.
   */
  checkedBy<Data>(check: Check<Data>): RunHandle<Data> {
    const known = this.#finished
    const handle = (known && this.#lacksData(known) ? new RunHandle(this.state, this.host) : this) as RunHandle<Data>
    handle.#check ??= check
    if (known && handle !== (this as unknown)) handle.finish(known as MultiAgentResult<Data>, this.#status)
    return handle
  }

  #lacksData(result: MultiAgentResult<unknown>): boolean {
    const { output } = this.state
    return result.success && (output ? output.from === 'log' : result.data === undefined)
  }

  finish(result: MultiAgentResult<T>, status: RunStatus): void {
    if (this.#check && this.#lacksData(result))
      void this.#check(result, this.state).then((checked) => this.#finish(checked, status))
    else this.#finish(result, status)
  }

  #finish(result: MultiAgentResult<T>, status: RunStatus): void {
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
    const reader = new EventReader(this, readPosition(after))
    let wake: (() => void) | undefined
    let changed = false
    const stop = this.host.onRecords(() => {
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

  /**
   * Returns the number up to which the durable log has all entries. A reader gets no others: a later process would give
   * their numbers to something else. When the log is lost or closed, it gets all the same how the run ends for its
   * caller. None of that has a number from `kept` on.
   */
  async #writtenTo(): Promise<{ until: number; kept?: number | undefined }> {
    const writing = this.host.written()
    if (!writing) return { until: Number.POSITIVE_INFINITY }
    const { seq } = this.host
    return writing.then(
      () => ({ until: seq }),
      () => ({ until: Number.POSITIVE_INFINITY, kept: this.host.keptEnd }),
    )
  }

  async *text(options: TextOptions = {}): AsyncGenerator<string> {
    textShape(options, '')
    if (options.only === 'answer') return yield* this.#answer()
    const words = new SpokenWords()
    for await (const event of this.events({ types: [...SPOKEN] })) yield* words.of(event)
  }

  /** Yields the answer: before the run has ended, any of its words may still be made again. */
  async *#answer(): AsyncGenerator<string> {
    for await (const event of this.events({ types: ['run.finished'] }))
      if (event.type === 'run.finished' && event.result.finalOutput) yield event.result.finalOutput
  }

  async *stream({ after = -1 }: { after?: number } = {}): AsyncGenerator<StreamPart<T>> {
    let parts: StreamParts<T> | undefined
    for await (const event of this.events({ types: [...STREAMED] })) {
      parts ??= new StreamParts(this.#objectIn())
      for (const part of parts.of(event)) if (part.seq > after) yield part
    }
  }

  #objectIn(): ((answer: unknown) => unknown) | undefined {
    const { output } = this.state
    if (!output && !this.#check) return undefined
    return objectIn(output?.jsonSchema)
  }

  async cancel(reason = 'cancelled by its caller'): Promise<void> {
    if (!this.state.over || this.state.isOwn) this.host.cancel(this.state, reason)
    await this.result.catch(() => {})
  }
  async answer(questionId: string, answer: string | ApprovalAnswer, options?: AnswerOptions): Promise<void> {
    await answerQuestion(this.state, questionId, answer, options)
    await this.host.written()
  }
  async steer(words: string | Content, given: SteerOptions = {}): Promise<SteerReceipt> {
    const options = readSteerOptions(given)
    const { text, parts } = readQuery(words, 'words')
    if (text.trim() === '' && !parts) throw refused('words', words, 'a text that is not empty, or parts')
    await this.host.opened() // the run may turn out to be one of an earlier process
    if (this.state.index === 0) await this.result.catch(() => {}) // it is read from the log
    if (this.#settled && !this.state.steering?.words.has(options.id ?? ''))
      throw hasEnded(this.state, this.#status === 'interrupted', this.#finished?.error)
    const said = await this.host.say(this.state, parts ?? text, options)
    await this.host.written()
    const { result } = this
    const settledAs = () => {
      if (this.#status === 'interrupted') throw hasEnded(this.state, true, this.#finished?.error)
      return this.state.steering?.outcomeOf(said) ?? 'unread'
    }
    const { id, at, text: kept, to, by } = said
    return {
      ...this.host.redactor.data({ id, at, text: kept, to, by }),
      get readBy() {
        return [...said.readBy]
      },
      get settled() {
        return result.then(settledAs, settledAs)
      },
    }
  }
  get steers(): readonly SteerInfo[] {
    const { steering } = this.state
    return this.host.redactor.data(
      Array.from(steering?.words.values() ?? [], (said) => {
        const { id, at, text, to, by, readBy } = said
        const settled = this.#settled && this.#status !== 'interrupted' ? steering!.outcomeOf(said) : null
        return { id, at, text, to, by, readBy: [...readBy], settled }
      }),
    )
  }
  get questions(): readonly OpenQuestionInfo[] {
    return this.host.redactor.data(openQuestionsOf(this.state))
  }
  get tasks(): readonly AgentTask[] {
    return this.host.redactor.data([...this.state.tasks.values()])
  }
  get trace(): OrchestrationTrace {
    return this.host.redactor.data(traceOf(this.state.log, this.source))
  }
  get messageHistory(): readonly TypedMessage[] {
    return this.host.redactor.data(historyOf(this.state.log, this.source))
  }
  get blackboard(): Blackboard | undefined {
    return this.host.blackboard(this.state)
  }
  board(): BlackboardView | undefined {
    return this.host.board(this.state)
  }
  get speaker(): string | null {
    return speakerIn(this.state.log, this.state.index, this.source.name)
  }
  get usage(): TokenUsage {
    return this.state.spent.total
  }
  get usageByAgent(): Readonly<Record<string, TokenUsage>> {
    return Object.fromEntries(Array.from(this.state.spent.byAgent, ([name, usage]) => [name, { ...usage }]))
  }
}

class EventReader {
  readonly #run: RunHandle<unknown>
  readonly #from: EventPosition
  /** Log that is read; undefined before the first event. */
  #log: RunLog | undefined
  #fold: StatusFold
  #after = -1
  /** Number of the last entry that was read, and number of entries up to there. */
  #entry = -1
  #count = 0
  /** True once the end of the run was read. Turns that end later stand behind it in the log: no reader gets these. */
  #isAtEnd = false

  constructor(run: RunHandle<unknown>, from: EventPosition) {
    this.#run = run
    this.#from = from
    this.#fold = this.#newFold()
  }

  /**
   * Yields the events that the log has by now, up to the entry with the number `until`. Those behind `kept` are not in
   * the durable log: their number is the last one before it, so who goes on behind them in a later process misses
   * nothing.
   */
  *next(until: number, kept = Number.POSITIVE_INFINITY): IterableIterator<RuntimeEvent<unknown>> {
    const { redactor } = this.#run.host
    for (const event of this.#next(until)) {
      this.#after = event.seq
      const told = redactor.data(event)
      yield event.seq < kept ? told : { ...told, seq: kept - 1 }
    }
  }

  *#next(until: number): IterableIterator<RuntimeEvent<unknown>> {
    const { host, source, state } = this.#run
    const { log, startedAt, id } = state
    if (log !== this.#log) {
      if (this.#from.log !== undefined && host.logName === undefined && !this.#run.isSettled) return // the log is not open yet
      const isReset = this.#begin(log)
      if (isReset) yield { type: 'reset', seq: -1, at: startedAt, runId: id }
    }
    if (this.#isAtEnd) return
    for (const entry of log.entries(Math.max(this.#after, this.#entry))) {
      if (entry.seq >= until) return
      if (entry.kind === 'run.finished' && !this.#run.isSettled) return // the durable log does not have it yet
      const lost = this.#lost(log)
      if (lost > 0) yield { type: 'gap', seq: log.forgottenTo, at: entry.at, runId: id, entries: lost }
      for (const event of eventsOf(entry, source, this.#fold)) if (event.seq > this.#after) yield event
      this.#entry = lastSeq(entry)
      this.#count += 1
      this.#isAtEnd = entry.kind === 'run.finished'
      if (this.#isAtEnd) return
    }
  }

  /** Begins with a log. Returns true if the reader's place is not of it: then it begins with the first event. */
  #begin(log: RunLog): boolean {
    const { host } = this.#run
    const { log: name, seq: after } = this.#from
    const isFirst = this.#log === undefined
    const isReset = isFirst && name !== undefined && (name !== host.logName || after >= host.seq)
    if (isFirst && !isReset) this.#after = after
    this.#log = log
    this.#fold = this.#newFold()
    this.#entry = -1
    this.#count = log.countUpTo(this.#after)
    this.#isAtEnd = false
    for (const entry of log.entries()) {
      if (entry.seq > this.#after) break
      if (entry.kind === 'run.finished') this.#isAtEnd = true
      if (lastSeq(entry) <= this.#after) passOver(entry, this.#fold)
    }
    return isReset
  }

  /** Number of entries that were discarded before they were read: at most, if the reader has begun behind others. */
  #lost(log: RunLog): number {
    if (log.forgottenTo <= Math.max(this.#after, this.#entry)) return 0
    const lost = log.forgotten - this.#count
    this.#count = log.forgotten
    return lost
  }

  #newFold(): StatusFold {
    return new StatusFold((index) => this.#run.source.name(index))
  }
}

interface Acts {
  cancel(run: RunState, reason: string): void
  started(): Promise<void>
  /** Guardrails of the team for what people say. */
  readonly inputChecks: readonly Guardrail<string>[]
  resultOf(runId: string): MultiAgentResult<unknown> | undefined
}

export class RunViews implements EventSource {
  readonly #supervisor: Supervisor
  readonly #acts: Acts
  readonly listeners = new Set<() => void>()

  constructor(supervisor: Supervisor, acts: Acts) {
    this.#supervisor = supervisor
    this.#acts = acts
  }

  cancel(run: RunState, reason: string): void {
    this.#acts.cancel(run, reason)
  }

  /** Resolves when the log is open. */
  async opened(): Promise<void> {
    if (this.logName === undefined) await this.#acts.started()
  }

  /** Takes words for a run. */
  say(run: RunState, words: Content, options: SteerOptions): Promise<SteerWords> {
    return this.#supervisor.steers.say(run, words, options, this.#acts.inputChecks)
  }

  resultOf(runId: string): MultiAgentResult<unknown> | undefined {
    return this.#acts.resultOf(runId)
  }

  /** Calls back after each batch of records. Returns a function that ends this. */
  onRecords(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  tell(): void {
    for (const listener of [...this.listeners]) listener()
  }

  name(index: number): string {
    return this.#supervisor.directory.name(index)
  }

  runId(index: number): string {
    return this.#supervisor.runs.idOf(index)
  }

  get seq(): number {
    return this.#supervisor.journal.seq
  }

  /** Number behind the last entry that stands in the durable log; undefined without one. */
  get keptEnd(): number | undefined {
    return this.#supervisor.journal.keptEnd
  }

  /** Name of the log; undefined as long as it is not open. */
  get logName(): string | undefined {
    return this.#supervisor.journal.name
  }

  get redactor(): Redactor {
    return this.#supervisor.redactor
  }

  get currency(): string | undefined {
    return this.#supervisor.runs.currency
  }

  epochOf(index: number): number {
    return this.#supervisor.directory.byIndex[index]?.epoch ?? 0
  }

  /** Returns the blackboard of the run; without one that of the team, if it has one beside its runs. */
  blackboard(run: RunState | undefined): Blackboard | undefined {
    const { boards, directory, redactor } = this.#supervisor
    const author = directory.name(USER_INDEX)
    if (run) run.boardLent = true
    const board = run ? boards.board(run) && boards.view(run, author) : boards.teamView(author)
    if (!board) return undefined
    const view = redactedBlackboard(board, redactor)
    const write: Blackboard['write'] = async (key, value, entryType, options) => {
      if (this.logName === undefined) await this.#acts.started() // the log that is to have it is not open yet
      const entry = await view.write(key, value, entryType, options)
      await this.written()
      return entry
    }
    return { ...view, write }
  }

  board(run: RunState): BlackboardView | undefined {
    const { boards, redactor } = this.#supervisor
    const board = boards.board(run)
    return board && readOnly(board, run.revisionOf(board), (entries) => redactor.data(entries))
  }

  /** Resolves when all that was logged until now is written; undefined without a durable log. */
  written(): Promise<void> | undefined {
    return this.#supervisor.journal.written()
  }
}

/** Time for which an answer waits until a turn that was cut off asks again, and between two looks, in ms. */
const REASKED_MS = 10_000
const PAUSE_MS = 50

/**
 * Resolves when a question is open, or cannot be: a turn that a restart, or a hand-over to another process, has cut off
 * asks again when it goes on.
 */
export async function untilAsked(
  run: Pick<Run<unknown>, 'questions' | 'events' | 'status'>,
  questionId: string,
  signal?: AbortSignal,
): Promise<void> {
  const isOpen = () => run.questions.some((question) => question.questionId === questionId)
  const late = systemClock.monotonic() + REASKED_MS
  let isAsked = false
  let after = -1
  for (; !isOpen(); await systemClock.sleep(PAUSE_MS, signal)) {
    if (!UNDER_WAY.has(run.status) || systemClock.monotonic() > late) return
    await nextTurn() // there may be many answers, and the log be long
    for await (const event of run.events({ types: ['question', 'question.closed'], follow: false, after })) {
      after = Math.max(after, event.seq)
      if ('questionId' in event && event.questionId === questionId) isAsked = event.type === 'question'
    }
    if (!isAsked) return
  }
}

const UNDER_WAY: ReadonlySet<RunStatus> = new Set(['queued', 'running', 'waiting'])
