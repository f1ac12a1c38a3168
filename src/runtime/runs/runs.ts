/**
 * All runs of a team, from launch to end. The limit on concurrent runs is in run-queue.ts, the handling of ended runs
 * in ended-runs.ts, of interrupted ones in interrupted-runs.ts, of those of earlier processes in recalled-runs.ts.
 */
import type { Content } from '../../actors/definition/content.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import { type BlackboardView, readOnly } from '../../blackboard/read-only.ts'
import {
  ConfigurationError,
  DramatisError,
  describe,
  type ErrorCode,
  ReplyInvalidError,
  RunAbortedError,
  RunTimeoutError,
  TeamClosedError,
  type TeamOverloadedError,
  UnknownRunError,
} from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { onAbort } from '../../on-abort.ts'
import type { Launched } from '../log/records.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { TeamSettings } from '../settings/settings.ts'
import { USER_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Reader } from '../state/reader.ts'
import { RunOutput } from '../state/run-output.ts'
import { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import type { Tracing } from '../telemetry/tracing.ts'
import { redactedBlackboard } from '../verbs/redacted-blackboard.ts'
import { EndedRuns, KEPT_BYTES, trimLog, windDown } from './ended-runs.ts'
import { InterruptedRuns } from './interrupted-runs.ts'
import { launchedOf } from './launch-record.ts'
import { Holds } from './process-holds.ts'
import { otherQuery, RecalledRuns } from './recalled-runs.ts'
import type { MultiAgentResult, RunEnding } from './result.ts'
import { type ResumeOptions, RunHandle, type RunHost, type RunOptions } from './run.ts'
import { RunConversations } from './run-conversations.ts'
import { RunEntries, type RunEntry } from './run-entries.ts'
import { RunGuards } from './run-guards.ts'
import { questionOf, RunIntake } from './run-intake.ts'
import type { RunStatus } from './run-list.ts'
import { readQuery, readResumeOptions, readRunOptions, reasonOf } from './run-options.ts'
import { RunLine } from './run-queue.ts'
import { RunTime } from './run-time.ts'

export class RunBook implements RunHost {
  readonly #supervisor: Supervisor
  readonly #settings: TeamSettings
  readonly #start: () => Promise<void>
  readonly #entries: RunEntries
  readonly #line: RunLine<RunEntry>
  readonly #intake: RunIntake
  readonly #ended: EndedRuns
  readonly #guards: RunGuards
  readonly #listeners = new Set<() => void>()
  readonly #entering = new Set<Promise<unknown>>()
  readonly #tracing: Tracing | undefined
  #last: RunState | undefined
  closing = false
  /** Bytes that the log of a run may have in memory. */
  keptBytes = KEPT_BYTES
  /** Hash of the text of the protocol script. */
  script: string | undefined
  /** Called with each run, and the work of each message from outside, of which nothing is under way any more. */
  onQuiet: ((run: RunState) => void) | undefined
  /** Set when the durable log is lost: no run is taken any more. */
  lost: DramatisError | undefined
  /** Keeps the process alive while work is under way beside the runs, or somebody waits. */
  readonly holds: Holds
  /** Conversations that several processes share, if the team has a store of them. */
  readonly conversations: RunConversations | undefined
  readonly interrupted: InterruptedRuns
  /** Runs of earlier processes. */
  readonly recalled: RecalledRuns

  constructor(supervisor: Supervisor, settings: TeamSettings, start: () => Promise<void>, tracing?: Tracing) {
    this.#supervisor = supervisor
    this.#settings = settings
    this.#start = start
    this.#tracing = tracing
    this.#line = new RunLine(settings, supervisor.clock)
    supervisor.limits.watch(() => this.#queued())
    this.holds = new Holds(supervisor.clock)
    const { conversations: store } = settings
    this.conversations = store && new RunConversations(supervisor, store)
    this.#intake = new RunIntake(supervisor, settings)
    this.#ended = new EndedRuns(supervisor, this.holds, settings.globalTimeoutMs, {
      quiet: (run) => {
        this.onQuiet?.(run)
        // what turns have changed after its end, and what a message from outside has caused
        if (this.conversations && !this.interrupted.has(run)) void this.entering(this.conversations.saveLate(run))
      },
      forgotten: (run) => {
        this.#entries.deleteId(run.id)
        this.#entries.deleteState(run)
      },
    })
    this.#entries = new RunEntries(supervisor)
    this.#guards = new RunGuards({
      guards: supervisor.guards,
      checks: settings.guards,
      fail: (entry, error) => this.#end(entry, { error }, 'failed'),
    })
    const common = { supervisor, host: this, entries: this.#entries }
    this.recalled = new RecalledRuns({ ...common, holds: this.holds, leave: (entry) => this.#leave(entry) })
    this.interrupted = new InterruptedRuns({
      ...common,
      onMismatch: settings.durableLog?.onMismatch ?? 'refuse',
      script: () => this.script,
      handleOf: (state) => this.recalled.handleOf(state),
      pause: (entry) => this.#line.leave(entry, (next) => void this.#begin(next)),
      enter: (handle, given, target) => {
        const entry = this.#enter(handle, given, target)
        entry.isKept = true
        this.#line.begin(entry)
        handle.status = 'running'
      },
    })
  }

  /** Retires runs that have become quiet, trims logs, and wakes readers of events. */
  readonly part = (): Reader => ({
    next: () => {
      this.#ended.settle(this.keptBytes)
      for (const { handle } of this.#line.running)
        trimLog(handle.state, this.#supervisor.directory.cells, this.keptBytes)
      for (const listener of [...this.#listeners]) listener()
    },
  })

  // ---- launch

  /** `streams`: the default of the option `stream`. */
  launch<T>(given: string | Content, asked: RunOptions<T>, target: Cell, streams = false): RunHandle<T> {
    this.#assertTakes()
    this.#settings.secrets.look()
    const { text: query, parts } = readQuery(given)
    const options = readRunOptions(asked)
    this.#intake.checkParts(parts)
    const joined = options.runId === undefined ? undefined : this.#join(options.runId, query, options)
    if (joined) return joined as RunHandle<T>
    this.#intake.checkModels(options.models ?? {})
    const waits = this.#line.admit()
    const state = this.#supervisor.runs.open(
      options.runId ?? this.#supervisor.frames.id(),
      query,
      options.metadata,
      options.threadId,
    )
    state.models = options.models ?? {}
    state.budget = options.budget
    // A check of the answer comes before anybody sees a word of it.
    state.streams = (options.stream ?? streams) && this.#settings.guards.output.length === 0
    if (options.output) state.output = new RunOutput(options.output, state.id)
    this.#intake.take(state, parts, options.messages ?? [])
    const handle = new RunHandle<T>(state, this)
    const entry = this.#enter(handle, options, target)
    this.#tracing?.launched(state)
    this.#keep(entry)
    this.#last = state
    this.#supervisor.boards.board(state)
    if (options.signal?.aborted) this.cancel(state, reasonOf(options.signal))
    else if (waits) this.#wait(entry)
    else void this.#begin(entry)
    return handle
  }

  *#queued(): IterableIterator<LimitWait> {
    const { maxConcurrentRuns: limit } = this.#settings
    for (const { handle } of this.#line.queued)
      yield { option: 'maxConcurrentRuns', limit, runId: handle.id, since: handle.state.startedAt }
  }

  #wait(entry: RunEntry): void {
    this.#line.enqueue(entry)
    const { maxConcurrentRuns } = this.#settings
    const reached = { option: 'maxConcurrentRuns', limit: maxConcurrentRuns, runId: entry.handle.id }
    this.#supervisor.limits.reached(reached, 'runs wait for their start', { queued: this.#line.counts.queued })
  }

  /** Makes the result of a run that `launch` has no room for: nothing happened in it, and it cannot be found later. */
  refused<T>(given: string | Content, options: RunOptions<T>, error: TeamOverloadedError): MultiAgentResult<T> {
    const { boards, clock, frames } = this.#supervisor
    const { runId = frames.id(), metadata, threadId } = options
    const run = new RunState(0, runId, readQuery(given).text, clock.now(), metadata, threadId)
    boards.board(run)
    return this.#entries.resultOf(run, { error }, 0)
  }

  #join(runId: string, query: string, options: RunOptions<unknown>): RunHandle<unknown> | undefined {
    const entry = this.#entries.find(runId)
    if (!entry) return this.recalled.join(runId, query)
    if (!this.recalled.isOf(entry, query)) throw otherQuery(runId)
    return this.interrupted.has(entry.handle.state) ? this.interrupted.resume(entry, options) : entry.handle
  }

  /** Lets what was launched before the log was read join the runs that only the log has. */
  joinPast(): void {
    this.recalled.joinLaunched(this.#line.all)
  }

  /** Takes a run out that turned out to be one that is there already. */
  #leave(entry: RunEntry): void {
    const { state } = entry.handle
    this.#entries.deleteState(state)
    this.#intake.forget(state)
    entry.time?.cancel()
    entry.clear()
    this.#line.leave(entry, (next) => void this.#begin(next))
  }

  #enter(handle: RunHandle<unknown>, options: RunOptions<unknown>, target: Cell): RunEntry {
    const { signal } = options
    const clear = signal && onAbort(signal, () => this.cancel(handle.state, reasonOf(signal)))
    const timeoutMs = options.timeoutMs ?? this.#settings.globalTimeoutMs
    const entry: RunEntry = {
      handle,
      isKept: false,
      options,
      target,
      time: undefined,
      clear: () => clear?.(),
      result: undefined,
    }
    const expire = () => {
      const pausedMs = Math.round(entry.time?.pausedMs ?? 0)
      const uncounted = pausedMs > 0 ? `, not counting ${pausedMs} ms in which a person was asked` : ''
      const text = `The run did not end within ${timeoutMs} ms${uncounted} (globalTimeoutMs, or the run's timeoutMs). The trace shows what it waited for.`
      this.#supervisor.overdue(handle.state)
      this.#abort(entry, new RunTimeoutError(text, { runId: handle.id, timeoutMs }), 'failed')
    }
    const time = new RunTime({ clock: this.#supervisor.clock, expire }, timeoutMs)
    entry.time = time
    handle.state.clockOn({
      pause: () => {
        time.pause()
        this.#line.asks(entry, (next) => void this.#begin(next))
      },
      resume: () => {
        time.resume()
        this.#line.goesOn(entry)
      },
    })
    this.#entries.add(entry)
    return entry
  }

  async #begin(entry: RunEntry): Promise<void> {
    const { handle, target } = entry
    const isDurable = this.#settings.durableLog !== undefined
    this.#line.begin(entry)
    handle.status = 'running'
    if (!isDurable) this.#recordStart(handle.state)
    try {
      await this.#start()
    } catch (error) {
      if (handle.state.over) return
      if (error instanceof ConfigurationError) return this.#misconfigured(entry, error)
      if (error instanceof DramatisError && isOfLog(error)) return this.#end(entry, { error }, 'failed')
    }
    if (handle.state.over || this.#entries.find(handle.id) !== entry) return
    if (this.conversations) {
      const error = await this.conversations.load(handle.state)
      if (error) this.#end(entry, { error }, 'failed')
      if (handle.state.over || this.#entries.of(handle.state) !== entry) return
    }
    if (isDurable) this.#recordStart(handle.state) // the log was not there before
    const query = this.#guards.asks ? await this.#guards.query(entry) : handle.state.query
    if (query === undefined || handle.state.over || this.#entries.of(handle.state) !== entry) return
    const settle = (memory: Memory, at: number) => void this.#answered(entry, memory, at)
    try {
      const { state: run } = handle
      this.#supervisor.hostMessages.ask({ target, run, question: questionOf(query, run), settle })
    } catch (error) {
      if (!(error instanceof DramatisError)) throw error
      this.#end(entry, { error }, 'failed')
    }
  }

  #recordStart(run: RunState): void {
    this.#supervisor.journal.record(run, { kind: 'run.started', query: run.query })
  }

  // ---- durable log

  /** Keeps the options of a run in the durable log, for a later process. */
  #keep(entry: RunEntry): void {
    const { journal } = this.#supervisor
    const { state } = entry.handle
    if (entry.isKept || state.over || !journal.isKept) return
    entry.isKept = true
    const { timeoutMs = this.#settings.globalTimeoutMs, priority = 0 } = entry.options
    const rest = { timeoutMs, priority, target: entry.target.index, own: false, script: this.script }
    journal.keep(state, launchedOf(state, rest))
    for (const [hash, bytes] of state.stored) journal.keepPart(state, hash, bytes)
  }

  /** Keeps the runs in the durable log that were launched before there was one. */
  keepLaunched(): void {
    for (const entry of this.#line.all) this.#keep(entry)
  }

  /** Resolves when all that was logged until now is written; undefined without a durable log. */
  written(): Promise<void> | undefined {
    return this.#supervisor.journal.written()
  }

  /**
   * Goes on with a run that an earlier process has begun, and returns what takes its answer. `begins`: its target was
   * not asked yet.
   */
  takeUp(state: RunState, { priority, target }: Launched, timeoutMs: number, begins: boolean): Settle {
    const given = this.#entries.of(state)?.options // those of a caller who resumes the run
    const handle = this.recalled.handleOf(state)
    const budget = state.budget && { budget: state.budget }
    const options = { timeoutMs, priority, models: state.models, ...budget, ...given }
    const entry = this.#enter(handle, options, this.#supervisor.directory.cells[target]!)
    entry.isKept = true
    this.#tracing?.resumed(state)
    this.#supervisor.boards.board(state)
    if (begins && this.#line.isFull) this.#line.enqueue(entry)
    else if (begins) void this.#begin(entry)
    else {
      this.#line.begin(entry)
      handle.status = 'running'
      this.#guards.beside(entry) // that process may have died before it was checked
    }
    return (memory, at) => {
      const now = this.#entries.of(state) // a run that was interrupted meanwhile has another
      if (now) void this.#answered(now, memory, at)
    }
  }

  /** Adds a run that had ended in an earlier process. `goesOn`: false if messages of it are left where they are. */
  takeEnded(state: RunState, ending: RunEnding<unknown>, endedAt: number, status: RunStatus, goesOn: boolean): void {
    this.recalled.takeEnded(state, ending, endedAt, status)
    if (goesOn) this.#ended.add(state)
  }

  /** Goes on with the work that a message from outside has caused in an earlier process. */
  takeUpOwn(state: RunState, leftMs: number): void {
    this.#ended.takeUp(state, leftMs)
  }

  // ---- resume

  /**
   * Returns the result of a run: one that goes on now, or that goes on already, or has ended.
   *
   * Rejects with `UnknownRunError`.
   */
  async resume<T>(runId: string, given: ResumeOptions<T>): Promise<MultiAgentResult<T>> {
    const options = readResumeOptions(runId, given)
    await this.#start()
    this.#assertTakes()
    this.find(runId)
    const entry = this.#entries.find(runId)
    if (!entry) throw unknownRun(runId)
    const { state } = entry.handle
    const resumes = this.interrupted.has(state)
    const { output, signal } = options
    const handle = resumes ? this.interrupted.resume(entry, options) : entry.handle
    const clear = resumes || !signal ? undefined : onAbort(signal, () => this.cancel(state, reasonOf(signal)))
    try {
      const result = await handle.result
      return (resumes || !output ? result : await this.#checkedBy(output, result, state)) as MultiAgentResult<T>
    } finally {
      clear?.()
    }
  }

  /** Returns a result with the data that a schema makes of it. */
  async #checkedBy(
    schema: NonNullable<ResumeOptions<unknown>['output']>,
    result: MultiAgentResult<unknown>,
    run: RunState,
  ): Promise<MultiAgentResult<unknown>> {
    if (!result.success) return result
    try {
      const structured = run.output ? undefined : result.data // else it is what another schema has made
      return { ...result, data: await new RunOutput(schema, run.id).dataOf(structured, result.finalOutput) }
    } catch (error) {
      const invalid = error instanceof DramatisError ? error : new ReplyInvalidError(describe(error), {}, error)
      return this.#entries.resultOf(run, { error: invalid }, result.executionTimeMs)
    }
  }

  /** Goes on with all interrupted runs, and returns those that have a result to wait for. */
  async resumePending(): Promise<RunHandle<unknown>[]> {
    await this.#start()
    this.#assertTakes()
    const handles: RunHandle<unknown>[] = []
    for (const state of this.interrupted.all) {
      const entry = this.#entries.of(state)
      if (entry) handles.push(this.interrupted.resume(entry, {}))
      else this.interrupted.resumeOwn(state)
    }
    return handles
  }

  #assertTakes(): void {
    if (this.lost) throw this.lost
    if (this.closing) throw new TeamClosedError('The team is closed; make a new one with createTeam.', {})
  }

  /** Ends all runs for their callers, because the durable log is lost. A later process can go on with them. */
  interrupt(error: DramatisError): void {
    this.lost = error
    this.interrupted.leave(error)
    for (const entry of this.#line.all) {
      if (entry.handle.state.over) continue
      this.#end(entry, { error }, 'interrupted')
    }
    this.#ended.abortAll(error)
  }

  // ---- end

  async #answered(entry: RunEntry, memory: Memory, at: number): Promise<void> {
    const { handle } = entry
    if (isFailure(memory, at)) return this.#end(entry, { error: errorOf(memory, at) }, 'failed')
    const { content: said, data } = readBody(memory, at)
    try {
      const content = this.#guards.holds(entry) ? await this.#guards.answer(entry, said) : said
      const structured: unknown = data === undefined || content !== said ? undefined : jsonIn(data)
      const checked = await handle.state.output?.dataOf(structured, content)
      if (this.conversations) await this.conversations.save(handle.state)
      this.#end(entry, { finalOutput: content, data: checked }, 'finished')
    } catch (error) {
      this.#end(
        entry,
        { error: error instanceof DramatisError ? error : new ReplyInvalidError(describe(error), {}, error) },
        'failed',
      )
    }
  }

  cancel(run: RunState, reason: string): void {
    const left = this.#entries.of(run)
    if (left && this.interrupted.has(run)) this.interrupted.goOn(left) // so that its messages become dead letters
    const entry = this.#entries.of(run)
    if (!entry || run.over) return
    this.#supervisor.journal.record(run, { kind: 'run.aborted', reason })
    this.#abort(entry, new RunAbortedError(`The run was aborted: ${reason}.`, { runId: run.id, reason }), 'aborted')
  }

  /**
   * Ends a run with an error. Also ends what is left of a run that is over, or of the work that a message from outside
   * has caused.
   */
  fail(run: RunState, error: DramatisError): void {
    const entry = this.#entries.of(run)
    if (entry && !run.over) this.#abort(entry, error, 'failed')
    else this.#ended.abort(run, error)
  }

  #abort(entry: RunEntry, error: DramatisError, status: RunStatus): void {
    if (entry.handle.state.over) return
    this.#end(entry, { error }, status)
  }

  #end(entry: RunEntry, ending: RunEnding<unknown>, status: RunStatus): void {
    const { handle } = entry
    const { state } = handle
    if (state.over) return
    state.over = true
    this.interrupted.release(state) // what was set aside is left over now
    this.#supervisor.journal.tell()
    if ('error' in ending) windDown(this.#supervisor, state, ending.error)
    const boardRevision = this.#supervisor.boards.revisionFor(state)
    state.boardRevision = boardRevision
    const { at } = this.#supervisor.journal.record(state, {
      kind: 'run.finished',
      error: 'error' in ending ? ending.error : null,
      ...(boardRevision !== undefined && { boardRevision }),
    })
    this.#tracing?.finished(state, 'error' in ending ? ending.error : undefined)
    // Before anybody is notified of the end: the event carries the result.
    entry.result = this.#entries.resultOf(state, ending, at - state.startedAt)
    entry.time?.cancel()
    entry.clear()
    this.#line.leave(entry, (next) => void this.#begin(next))
    this.#ended.add(state)
    this.#tellNext()
    const writing = status === 'interrupted' ? undefined : this.written()
    if (writing) void this.#finishWritten(entry, writing, status)
    else handle.finish(entry.result, status)
    this.#supervisor.loop.wake()
  }

  /**
   * Gives a result to its caller once it is in the durable log. If the log is lost, a later process may find another.
   */
  async #finishWritten(entry: RunEntry, writing: Promise<void>, status: RunStatus): Promise<void> {
    const { handle } = entry
    try {
      await writing
      handle.finish(entry.result!, status)
    } catch (error) {
      const ending = { error: error instanceof DramatisError ? error : this.lost! }
      entry.result = this.#entries.resultOf(handle.state, ending, entry.result!.executionTimeMs)
      handle.finish(entry.result, 'interrupted')
    }
  }

  #misconfigured(entry: RunEntry, error: ConfigurationError): void {
    const { handle } = entry
    handle.state.over = true
    handle.state.ending = error
    entry.time?.cancel()
    entry.clear()
    const { at } = this.#supervisor.journal.record(handle.state, { kind: 'run.finished', error })
    this.#tracing?.finished(handle.state, error)
    this.#line.leave(entry, (next) => void this.#begin(next))
    this.#ended.add(handle.state)
    this.#tellNext()
    handle.misconfigured(error, at)
  }

  /**
   * Notifies readers of the team's events before callers that wait for the run resume. It uses a microtask, so that
   * this does not happen inside the call that has led to the end.
   */
  #tellNext(): void {
    queueMicrotask(() => this.#supervisor.journal.tell())
  }

  // ---- for handles and watchers

  get(runId: string): RunHandle<unknown> | undefined {
    return this.#entries.find(runId)?.handle
  }
  /** Finds a run also if only the durable log has it: then it is read. */
  find(runId: string): RunHandle<unknown> | undefined {
    return this.get(runId) ?? this.recalled.find(runId)
  }
  /** Opens a run for a message from outside of any run. */
  ownRun(threadId: string | undefined): RunState {
    const run = this.#ended.open(threadId)
    this.#tracing?.posted(run)
    return run
  }
  get last(): RunState | undefined {
    return this.#last
  }
  list(): RunHandle<unknown>[] {
    return this.#entries.all.map(({ handle }) => handle)
  }
  /** Number of runs that found no room. */
  get refusals(): number {
    return this.#line.refusals
  }
  get counts(): { running: number; queued: number } {
    return this.#line.counts
  }
  resultOf(runId: string): MultiAgentResult<unknown> | undefined {
    return this.#entries.find(runId)?.result
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
  get logName(): string | undefined {
    return this.#supervisor.journal.name
  }
  get redactor(): Redactor {
    return this.#supervisor.redactor
  }

  epochOf(index: number): number {
    return this.#supervisor.directory.cells[index]?.epoch ?? 0
  }
  blackboard(run: RunState): Blackboard | undefined {
    run.boardLent = true
    const { boards, redactor } = this.#supervisor
    if (!boards.board(run)) return undefined
    return redactedBlackboard(boards.view(run, this.#supervisor.directory.name(USER_INDEX)), redactor)
  }
  board(run: RunState): BlackboardView | undefined {
    const { boards, redactor } = this.#supervisor
    const board = boards.board(run)
    return board && readOnly(board, run.revisionOf(board), (entries) => redactor.data(entries))
  }
  onRecords(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Resolves when no run is under way or queued. */
  async quiet(): Promise<void> {
    while (!this.#line.isEmpty) {
      await Promise.all(this.#line.all.map(({ handle }) => handle.result.catch(() => {})))
    }
  }

  /** Tracks a message from outside on its way to its run: `drained` waits for it. */
  entering<T>(sent: Promise<T>): Promise<T> {
    this.#entering.add(this.holds.until(sent))
    const done = () => void this.#entering.delete(sent)
    sent.then(done, done)
    return sent
  }

  /** Resolves when nothing is under way any more, including messages that nobody waits for. */
  async drained(): Promise<void> {
    for (;;) {
      if (this.#entering.size > 0) await Promise.allSettled(this.#entering)
      else if (!this.#line.isEmpty || !this.#ended.areQuiet) await this.#nextRecords()
      else return
    }
  }

  #nextRecords(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.onRecords(() => {
        stop()
        resolve()
      })
    })
  }

  /** Ends all runs. In a team with a durable log they are only interrupted: a later process goes on with them. */
  abortAll(error: DramatisError): void {
    const isDurable = this.#supervisor.journal.isKept
    this.interrupted.leave(error)
    for (const entry of this.#line.all) {
      this.#supervisor.journal.record(entry.handle.state, { kind: 'run.aborted', reason: error.message })
      this.#abort(entry, error, isDurable ? 'interrupted' : 'aborted')
    }
    this.#ended.abortAll(error)
  }
}

type Settle = (memory: Memory, at: number) => void

const LOG_ERRORS: readonly ErrorCode[] = ['LOG_HELD', 'LOG_LOST', 'LOG_CORRUPT', 'LOG_VERSION']

const isOfLog = ({ code }: DramatisError) => LOG_ERRORS.includes(code)

const unknownRun = (runId: string) =>
  new UnknownRunError(`No run "${runId}" is known: the log has none of that id, or has it no more.`, { runId })
