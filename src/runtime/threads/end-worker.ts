import type { Worker } from 'node:worker_threads'
import { systemClock, type Timer } from '../../clock.ts'

const FIRST_MS = 25

/**
 * Ends a thread, and tells it again, ever more seldom, until it has ended: Node 24 loses the order where it meets code
 * that runs for an async hook (the runtime has one in each thread of an agent), and who opens channels or timers in a
 * loop is there most of the time.
 */
export function endWorker(worker: Worker): void {
  if (worker.threadId === -1) return // it has ended
  worker.setMaxListeners(0) // each order waits for the end
  const from = systemClock.monotonic()
  let again: Timer | undefined
  let ended = false
  worker.once('exit', () => {
    ended = true
    again?.cancel()
  })
  const order = () => {
    void worker.terminate()
    if (ended) return // Deno says so before it returns
    again = systemClock.timer(Math.max(FIRST_MS, (systemClock.monotonic() - from) / 10), order)
  }
  order()
}
