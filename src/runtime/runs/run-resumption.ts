/** Goes on with runs that were interrupted, for callers who wait for their results. */
import { DramatisError, describe, ReplyInvalidError, UnknownRunError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import { RunOutput } from '../state/run-output.ts'
import type { RunState } from '../state/run-state.ts'
import type { InterruptedRuns } from './interrupted-runs.ts'
import type { RecalledRuns } from './recalled-runs.ts'
import type { MultiAgentResult } from './result.ts'
import type { ResumeOptions } from './run.ts'
import type { RunEntries } from './run-entries.ts'
import type { RunHandle } from './run-handle.ts'
import { readResumeOptions, reasonOf } from './run-options.ts'

interface Needs {
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
  readonly #needs: Needs

  constructor(needs: Needs) {
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
