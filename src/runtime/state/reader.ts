import type { Batch, LogEntry } from '../log/records.ts'
import type { RunState } from './run-state.ts'

/**
 * Part of the supervisor that follows the journal: it gets batches of records, and acts on them with the owners that it
 * was made with.
 */
export interface Reader {
  /** Kinds of records that it handles: it gets only batches with at least one of them. Default: all batches. */
  readonly kinds?: readonly LogEntry['kind'][]
  /** Kinds of frames that it handles, by `kindBits`, if 'frames' is among its `kinds`. Default: all. */
  readonly frames?: number
  /** True while it has nothing to do, whatever comes: it is not called. */
  isIdle?: boolean
  next(batch: Batch): void
  /** Called when a wait in that run, or the run itself, has ended only because its time was up. */
  overdue?(run: RunState): void
  /** Called when these runs of an earlier process were put in place, before any of their messages is handled. */
  restored?(runs: ReadonlySet<RunState>): void
  close?(): void
}
