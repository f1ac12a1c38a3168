/** Requests that changes ask for, at most one at a time: changes may come faster than answers. */
const PAUSE_MS = 400

/** Does the work, and once more for what has come meanwhile. There is a pause between two. */
export function gently(work: () => Promise<void>): () => void {
  let isBusy = false
  let isWanted = false
  const go = async () => {
    if (isBusy) {
      isWanted = true
      return
    }
    isBusy = true
    isWanted = false
    await work().catch(() => {}) // the banner says that nobody answers
    setTimeout(() => {
      isBusy = false
      if (isWanted) void go()
    }, PAUSE_MS)
  }
  return () => void go()
}
