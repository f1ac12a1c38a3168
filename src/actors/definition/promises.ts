/**
 * Runs `work` on each item, at most `limit` at a time. Items begin in the order of the list, and the results have that
 * order. Rejects with the first error; items that have not begun by then are not started. `note` is told how many items
 * wait, whenever that changes.
 */
export async function inLanes<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
  note?: NoteWaiting,
): Promise<Result[]> {
  const results: Result[] = []
  const lanes = Math.min(limit, items.length)
  let next = 0
  const lane = async () => {
    while (next < items.length) {
      const at = next++
      if (next >= lanes) note?.(items.length - next)
      results[at] = await work(items[at]!)
    }
  }
  try {
    await Promise.all(Array.from({ length: lanes }, lane))
  } finally {
    next = items.length
    note?.(0)
  }
  return results
}

/** Limits that a thread keeps itself, for one turn. It notifies the host of what waits for them. */

const OPTIONS = ['maxParallelToolCalls', 'orchestration.maxConcurrent', 'concurrency of requestAll'] as const

/** Name of such a limit, as `team.waits()` and the event `limit.reached` have it. */
export type KeptLimit = (typeof OPTIONS)[number]

export const isKeptLimit = (option: string): option is KeptLimit => (OPTIONS as readonly string[]).includes(option)

/** Notes how many things of a list wait; they are its last ones. */
export type NoteWaiting = (waiting: number) => void

/** Data of the first frame about a wait. `agents`: those that wait to be asked; absent if calls wait. */
export interface KeptLimitData {
  limit: number
  agents?: readonly string[]
}

/**
 * Helpers for promises that may be left alone. Promises of verbs never count as unhandled rejections, which would end a
 * thread.
 */

export const quiet = () => {}

export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(quiet)
  return promise
}

export function rejected(error: unknown): Promise<never> {
  return handled(Promise.reject(error))
}
