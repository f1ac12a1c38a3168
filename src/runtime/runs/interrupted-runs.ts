/**
 * Runs that are interrupted: they have no end, and nothing of them runs until they are resumed. A run is interrupted
 * because it is to be resumed by hand, because an agent is missing, or because its code has changed.
 */

import type { OnMismatch } from '../../mailbox/mailbox.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { DramatisError, describe, ReplyInvalidError, StepMismatchError, UnknownRunError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { Cell } from '../host/agent.ts'
import { RunOutput, type RunState } from '../host/run.ts'
import type { Launched } from '../log/records.ts'
import type { SetAside } from '../supervision/changed-turns.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { RecalledRuns } from './recalled-runs.ts'
import type { MultiAgentResult } from './result.ts'
import type { ResumeOptions, RunOptions } from './run.ts'
import type { RunEntries, RunEntry } from './run-entries.ts'
import { RunHandle, type RunHost } from './run-handle.ts'
import { readResumeOptions, reasonOf } from './run-options.ts'

/** Functions that let a run go on. */
export interface Interruption {
  /** Returns why the run cannot go on now, if there is a reason. */
  hindrance(): DramatisError | undefined
  /** Lets the run go on. `onMismatch`: what becomes of it if its code has changed. */
  goOn(onMismatch: OnMismatch): void
}

class Interruptions {
  readonly #all = new Map<RunState, Interruption[]>()

  add(run: RunState, interruption: Interruption): void {
    const others = this.#all.get(run)
    if (others) others.push(interruption)
    else this.#all.set(run, [interruption])
  }

  has(run: RunState): boolean {
    return this.#all.has(run)
  }

  hindrance(run: RunState): DramatisError | undefined {
    for (const interruption of this.#all.get(run) ?? []) {
      const error = interruption.hindrance()
      if (error) return error
    }
    return undefined
  }

  /** Lets the run go on, whatever hinders it. */
  goOn(run: RunState, onMismatch: OnMismatch): void {
    const all = this.#all.get(run) ?? []
    this.#all.delete(run)
    for (const interruption of all) interruption.goOn(onMismatch)
  }

  /** Returns the runs in the order in which they were interrupted. */
  get all(): RunState[] {
    return [...this.#all.keys()]
  }
}

interface InterruptedRunsNeeds {
  readonly supervisor: Supervisor
  readonly host: RunHost
  readonly entries: RunEntries
  /** Fate of a run whose code has changed, unless its caller decides. */
  readonly onMismatch: OnMismatch
  /** Returns the hash of the text of the protocol script. */
  script(): string | undefined
  /** Returns the handle of a run of an earlier process. */
  handleOf(state: RunState): RunHandle<unknown>
  /** Takes a run out of those under way. */
  pause(entry: RunEntry): void
  /** Adds a run to those under way. */
  enter(handle: RunHandle<unknown>, options: RunOptions<unknown>, target: Cell): void
}

export class InterruptedRuns {
  readonly #needs: InterruptedRunsNeeds
  readonly #interruptions = new Interruptions()

  constructor(needs: InterruptedRunsNeeds) {
    this.#needs = needs
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
    this.#interruptions.add(state, interruption)
    if (!launched) return
    const { entries, handleOf, supervisor } = this.#needs
    const handle = handleOf(state)
    const entry = entries.idle(handle, supervisor.directory.cells[launched.target]!)
    handle.status = 'interrupted'
    entries.add(entry)
    if (error) this.#settle(entry, error)
  }

  /** Interrupts a run because the code of a turn has changed. What else was asked for in it goes on. */
  suspend(run: RunState, mismatch: DramatisError, turn: SetAside): void {
    const { entries, pause, supervisor } = this.#needs
    const { logger } = supervisor
    const error = this.#withScript(run, mismatch)
    logger.warn({ runId: run.id, error: error.message }, 'a run is interrupted, because its code has changed')
    this.#interruptions.add(run, turn)
    const entry = entries.of(run)
    if (!entry || entry.handle.status === 'interrupted') return
    entry.options = { ...entry.options, timeoutMs: Math.max(1, entry.time?.leftMs ?? 0) }
    entry.time?.cancel()
    pause(entry)
    this.#settle(entry, error)
  }

  /** Says of a script that took another way whether its text is the one with which the run began. */
  #withScript({ script }: RunState, error: DramatisError): DramatisError {
    const now = this.#needs.script()
    if (script === undefined || now === undefined || error.details.agent !== ORCHESTRATOR) return error
    const isSame = script === now
    const text = isSame
      ? 'The text of the script is the same as when the run began: what it uses has changed, or it decides by the clock, by random numbers or by variables.'
      : 'The text of the script has changed since the run began.'
    return new StepMismatchError(`${error.message} ${text}`, { ...error.details, scriptChanged: !isSame }, error.cause)
  }

