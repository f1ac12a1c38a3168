/**
 * Runs that are interrupted: they have no end, and nothing of them runs until they are resumed. A run is interrupted
 * because it is to be resumed by hand, because an agent is missing, or because its code has changed.
 */

import type { OnMismatch } from '../../mailbox/mailbox.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { DramatisError, describe, ReplyInvalidError, StepMismatchError, UnknownRunError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { Agent } from '../host/agent.ts'
import { RunOutput, type RunState } from '../host/run.ts'
import type { Launched } from '../log/records.ts'
import type { SetAside } from '../verbs/deadline-pauses.ts'
import type { RecalledRuns } from './recalled-runs.ts'
import type { MultiAgentResult } from './result.ts'
import type { ResumeOptions, RunOptions } from './run.ts'
import type { RunEntries, RunEntry } from './run-entries.ts'
import { RunHandle } from './run-handle.ts'
import { readResumeOptions, reasonOf } from './run-options.ts'

export interface Interruption {
  hindrance(): DramatisError | undefined
  /** Lets the run go on. `onMismatch`: what becomes of it if its code has changed. */
  goOn(onMismatch: OnMismatch): void
}

interface Acts {
  script(): string | undefined
  enter(handle: RunHandle<unknown>, options: RunOptions<unknown>, target: Agent): void
  ready(): Promise<void>
}

export class InterruptedRuns {
  readonly #entries: RunEntries
  readonly #recalled: RecalledRuns
  readonly #acts: Acts
  /** Fate of a run whose code has changed, unless its caller decides. */
  readonly #onMismatch: OnMismatch
  /** Functions that let the runs go on, in the order in which these were interrupted. */
  readonly #all = new Map<RunState, Interruption[]>()

  constructor(entries: RunEntries, recalled: RecalledRuns, acts: Acts) {
    this.#entries = entries
    this.#recalled = recalled
    this.#acts = acts
    this.#onMismatch = entries.settings.durableLog?.onMismatch ?? 'refuse'
  }

  /**
   * Adds a run of an earlier process that does not go on yet. `launched`: undefined for one that has its result, and
   * for the work that a message from outside has caused. `error`: what hinders it; its callers get that.
   */
  take(
    state: RunState,
    launched: Launched | undefined,
    interruption: Interruption,
    error: DramatisError | undefined,
  ): void {
    this.#add(state, interruption)
    if (!launched) return
    const handle = this.#recalled.handleOf(state)
    const entry = this.#entries.idle(handle, this.#entries.supervisor.directory.byIndex[launched.target]!)
    handle.status = 'interrupted'
    this.#entries.add(entry)
    if (error) this.#settle(entry, error)
  }

