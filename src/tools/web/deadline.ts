/** A time limit around a task, also around what cannot be cancelled. */
import { systemClock } from '../../clock.ts'
import type { DramatisError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'

/** Time in ms that the runtime waits beyond a tool's own limit, whose error says more. */
export const MARGIN_MS = 1_000

/**
 * Runs `task` under a signal that is aborted with the caller's, and after `ms` with the error that `late` makes. It
 * rejects with the reason of whichever came, whatever the task makes of it.
 */
export async function within<T>(
  ms: number,
  signal: AbortSignal,
  late: () => DramatisError,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const limit = new AbortController()
  const unlisten = onAbort(signal, () => limit.abort(signal.reason))
  const timer = systemClock.timer(ms, () => limit.abort(late()))
  const awake = systemClock.hold() // a resolver alone does not keep the process up
  try {
    return await orAbort(task(limit.signal), limit.signal)
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error
  } finally {
    unlisten()
    timer.cancel()
    awake.cancel()
  }
}

/** The promise, or the signal's reason if that comes first: no resolver can be cancelled. */
function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const unlisten = onAbort(signal, () => reject(signal.reason))
    promise.then(resolve, reject).finally(unlisten)
  })
}
