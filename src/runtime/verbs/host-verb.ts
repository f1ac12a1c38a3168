/** A verb that the host serves: what it is called with, and what it can say before its answer. */
import type { Waiter } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

/** A turn that waits for a verb. */
export interface VerbWaiter extends Waiter {
  readonly run: RunState
}

/** A turn that has called a verb. */
export interface HostCaller extends VerbWaiter {
  /** Sends a piece of the answer ahead of it. A turn that is tried again gets the pieces again. */
  say(piece: string): void
}

/** Serves one operation. `args` are JSON from a thread: nothing of them is checked yet. */
export type HostVerb = (args: unknown, caller: HostCaller, signal: AbortSignal) => Promise<unknown> | unknown
