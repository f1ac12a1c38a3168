/** Runs that ended long ago: the durable log has them, and the team's memory no more. */
import type { ListedRun } from './run-list.ts'

/** Run that has ended, as far as it is known without a look into the log. */
export interface PastRun {
  readonly index: number
  readonly id: string
  /** Query of the run as the list has it. */
  readonly query: string
  /** True if the log alone has all of the query. */
  readonly isCut: boolean
  readonly caller: string | null
  readonly startedAt: number
  /** Digest of the schema that it was begun with (`LoggedOutput`). */
  readonly output: string | undefined
  readonly status: 'finished' | 'failed' | 'aborted'
}

export interface PastRuns {
  find(runId: string): PastRun | undefined
  /** Checks whether that is the query of the run. */
  isOf(run: PastRun, query: string): boolean
  /** Yields the runs for a list, the one that started last is first. `caller`: those of that one alone. */
  newest(caller?: string): Iterable<ListedRun>
  /** Reads the run, and adds it to those in memory (`RunBook.takeEnded`). Rejects if the log cannot be read. */
  load(run: PastRun): Promise<void>
}
