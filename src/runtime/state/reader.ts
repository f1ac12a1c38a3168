import type { Batch } from '../log/records.ts'
import type { RunState } from './run-state.ts'

/**
 * Part of the supervisor that follows the journal: it gets every record, and acts on it with the owners that it was
 * made with.
 */
export interface Reader {
  next(batch: Batch): void
  /** Called when a wait in that run, or the run itself, has ended only because its time was up. */
  overdue?(run: RunState): void
  close?(): void
}
