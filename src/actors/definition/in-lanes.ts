/** Processes a list with a bounded number of items at a time. */
import type { NoteWaiting } from './kept-limits.ts'

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
