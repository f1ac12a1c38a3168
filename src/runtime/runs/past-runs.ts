/** Runs that ended long ago: the durable log has them, and the team's memory no more. */
import type { RunSummary } from './run-list.ts'

/** Run that has ended, as far as it is known without a look into the log. */
export interface PastRun {
  readonly index: number
  readonly id: string
  /** Query of the run, unless it is long. */
  readonly query: string | undefined
  readonly startedAt: number
  readonly status: 'finished' | 'failed' | 'aborted'
}

/** Entry of `team.listRuns` for such a run. `query`: undefined if it is long. */
export interface PastSummary extends Omit<RunSummary, 'query'>, Pick<PastRun, 'index' | 'query'> {}

export interface PastRuns {
  find(runId: string): PastRun | undefined
  /** Checks whether that is the query of the run. */
  isOf(run: PastRun, query: string): boolean
  list(): Iterable<PastSummary>
  /** Reads queries that are not known, by index. */
  queries(runs: readonly { readonly index: number }[]): Promise<ReadonlyMap<number, string>>
  /** Reads the run, and adds it to those in memory (`RunBook.takeEnded`). Rejects if the log cannot be read. */
  load(run: PastRun): Promise<void>
}
