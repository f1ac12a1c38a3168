/** Ends of runs: whether a run has ended, how, and waits for it that leave nothing behind when they are given up. */
import { DramatisError, describe, StartFailedError } from '../../errors.ts'
import type { MultiAgentResult, Run } from '../../index.ts'
import { nextTurn } from '../../timers.ts'

const ENDED: readonly Run['status'][] = ['finished', 'failed', 'aborted', 'interrupted']

export const hasEnded = ({ status }: Run<unknown>): boolean => ENDED.includes(status)

/** Checks for a run that nothing more can happen in: one that is interrupted may go on. */
export const isOver = (run: Run<unknown>): boolean => hasEnded(run) && run.status !== 'interrupted'

type End = MultiAgentResult<unknown> | { error: DramatisError }

/** Returns the result of a run that has ended. One whose configuration cannot work has an error and no result. */
export async function endOf(run: Run<unknown>): Promise<End> {
  try {
    return await run.result
  } catch (error) {
    return { error: error instanceof DramatisError ? error : new StartFailedError(describe(error), {}, error) }
  }
}

/** Resolves to the end of a run, if it is known: a run that is to be resumed by hand has none until then. */
export async function knownEndOf(run: Run<unknown>): Promise<End | undefined> {
  if (!hasEnded(run)) return undefined
  if (run.status !== 'interrupted') return endOf(run) // it may have to be read from the log
  const ending = endingOf(run)
  if (!ending.end) await nextTurn()
  return ending.end
}

interface Ending {
  end: End | undefined
  readonly waiters: Set<() => void>
}

const ENDINGS = new WeakMap<Run<unknown>, Ending>()

/** A run may last for weeks, and a promise keeps all that was ever called on it: each run has one wait for its end. */
function endingOf(run: Run<unknown>): Ending {
  const known = ENDINGS.get(run)
  if (known) return known
  const ending: Ending = { end: undefined, waiters: new Set() }
  ENDINGS.set(run, ending)
  void endOf(run).then((end) => {
    ending.end = end
    for (const tell of ending.waiters) tell()
    ending.waiters.clear()
  })
  return ending
}

/** Calls back when the run has ended. Returns a function that gives up the wait, of which nothing is left then. */
export function onEnd(run: Run<unknown>, listener: () => void): () => void {
  const { end, waiters } = endingOf(run)
  if (end) listener()
  else waiters.add(listener)
  return () => waiters.delete(listener)
}