  /** Tells the callers of a run why it stays interrupted. It has no end, so it can be resumed. */
  #settle(entry: RunEntry, error: DramatisError): void {
    const { supervisor, host, entries } = this.#needs
    const { handle } = entry
    const { state } = handle
    if (handle.isSettled) entry.handle = new RunHandle<unknown>(state, host)
    entry.result = entries.resultOf(state, { error }, supervisor.clock.now() - state.startedAt)
    entry.handle.finish(entry.result, 'interrupted')
  }

  has(run: RunState): boolean {
    return this.#interruptions.has(run)
  }

  /** Checks whether a run, or the work of a message from outside, waits until it is resumed. */
  hasIndex(index: number): boolean {
    const run = this.#needs.supervisor.runs.get(index)
    return run !== undefined && this.has(run)
  }

  /** Runs in the order in which they were interrupted. */
  get all(): RunState[] {
    return this.#interruptions.all
  }

  /** Goes on with a run, if nothing hinders it. Returns the handle for its callers from now on. */
  resume(entry: RunEntry, { onMismatch, output, signal, timeoutMs }: ResumeOptions<unknown>): RunHandle<unknown> {
    const { entries, host } = this.#needs
    const { state } = entry.handle
    const hindrance = this.#interruptions.hindrance(state)
    if (hindrance) {
      this.#settle(entry, hindrance)
      return entry.handle
    }
    if (output) state.output ??= new RunOutput(output, state.id, 'resumer')
    entry.options = { ...entry.options, ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) }
    this.goOn(entry, onMismatch)
    if (signal?.aborted) host.cancel(state, reasonOf(signal))
    return entries.find(state.id)!.handle
  }

  /** Goes on with a run, whatever hinders it. */
  goOn(entry: RunEntry, onMismatch = this.#needs.onMismatch): void {
    const { handle, time } = entry
    if (time) this.#reenter(entry) // a run of an earlier process is entered by its recovery
    this.#interruptions.goOn(handle.state, onMismatch)
  }

  /** Makes a run that was interrupted in this process one of those under way. */
  #reenter(entry: RunEntry): void {
    const { enter, host } = this.#needs
    const { handle, options, target } = entry
    entry.clear()
    enter(handle.isSettled ? new RunHandle(handle.state, host) : handle, options, target)
  }

  /** Goes on with the work of a message from outside, if nothing hinders it. */
  resumeOwn(state: RunState): void {
    if (!this.#interruptions.hindrance(state)) this.release(state)
  }

  /** Goes on with what was set aside in a run that has ended, or of the work of a message from outside. */
  release(state: RunState): void {
    this.#interruptions.goOn(state, 'continue')
  }

  /** Tells the callers of all runs that this process will not go on with them. */
  leave(error: DramatisError): void {
    for (const state of this.#interruptions.all) {
      const entry = this.#needs.entries.of(state)
      if (entry && !entry.handle.isSettled) this.#settle(entry, error)
    }
  }
}

interface RunResumptionNeeds {
  readonly entries: RunEntries
  readonly interrupted: InterruptedRuns
  readonly recalled: RecalledRuns
  /** Resolves when the team has started. Rejects if it takes no runs. */
  ready(): Promise<void>
  /** Finds a run also if only the durable log has it: then it is read. */
  find(runId: string): RunHandle<unknown> | undefined
  cancel(run: RunState, reason: string): void
}

export class RunResumption {
  readonly #needs: RunResumptionNeeds

  constructor(needs: RunResumptionNeeds) {
    this.#needs = needs
  }

  /**
   * Returns the result of a run: one that goes on now, or that goes on already, or has ended.
   *
   * Rejects with `UnknownRunError`.
   */
  async resume<T>(runId: string, given: ResumeOptions<T>): Promise<MultiAgentResult<T>> {
    const options = readResumeOptions(runId, given)
    await this.#needs.ready()
    this.#needs.find(runId)
    const entry = this.#needs.entries.find(runId)
    if (!entry) throw unknownRun(runId)
    const { state } = entry.handle
    const resumes = this.#needs.interrupted.has(state)
    const { output, signal } = options
    if (output) this.#needs.recalled.takeOutput(entry, new RunOutput(output, runId))
    const handle = resumes ? this.#needs.interrupted.resume(entry, options) : entry.handle
    const clear = resumes || !signal ? undefined : onAbort(signal, () => this.#needs.cancel(state, reasonOf(signal)))
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
      return this.#needs.entries.resultOf(run, { error: invalid }, result.executionTimeMs)
    }
  }

  /** Goes on with all interrupted runs, and returns those that have a result to wait for. */
  async resumePending(): Promise<RunHandle<unknown>[]> {
    await this.#needs.ready()
    const handles: RunHandle<unknown>[] = []
    for (const state of this.#needs.interrupted.all) {
      const entry = this.#needs.entries.of(state)
      if (entry) handles.push(this.#needs.interrupted.resume(entry, {}))
      else this.#needs.interrupted.resumeOwn(state)
    }
    return handles
  }
}

const unknownRun = (runId: string) =>
  new UnknownRunError(`No run "${runId}" is known: the log has none of that id, or has it no more.`, { runId })
