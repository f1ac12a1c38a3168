/** Types for a verb that the host serves: its arguments, and what it can send before its answer. */
import type { Waiter } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

/** Turn that waits for a verb. */
export interface VerbWaiter extends Waiter {
  readonly run: RunState
  /** Id of the call, if the turn waits for one. */
  readonly callId?: string
  /** Time for which the turn has waited in earlier processes, in ms. */
  readonly passedMs?: number
}

/** Turn that has called a verb. */
export interface HostCaller extends VerbWaiter {
  /** Id of the call: the same, however often its answer is asked for. */
  readonly callId: string
  /** True if an earlier process was asked too. */
  readonly isAgain?: boolean
  /** Sends a piece of the answer ahead of it. A retried turn gets the pieces again. */
  say(piece: string): void
}

/** Serves one operation. `args` are unchecked JSON from a thread. */
export type HostVerb = (args: unknown, caller: HostCaller, signal: AbortSignal) => Promise<unknown> | unknown
