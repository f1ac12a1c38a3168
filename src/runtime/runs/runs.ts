/**
 * All runs of a team, from launch to end. The limit on concurrent runs is in run-queue.ts; the handling of ended runs
 * is in ended-runs.ts.
 */
import type { Blackboard } from '../../blackboard/entry.ts'
import type { Timer } from '../../clock.ts'
import {
  ConfigurationError,
  DramatisError,
  describe,
  type ErrorCode,
  LogLostError,
  ReplyInvalidError,
  RunAbortedError,
  RunTimeoutError,
  StepMismatchError,
  TeamClosedError,
  type TeamOverloadedError,
  UnknownRunError,
} from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import type { OnMismatch } from '../../mailbox/envelope.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { onAbort } from '../../on-abort.ts'
import type { Launched } from '../log/records.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { TeamSettings } from '../settings/settings.ts'
import { USER_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Reader } from '../state/reader.ts'
import { RunOutput } from '../state/run-output.ts'
import { RunState } from '../state/run-state.ts'
import type { SetAside } from '../supervision/changed-turns.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import type { Tracing } from '../telemetry/tracing.ts'
import { openQuestionsOf } from '../verbs/questions.ts'
import { redactedBlackboard } from '../verbs/redacted-blackboard.ts'
import { EndedRuns, trimLog, windDown } from './ended-runs.ts'
import { InterruptedRuns, type Interruption } from './interrupted-runs.ts'
import type { PastRun, PastRuns } from './past-runs.ts'
import { Holds } from './process-holds.ts'
import { type MultiAgentResult, type RunEnding, resultOf } from './result.ts'
import { type ResumeOptions, RunHandle, type RunHost, type RunOptions, type RunStatus } from './run.ts'
import { readResumeOptions, readRunOptions } from './run-options.ts'
import { RunLine } from './run-queue.ts'

interface Entry {
  handle: RunHandle<unknown>
  /** True if the durable log has its options. */
  isKept: boolean
  options: RunOptions<unknown>
  readonly target: Cell
  /** Monotonic ms at which its time is up. */
  readonly endsAt: number
  readonly clear: () => void
  timer: Timer | undefined
  result: MultiAgentResult<unknown> | undefined
  /** True if only the log knows the query. */
  readonly takesQuery?: boolean
}

export class RunBook implements RunHost {
  readonly #supervisor: Supervisor
  readonly #settings: TeamSettings
  readonly #start: () => Promise<void>
  readonly #entries = new Map<string, Entry>()
  readonly #byState = new Map<RunState, Entry>()
  readonly #line: RunLine<Entry>
  readonly #ended: EndedRuns
  readonly #interrupted = new InterruptedRuns()
  readonly #listeners = new Set<() => void>()
  readonly #entering = new Set<Promise<unknown>>()
  readonly #tracing: Tracing | undefined
  #last: RunState | undefined
  closing = false
  /** Hash of the text of the protocol script. */
  script: string | undefined
  /** Runs that only the durable log has. */
  past: PastRuns | undefined
  /** Called with each run, and the work of each message from outside, of which nothing is under way any more. */
  onQuiet: ((run: RunState) => void) | undefined
  /** Set when the durable log is lost: no run is taken any more. */
  lost: DramatisError | undefined
  /** Keeps the process alive while work is under way beside the runs, or somebody waits. */
  readonly holds: Holds

