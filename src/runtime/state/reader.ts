import type { Batch } from '../log/records.ts'
import type { RunState } from './run-state.ts'

/** One responsibility that follows the journal: it is told of every record, and acts by what it was made with. */
export interface Reader {
  next(batch: Batch): void
  /** A wait in that run, or the run, has come to its end by its time alone. */
  overdue?(run: RunState): void
  close?(): void
}
