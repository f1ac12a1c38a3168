/**
 * Runs of earlier processes. The durable log has them, and one that ended long ago is read from it when somebody asks
 * for it. A caller may have launched a run before the log was read: it joins the one of that id that the log has.
 */

import { ConfigurationError, DramatisError, describe, LogLostError } from '../../shared/errors.ts'
import { CALLER, type RunOutput, RunState } from '../host/run.ts'
import { type RunEnding, resultOf } from './result.ts'
import { isOf, type ListedRun, type RunOwner, type RunStatus } from './run.ts'
import type { RunEntries, RunEntry } from './run-entries.ts'
import { RunHandle } from './run-handle.ts'

/** Run that has ended, as far as it is known without a look into the log. */
export interface PastRun {
  readonly index: number
  readonly id: string
  /** Query of the run as the list has it. */
  readonly query: string
  /** True if the log alone has all of the query. */
  readonly isCut: boolean
  readonly caller: string | null
  readonly tenant: string | null
  readonly startedAt: number
  /** Digest of the schema that it was begun with (`LoggedOutput`). */
  readonly output: string | undefined
  readonly status: 'finished' | 'failed' | 'aborted'
}

export interface PastRuns {
  find(runId: string): PastRun | undefined
  isOf(run: PastRun, query: string): boolean
  /** Yields the runs for a list, the one that started last is first. `caller`: those of that one alone. */
  newest(caller?: string): Iterable<ListedRun>
  /** Reads the run, and adds it to those in memory (`RunBook.takeEnded`). Rejects if the log cannot be read. */
  load(run: PastRun): Promise<void>
}

export class RecalledRuns {
  readonly #entries: RunEntries
  readonly #leave: (entry: RunEntry) => void
  past: PastRuns | undefined

  /** `leave`: takes a run out that turned out to be one that is there already. */
  constructor(entries: RunEntries, leave: (entry: RunEntry) => void) {
    this.#entries = entries
    this.#leave = leave
  }

  /**
   * Returns the handle of the run with that id and query, if only the log has it.
   *
   * @throws ConfigurationError if its query is another, or its schema.
   */
  join(runId: string, query: string, output: RunOutput | undefined): RunHandle<unknown> | undefined {
    const past = this.past?.find(runId)
    if (past && !this.past?.isOf(past, query)) throw otherQuery(runId)
    if (past?.output !== undefined) output?.assertIs({ digest: past.output })
    return past && this.#recall(past, query)
  }

  /**
   * Takes the schema of a caller who gives the id of a run that is there.
   *
   * @throws ConfigurationError if the run was begun with another one.
   */
  takeOutput({ handle: { state } }: RunEntry, output: RunOutput | undefined): void {
    const past = state.index === 0 ? this.past?.find(state.id) : undefined
    if (past?.output !== undefined) output?.assertIs({ digest: past.output })
    state.takeOutput(output)
  }

  isOf({ handle, takesQuery }: RunEntry, query: string): boolean {
    const past = takesQuery ? this.past?.find(handle.id) : undefined
    return past ? this.past!.isOf(past, query) : handle.state.query === query
  }

  /** Finds a run that only the log has: it is read now. `whose`: that of another one is not found, and not read. */
  find(runId: string, whose: RunOwner = {}): RunHandle<unknown> | undefined {
    const past = this.past?.find(runId)
    if (!past || !isOf(whose, past.caller, past.tenant)) return undefined
    return this.#recall(past, past.isCut ? undefined : past.query)
  }

  #recall(past: PastRun, query: string | undefined, found?: RunHandle<unknown>): RunHandle<unknown> {
    const entries = this.#entries
    const { supervisor, host, holds } = entries
    const state = new RunState(
      0,
      past.id,
      query ?? '',
      past.startedAt,
      past.caller === null ? {} : { [CALLER]: past.caller },
    )
    state.tenant = past.tenant ?? undefined
    const handle = found ?? new RunHandle<unknown>(state, host)
    handle.status = past.status
    const entry: RunEntry = { ...entries.idle(handle), takesQuery: query === undefined }
    entries.addId(entry)
    holds.until(this.past!.load(past)).catch((error: unknown) => {
      if (entries.find(past.id) === entry) entries.deleteId(past.id) // it can be tried again
      const text = `The run cannot be read from the log: ${describe(error)}`
      const reason = error instanceof DramatisError ? error : new LogLostError(text, { runId: past.id }, error)
      // How it had ended is not known here, so it must not look as if it had no answer.
      handle.finish(resultOf(handle.state, { error: reason }, 0, [], supervisor), 'interrupted')
    })
    return handle
  }

  /** Lets runs that were launched before the log was read join those that only the log has. */
  joinLaunched(launched: readonly RunEntry[]): void {
    for (const entry of launched) {
      const { handle } = entry
      const past = this.past?.find(handle.id)
      if (!past) continue
      this.#leave(entry)
      this.#entries.deleteId(handle.id)
      if (this.past?.isOf(past, handle.state.query)) this.#recall(past, handle.state.query, handle)
      else handle.misconfigured(otherQuery(handle.id))
    }
  }

  /** Returns the handle of a run of an earlier process. A caller may have one already, from before the log was read. */
  handleOf(state: RunState): RunHandle<unknown> {
    const entries = this.#entries
    const { host } = entries
    const entry = entries.find(state.id)
    if (!entry) return new RunHandle<unknown>(state, host)
    const { handle } = entry
    if (handle.state === state) return handle.isSettled ? new RunHandle<unknown>(state, host) : handle
    this.#leave(entry)
    try {
      if (!entry.takesQuery && handle.state.query !== state.query) throw otherQuery(state.id)
      state.takeOutput(handle.state.output)
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      handle.misconfigured(error)
      return new RunHandle<unknown>(state, host)
    }
    handle.becomes(state)
    return handle
  }

  takeEnded(state: RunState, ending: RunEnding<unknown>, endedAt: number, status: RunStatus): void {
    const entries = this.#entries
    state.over = true
    const handle = this.handleOf(state)
    entries.supervisor.boards.board(state)
    const result = entries.resultOf(state, ending, endedAt - state.startedAt)
    entries.add({ ...entries.idle(handle), result })
    handle.finish(result, status)
  }

  /** Yields the runs that only the log has, also those that are being read, the one that started last is first. */
  *newest(caller?: string): Iterable<ListedRun> {
    for (const run of this.past?.newest(caller) ?? []) if (!this.#entries.find(run.id)?.handle.state.index) yield run
  }
}

export const otherQuery = (runId: string) =>
  new ConfigurationError(
    `runId: "${runId}" is the id of a run with another query; the same id joins that run. Use a new id.`,
    { path: 'runId', got: runId },
  )