  constructor(supervisor: Supervisor, settings: TeamSettings, start: () => Promise<void>, tracing?: Tracing) {
    this.#supervisor = supervisor
    this.#settings = settings
    this.#start = start
    this.#tracing = tracing
    this.#line = new RunLine(settings, supervisor.clock)
    this.holds = new Holds(supervisor.clock)
    this.#ended = new EndedRuns(supervisor, this.holds, settings.globalTimeoutMs, {
      quiet: (run) => this.onQuiet?.(run),
      forgotten: (run) => {
        this.#entries.delete(run.id)
        this.#byState.delete(run)
      },
    })
  }

  /** Retires runs that have become quiet, trims logs, and wakes readers of events. */
  readonly part = (): Reader => ({
    next: () => {
      this.#ended.settle()
      for (const { handle } of this.#line.running) trimLog(handle.state, this.#supervisor.directory.cells)
      for (const listener of [...this.#listeners]) listener()
    },
  })

  // ---- launch

  launch<T>(query: string, given: RunOptions<T>, target: Cell): RunHandle<T> {
    this.#assertTakes()
    this.#settings.secrets.look()
    const options = readRunOptions(query, given)
    const joined = options.runId === undefined ? undefined : this.#join(options.runId, query, options)
    if (joined) return joined as RunHandle<T>
    this.#checkModels(options.models ?? {})
    const waits = this.#line.admit()
    const state = this.#supervisor.runs.open(
      options.runId ?? this.#supervisor.frames.id(),
      query,
      options.metadata,
      options.threadId,
    )
    state.models = options.models ?? {}
    state.budget = options.budget
    if (options.output) state.output = new RunOutput(options.output, state.id)
    const handle = new RunHandle<T>(state, this)
    const entry = this.#enter(handle, options, target)
    this.#keep(entry)
    this.#last = state
    this.#tracing?.launched(state)
    this.#supervisor.boards.board(state)
    if (options.signal?.aborted) this.cancel(state, reasonOf(options.signal))
    else if (waits) this.#wait(entry)
    else void this.#begin(entry)
    return handle
  }

  #wait(entry: Entry): void {
    this.#line.enqueue(entry)
    const { maxConcurrentRuns } = this.#settings
    const fields = { runId: entry.handle.id, queued: this.#line.counts.queued }
    this.#supervisor.limits.reached('maxConcurrentRuns', maxConcurrentRuns, 'runs wait for their start', fields)
  }

  /** Makes the result of a run that `launch` has no room for: nothing happened in it, and it cannot be found later. */
  refused<T>(query: string, options: RunOptions<T>, error: TeamOverloadedError): MultiAgentResult<T> {
    const { boards, clock, frames } = this.#supervisor
    const { runId = frames.id(), metadata, threadId } = options
    const run = new RunState(0, runId, query, clock.now(), metadata, threadId)
    boards.board(run)
    return resultOf(run, { error }, 0, this.#agents(run), this.#supervisor)
  }

  /** Checks model overrides: each key must be a name that is in use, and each value a model that exists. */
  #checkModels(models: Readonly<Record<string, string>>): void {
    const roles = this.#supervisor.directory.agents().map(({ settings }) => settings.info.model)
    for (const name of Object.keys(models)) this.#settings.models.assertOverride(name, models, roles)
  }

  #join(runId: string, query: string, options: RunOptions<unknown>): RunHandle<unknown> | undefined {
    const entry = this.#entries.get(runId)
    if (entry) {
      const { handle, takesQuery } = entry
      const past = takesQuery ? this.past?.find(runId) : undefined
      const isSame = past ? this.past?.isOf(past, query) : handle.state.query === query
      if (!isSame) throw otherQuery(runId)
      return this.#interrupted.has(handle.state) ? this.#goOn(entry, options) : handle
    }
    const past = this.past?.find(runId)
    if (past && !this.past?.isOf(past, query)) throw otherQuery(runId)
    return past && this.#recall(past, query)
  }

  /** Returns the handle of a run that is read from the log now. */
  #recall(past: PastRun, query: string | undefined, found?: RunHandle<unknown>): RunHandle<unknown> {
    const state = new RunState(0, past.id, query ?? '', past.startedAt)
    const handle = found ?? new RunHandle<unknown>(state, this)
    handle.status = past.status
    const target = this.#supervisor.directory.cells[USER_INDEX]!
    const rest = { options: {}, target, endsAt: 0, clear: () => {}, timer: undefined, result: undefined }
    const entry: Entry = { handle, isKept: true, takesQuery: query === undefined, ...rest }
    this.#entries.set(past.id, entry)
    this.holds.until(this.past!.load(past)).catch((error: unknown) => {
      if (this.#entries.get(past.id) === entry) this.#entries.delete(past.id) // it can be tried again
      const text = `The run cannot be read from the log: ${describe(error)}`
      const reason = error instanceof DramatisError ? error : new LogLostError(text, { runId: past.id }, error)
      handle.finish(resultOf(handle.state, { error: reason }, 0, [], this.#supervisor), past.status)
    })
    return handle
  }

  /** Lets what was launched before the log was read join the runs that only the log has. */
  joinPast(): void {
    for (const entry of this.#line.all) {
      const { handle } = entry
      const past = this.past?.find(handle.id)
      if (!past) continue
      this.#leave(entry)
      this.#entries.delete(handle.id)
      if (this.past?.isOf(past, handle.state.query)) this.#recall(past, handle.state.query, handle)
      else handle.misconfigured(otherQuery(handle.id))
    }
  }

  /** Takes a run out that turned out to be one that is there already. */
  #leave(entry: Entry): void {
    const { state } = entry.handle
    this.#byState.delete(state)
    this.#supervisor.runs.forget(state)
    entry.timer?.cancel()
    entry.clear()
    this.#line.leave(entry, (next) => void this.#begin(next))
  }

  #enter(handle: RunHandle<unknown>, options: RunOptions<unknown>, target: Cell): Entry {
    const { signal } = options
    const clear = signal && onAbort(signal, () => this.cancel(handle.state, reasonOf(signal)))
    const timeoutMs = options.timeoutMs ?? this.#settings.globalTimeoutMs
    const entry: Entry = {
      handle,
      isKept: false,
      options,
      target,
      endsAt: this.#supervisor.clock.monotonic() + timeoutMs,
      clear: () => clear?.(),
      timer: undefined,
      result: undefined,
    }
    const expire = () => {
      const text = `The run did not end within ${timeoutMs} ms (globalTimeoutMs, or the run's timeoutMs). The trace shows what it waited for.${openQuestionsOf(handle.state)}`
      this.#supervisor.overdue(handle.state)
      this.#abort(entry, new RunTimeoutError(text, { runId: handle.id, timeoutMs }), 'failed')
    }
    entry.timer = this.#supervisor.clock.timer(timeoutMs, expire, true)
    this.#entries.set(handle.id, entry)
    this.#byState.set(handle.state, entry)
    return entry
  }

  async #begin(entry: Entry): Promise<void> {
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
    if (handle.state.over || this.#entries.get(handle.id) !== entry) return
    if (isDurable) this.#recordStart(handle.state) // the log was not there before
    const settle = (memory: Memory, at: number) => void this.#answered(entry, memory, at)
    try {
      const { state: run } = handle
      this.#supervisor.hostMessages.ask({ target, run, question: { content: run.query }, settle })
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
  #keep(entry: Entry): void {
    const { journal } = this.#supervisor
    const { state } = entry.handle
    if (entry.isKept || state.over || !journal.isKept) return
    entry.isKept = true
    const { timeoutMs = this.#settings.globalTimeoutMs, priority = 0 } = entry.options
    const rest = { timeoutMs, priority, target: entry.target.index, own: false, script: this.script }
    journal.keep(state, launchedOf(state, rest))
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
    const given = this.#byState.get(state)?.options // those of a caller who resumes the run
    const handle = this.#handleOf(state)
    const budget = state.budget && { budget: state.budget }
    const options = { timeoutMs, priority, models: state.models, ...budget, ...given }
    const entry = this.#enter(handle, options, this.#supervisor.directory.cells[target]!)
    entry.isKept = true
    this.#supervisor.boards.board(state)
    if (begins && this.#line.isFull) this.#line.enqueue(entry)
    else if (begins) void this.#begin(entry)
    else {
      this.#line.begin(entry)
      handle.status = 'running'
    }
    return (memory, at) => {
      const now = this.#byState.get(state) // a run that was interrupted meanwhile has another
      if (now) void this.#answered(now, memory, at)
    }
  }

  /** Adds a run that had ended in an earlier process. `goesOn`: false if messages of it are left where they are. */
  takeEnded(state: RunState, ending: RunEnding<unknown>, endedAt: number, status: RunStatus, goesOn: boolean): void {
    const handle = this.#handleOf(state)
    const target = this.#supervisor.directory.cells[USER_INDEX]!
    const result = resultOf(state, ending, endedAt - state.startedAt, this.#agents(state), this.#supervisor)
    const entry = { handle, isKept: true, options: {}, target, endsAt: 0, clear: () => {}, timer: undefined, result }
    state.over = true
    this.#entries.set(handle.id, entry)
    this.#byState.set(state, entry)
    if (goesOn) this.#ended.add(state)
    handle.finish(result, status)
  }

  /** Goes on with the work that a message from outside has caused in an earlier process. */
  takeUpOwn(state: RunState, leftMs: number): void {
    this.#ended.takeUp(state, leftMs)
  }

  /** Returns the handle of a run of an earlier process. A caller may have one already, from before the log was read. */
  #handleOf(state: RunState): RunHandle<unknown> {
    const entry = this.#entries.get(state.id)
    if (!entry) return new RunHandle<unknown>(state, this)
    const { handle } = entry
    if (handle.state === state) return handle.isSettled ? new RunHandle<unknown>(state, this) : handle
    this.#leave(entry)
    if (!entry.takesQuery && handle.state.query !== state.query) {
      handle.misconfigured(otherQuery(state.id))
      return new RunHandle<unknown>(state, this)
    }
    handle.becomes(state)
    return handle
  }

  // ---- interrupted runs

  /**
   * Adds a run of an earlier process that does not go on yet. `launched`: undefined for one that has its result, and
   * for the work that a message from outside has caused. `error`: what hinders it; its callers get that.
   */
  takeInterrupted(
    state: RunState,
    launched: Launched | undefined,
    interruption: Interruption,
    error: DramatisError | undefined,
  ): void {
    this.#interrupted.add(state, interruption)
    if (!launched) return
    const handle = this.#handleOf(state)
    const target = this.#supervisor.directory.cells[launched.target]!
    const rest = { endsAt: 0, clear: () => {}, timer: undefined, result: undefined }
    const entry = { handle, isKept: true, options: {}, target, ...rest }
    handle.status = 'interrupted'
    this.#entries.set(handle.id, entry)
    this.#byState.set(state, entry)
    if (error) this.#settleInterrupted(entry, error)
  }

  /** Tells the callers of a run why it stays interrupted. It has no end, so it can be resumed. */
  #settleInterrupted(entry: Entry, error: DramatisError): void {
    const { handle } = entry
    const { state } = handle
    if (handle.isSettled) entry.handle = new RunHandle<unknown>(state, this)
    const tookMs = this.#supervisor.clock.now() - state.startedAt
    entry.result = resultOf(state, { error }, tookMs, this.#agents(state), this.#supervisor)
    entry.handle.finish(entry.result, 'interrupted')
  }

  /** Interrupts a run because the code of a turn has changed. What else was asked for in it goes on. */
  suspend(run: RunState, mismatch: DramatisError, turn: SetAside): void {
    const { clock, logger } = this.#supervisor
    const error = this.#withScript(run, mismatch)
    logger.warn({ runId: run.id, error: error.message }, 'a run is interrupted, because its code has changed')
    this.#interrupted.add(run, turn)
    const entry = this.#byState.get(run)
    if (!entry || entry.handle.status === 'interrupted') return
    entry.options = { ...entry.options, timeoutMs: Math.max(1, entry.endsAt - clock.monotonic()) }
    entry.timer?.cancel()
    this.#line.leave(entry, (next) => void this.#begin(next))
    this.#settleInterrupted(entry, error)
  }

  /** Says of a script that took another way whether its text is the one with which the run began. */
  #withScript({ script }: RunState, error: DramatisError): DramatisError {
    if (script === undefined || this.script === undefined || error.details.agent !== ORCHESTRATOR) return error
    const isSame = script === this.script
    const text = isSame
      ? 'The text of the script is the same as when the run began: what it uses has changed, or it decides by the clock, by random numbers or by variables.'
      : 'The text of the script has changed since the run began.'
    return new StepMismatchError(`${error.message} ${text}`, { ...error.details, scriptChanged: !isSame }, error.cause)
  }

  /** Makes a run that was interrupted in this process one of those under way. */
  #reenter(entry: Entry): void {
    const { handle, options, target } = entry
    entry.clear()
    const next = this.#enter(handle.isSettled ? new RunHandle(handle.state, this) : handle, options, target)
    next.isKept = true
    this.#line.begin(next)
    next.handle.status = 'running'
  }

  /** Goes on with an interrupted run, if nothing hinders it. Returns the handle for its callers from now on. */
  #goOn(entry: Entry, { onMismatch, output, signal, timeoutMs }: ResumeOptions<unknown>): RunHandle<unknown> {
    const { state } = entry.handle
    const hindrance = this.#interrupted.hindrance(state)
    if (hindrance) {
      this.#settleInterrupted(entry, hindrance)
      return entry.handle
    }
    if (output) state.output = new RunOutput(output, state.id)
    entry.options = { ...entry.options, ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) }
    this.#letGoOn(entry, onMismatch)
    if (signal?.aborted) this.cancel(state, reasonOf(signal))
    return this.#entries.get(state.id)!.handle
  }

  #letGoOn(entry: Entry, onMismatch: OnMismatch = this.#settings.durableLog?.onMismatch ?? 'refuse'): void {
    const { state } = entry.handle
    if (entry.endsAt > 0) this.#reenter(entry) // a run of an earlier process is entered by its recovery
    this.#interrupted.goOn(state, onMismatch)
  }

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
    const entry = this.#entries.get(runId)
    if (!entry) throw unknownRun(runId)
    const { state } = entry.handle
    const resumes = this.#interrupted.has(state)
    const { output, signal } = options
    const handle = resumes ? this.#goOn(entry, options) : entry.handle
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
      return resultOf(run, { error: invalid }, result.executionTimeMs, this.#agents(run), this.#supervisor)
    }
  }

  /** Goes on with all interrupted runs, and returns those that have a result to wait for. */
  async resumePending(): Promise<RunHandle<unknown>[]> {
    await this.#start()
    this.#assertTakes()
    const handles: RunHandle<unknown>[] = []
    for (const state of this.#interrupted.all) {
      const entry = this.#byState.get(state)
      if (entry) handles.push(this.#goOn(entry, {}))
      else if (!this.#interrupted.hindrance(state)) this.#interrupted.goOn(state, 'continue')
    }
    return handles
  }

  #assertTakes(): void {
    if (this.lost) throw this.lost
    if (this.closing) throw new TeamClosedError('The team is closed; make a new one with createTeam.', {})
  }

  /** Tells the callers of interrupted runs that this process will not go on with them. */
  #leaveInterrupted(error: DramatisError): void {
    for (const state of this.#interrupted.all) {
      const entry = this.#byState.get(state)
      if (entry && !entry.handle.isSettled) this.#settleInterrupted(entry, error)
    }
  }

  /** Ends all runs for their callers, because the durable log is lost. A later process can go on with them. */
  interrupt(error: DramatisError): void {
    this.lost = error
    this.#leaveInterrupted(error)
    for (const entry of this.#line.all) {
      if (entry.handle.state.over) continue
      this.#end(entry, { error }, 'interrupted')
    }
    this.#ended.abortAll(error)
  }

  // ---- end

  async #answered(entry: Entry, memory: Memory, at: number): Promise<void> {
    const { handle } = entry
    if (isFailure(memory, at)) return this.#end(entry, { error: errorOf(memory, at) }, 'failed')
    const { content, data } = readBody(memory, at)
    try {
      const structured: unknown = data === undefined ? undefined : jsonIn(data)
      const checked = await handle.state.output?.dataOf(structured, content)
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
    const left = this.#byState.get(run)
    if (left && this.#interrupted.has(run)) this.#letGoOn(left) // so that its messages become dead letters
    const entry = this.#byState.get(run)
    if (!entry || run.over) return
    this.#supervisor.journal.record(run, { kind: 'run.aborted', reason })
    this.#abort(entry, new RunAbortedError(`The run was aborted: ${reason}.`, { runId: run.id, reason }), 'aborted')
  }

  /**
   * Ends a run with an error. Also ends what is left of a run that is over, or of the work that a message from outside
   * has caused.
   */
  fail(run: RunState, error: DramatisError): void {
    const entry = this.#byState.get(run)
    if (entry && !run.over) this.#abort(entry, error, 'failed')
    else this.#ended.abort(run, error)
  }

  #abort(entry: Entry, error: DramatisError, status: RunStatus): void {
    if (entry.handle.state.over) return
    this.#end(entry, { error }, status)
  }

  #end(entry: Entry, ending: RunEnding<unknown>, status: RunStatus): void {
    const { handle } = entry
    const { state } = handle
    if (state.over) return
    state.over = true
    this.#interrupted.goOn(state, 'continue') // what was set aside is left over now
    this.#supervisor.journal.tell()
    if ('error' in ending) windDown(this.#supervisor, state, ending.error)
    this.#supervisor.journal.record(state, { kind: 'run.finished', error: 'error' in ending ? ending.error : null })
    this.#tracing?.finished(state, 'error' in ending ? ending.error : undefined)
    // Before anybody is notified of the end: the event carries the result.
    const executionTimeMs = this.#supervisor.clock.now() - state.startedAt
    entry.result = resultOf(state, ending, executionTimeMs, this.#agents(state), this.#supervisor)
    entry.timer?.cancel()
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
  async #finishWritten(entry: Entry, writing: Promise<void>, status: RunStatus): Promise<void> {
    const { handle } = entry
    try {
      await writing
      handle.finish(entry.result!, status)
    } catch (error) {
      const ending = { error: error instanceof DramatisError ? error : this.lost! }
      entry.result = resultOf(
        handle.state,
        ending,
        entry.result!.executionTimeMs,
        this.#agents(handle.state),
        this.#supervisor,
      )
      handle.finish(entry.result, 'interrupted')
    }
  }

  #agents(run: RunState): string[] {
    return this.#supervisor.directory.agents(run).map((cell) => cell.name)
  }

  #misconfigured(entry: Entry, error: ConfigurationError): void {
    const { handle } = entry
    handle.state.over = true
    handle.state.ending = error
    entry.timer?.cancel()
    entry.clear()
    this.#supervisor.journal.record(handle.state, { kind: 'run.finished', error })
    this.#tracing?.finished(handle.state, error)
    this.#line.leave(entry, (next) => void this.#begin(next))
    this.#ended.add(handle.state)
    this.#tellNext()
    handle.misconfigured(error)
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
    return this.#entries.get(runId)?.handle
  }
  /** Finds a run also if only the durable log has it: then it is read. */
  find(runId: string): RunHandle<unknown> | undefined {
    const past = this.#entries.has(runId) ? undefined : this.past?.find(runId)
    return past ? this.#recall(past, past.query) : this.get(runId)
  }
  /** Opens a run for a message from outside of any run. */
  ownRun(threadId: string | undefined): RunState {
    const run = this.#ended.open(threadId)
    this.#tracing?.posted(run)
    return run
  }
  /** Checks whether a run, or the work of a message from outside, waits until it is resumed. */
  isInterrupted(index: number): boolean {
    const run = this.#supervisor.runs.get(index)
    return run !== undefined && this.#interrupted.has(run)
  }
  get last(): RunState | undefined {
    return this.#last
  }
  list(): RunHandle<unknown>[] {
    return [...this.#entries.values()].map(({ handle }) => handle)
  }
  /** Returns the runs that only the durable log has, with their queries. */
  async listPast(status?: RunStatus): Promise<(PastRun & { query: string })[]> {
    const runs = [...(this.past?.list() ?? [])].filter((run) => status === undefined || run.status === status)
    const own = runs.filter(({ id }) => !this.#entries.has(id))
    const long = await this.past?.queries(own.filter(({ query }) => query === undefined))
    return own.map((run) => ({ ...run, query: run.query ?? long?.get(run.index) ?? '' }))
  }
  /** Number of runs that found no room. */
  get refusals(): number {
    return this.#line.refusals
  }
  get counts(): { running: number; queued: number } {
    return this.#line.counts
  }
  resultOf(runId: string): MultiAgentResult<unknown> | undefined {
    return this.#entries.get(runId)?.result
  }
  name(index: number): string {
    return this.#supervisor.directory.name(index)
  }
  runId(index: number): string {
    return this.#supervisor.runs.idOf(index)
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
    this.#leaveInterrupted(error)
    for (const entry of this.#line.all) {
      this.#supervisor.journal.record(entry.handle.state, { kind: 'run.aborted', reason: error.message })
      this.#abort(entry, error, isDurable ? 'interrupted' : 'aborted')
    }
    this.#ended.abortAll(error)
  }
}

type Settle = (memory: Memory, at: number) => void

/** Returns the record that a later process needs to go on with a run. */
function launchedOf(
  { id, query, startedAt, metadata, threadId, models, budget }: RunState,
  rest: Pick<Launched, 'timeoutMs' | 'priority' | 'target' | 'own' | 'script'>,
): Launched & { kind: 'run.launched' } {
  const options = { ...(threadId !== undefined && { threadId }), ...(budget && { budget }) }
  return { kind: 'run.launched', id, query, startedAt, metadata, models, ...options, ...rest }
}

const LOG_ERRORS: readonly ErrorCode[] = ['LOG_HELD', 'LOG_LOST', 'LOG_CORRUPT', 'LOG_VERSION']

const isOfLog = ({ code }: DramatisError) => LOG_ERRORS.includes(code)

const unknownRun = (runId: string) =>
  new UnknownRunError(`No run "${runId}" is known: the log has none of that id, or has it no more.`, { runId })

const otherQuery = (runId: string) =>
  new ConfigurationError(
    `runId: "${runId}" is the id of a run with another query; the same id joins that run. Use a new id.`,
    { path: 'runId', got: runId },
  )

const reasonOf = (signal: AbortSignal): string =>
  signal.reason instanceof Error ? signal.reason.message : describe(signal.reason)