  #add(run: RunState, interruption: Interruption): void {
    const others = this.#all.get(run)
    if (others) others.push(interruption)
    else this.#all.set(run, [interruption])
  }

  /** Interrupts a run because the code of a turn has changed. What else was asked for in it goes on. */
  suspend(run: RunState, mismatch: DramatisError, turn: SetAside): void {
    const { line, supervisor } = this.#entries
    const error = this.#withScript(run, mismatch)
    supervisor.logger.warn(
      { runId: run.id, error: error.message },
      'a run is interrupted, because its code has changed',
    )
    this.#add(run, turn)
    const entry = this.#entries.of(run)
    if (!entry || entry.handle.status === 'interrupted') return
    entry.options = { ...entry.options, timeoutMs: Math.max(1, entry.time?.leftMs ?? 0) }
    entry.time?.cancel()
    line.leave(entry)
    this.#settle(entry, error)
  }

  /** Says of a script that took another way whether its text is the one with which the run began. */
  #withScript({ script }: RunState, error: DramatisError): DramatisError {
    const now = this.#acts.script()
    if (script === undefined || now === undefined || error.details.agent !== ORCHESTRATOR) return error
    const isSame = script === now
    const text = isSame
      ? 'The text of the script is the same as when the run began: what it uses has changed, or it decides by the clock, by random numbers or by variables.'
      : 'The text of the script has changed since the run began.'
    return new StepMismatchError(`${error.message} ${text}`, { ...error.details, scriptChanged: !isSame }, error.cause)
  }

  /** Tells the callers of a run why it stays interrupted. It has no end, so it can be resumed. */
  #settle(entry: RunEntry, error: DramatisError): void {
    const { supervisor, host } = this.#entries
    const { handle } = entry
    const { state } = handle
    if (handle.isSettled) entry.handle = new RunHandle<unknown>(state, host)
    entry.result = this.#entries.resultOf(state, { error }, supervisor.clock.now() - state.startedAt)
    entry.handle.finish(entry.result, 'interrupted')
  }

  has(run: RunState): boolean {
    return this.#all.has(run)
  }

  hasIndex(index: number): boolean {
    const run = this.#entries.supervisor.runs.get(index)
    return run !== undefined && this.has(run)
  }

  /** Goes on with a run, if nothing hinders it. Returns the handle for its callers from now on. */
  resume(entry: RunEntry, { onMismatch, output, signal, timeoutMs }: ResumeOptions<unknown>): RunHandle<unknown> {
    const { state } = entry.handle
    const hindrance = this.#hindrance(state)
    if (hindrance) {
      this.#settle(entry, hindrance)
      return entry.handle
    }
    if (output) state.output ??= new RunOutput(output, state.id, 'resumer')
    entry.options = { ...entry.options, ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) }
    this.goOn(entry, onMismatch)
    if (signal?.aborted) this.#entries.host.cancel(state, reasonOf(signal))
    return this.#entries.find(state.id)!.handle
  }

  #hindrance(run: RunState): DramatisError | undefined {
    for (const interruption of this.#all.get(run) ?? []) {
      const error = interruption.hindrance()
      if (error) return error
    }
    return undefined
  }

  goOn(entry: RunEntry, onMismatch = this.#onMismatch): void {
    const { handle, time } = entry
    if (time) this.#reenter(entry) // a run of an earlier process is entered by its recovery
    this.#letGoOn(handle.state, onMismatch)
  }

  /** Makes a run that was interrupted in this process one of those under way. */
  #reenter(entry: RunEntry): void {
    const { handle, options, target } = entry
    entry.clear()
    const { host } = this.#entries
    this.#acts.enter(handle.isSettled ? new RunHandle(handle.state, host) : handle, options, target)
  }

  /** Goes on with what was set aside in a run that has ended, or of the work of a message from outside. */
  release(state: RunState): void {
    this.#letGoOn(state, 'continue')
  }

  #letGoOn(run: RunState, onMismatch: OnMismatch): void {
    const all = this.#all.get(run) ?? []
    this.#all.delete(run)
    for (const interruption of all) interruption.goOn(onMismatch)
  }

  /** Tells the callers of all runs that this process will not go on with them. */
  leave(error: DramatisError): void {
    for (const state of this.#all.keys()) {
      const entry = this.#entries.of(state)
      if (entry && !entry.handle.isSettled) this.#settle(entry, error)
    }
  }

  /**
   * Returns the result of a run: one that goes on now, or that goes on already, or has ended.
   *
   * Rejects with `UnknownRunError`.
   */
  async resultOf<T>(runId: string, given: ResumeOptions<T>): Promise<MultiAgentResult<T>> {
    const options = readResumeOptions(runId, given)
    await this.#acts.ready()
    const entries = this.#entries
    if (!entries.find(runId)) this.#recalled.find(runId)
    const entry = entries.find(runId)
    if (!entry) throw unknownRun(runId)
    const { state } = entry.handle
    const resumes = this.has(state)
    const { output, signal } = options
    if (output) this.#recalled.takeOutput(entry, new RunOutput(output, runId))
    const handle = resumes ? this.resume(entry, options) : entry.handle
    const clear = resumes || !signal ? undefined : onAbort(signal, () => entries.host.cancel(state, reasonOf(signal)))
    try {
      const result = await handle.result
      if (resumes || !output) return result as MultiAgentResult<T>
      // a run that was read from the log meanwhile has another state
      return await this.checkedBy(output, result, handle.state)
    } finally {
      clear?.()
    }
  }

  /** Returns a result with the data that a schema makes of it, or with the error that it misses the schema. */
  async checkedBy<T>(
    schema: NonNullable<ResumeOptions<T>['output']>,
    result: MultiAgentResult<unknown>,
    run: RunState,
  ): Promise<MultiAgentResult<T>> {
    if (!result.success) return result
    try {
      const data = (await new RunOutput(schema, run.id).dataOf(run.structured, result.finalOutput)) as T
      return { ...result, data }
    } catch (error) {
      const invalid = error instanceof DramatisError ? error : new ReplyInvalidError(describe(error), {}, error)
      return this.#entries.resultOf(run, { error: invalid }, result.executionTimeMs)
    }
  }

  /** Goes on with all interrupted runs, and returns those that have a result to wait for. */
  async resumePending(): Promise<RunHandle<unknown>[]> {
    await this.#acts.ready()
    const handles: RunHandle<unknown>[] = []
    for (const state of [...this.#all.keys()]) {
      const entry = this.#entries.of(state)
      if (entry) handles.push(this.resume(entry, {}))
      else if (!this.#hindrance(state)) this.release(state)
    }
    return handles
  }
}

const unknownRun = (runId: string) =>
  new UnknownRunError(`No run "${runId}" is known: the log has none of that id, or has it no more.`, { runId })
