import type { Worker } from 'node:worker_threads'

/**
 * Lets the process end although the thread lives. To be called as soon as it is made: Node refs a port of its own for
 * whoever reads what a thread prints, when the reading begins, and `unref` does not undo that. It looks at a field of
 * the stream first, and clears that itself for a thread whose output it passes on. Where there is no such field the
 * process lives as long as the thread.
 */
export function unrefWorker(worker: Worker): void {
  for (const stream of [worker.stdout, worker.stderr]) {
    const field = Object.getOwnPropertySymbols(stream).find(({ description }) => description === 'kIncrementsPortRef')
    if (field) Reflect.set(stream, field, false)
  }
  worker.unref()
}
