/** Processes a list with a bounded number of items at a time. */

/**
 * Runs `work` on each item, at most `limit` at a time. Items begin in the order of the list, and the results have that
 * order. Rejects with the first error; items that have not begun by then are not started.
 */
export async function inLanes<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  const lane = async () => {
    while (next < items.length) {
      const at = next++
      results[at] = await work(items[at]!)
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane))
  } finally {
    next = items.length
  }
  return results
}
