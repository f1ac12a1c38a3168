/**
 * The floor under many.ts ring: a token goes round as many workers by wake-ups alone, each by way of the host. Nothing is
 * copied, logged or looked up; a wake-up is an empty post, as in the runtime.
 *
 *   wake-ups.js <workers> <hops>
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { costOf, type ManyCosts } from '../many.ts'

if (isMainThread) await host(Number(process.argv[2]), Number(process.argv[3]))
else parentPort!.on('message', () => parentPort!.postMessage(0)).postMessage(0)

async function host(size: number, hops: number): Promise<void> {
  const workers = Array.from({ length: size }, () => new Worker(new URL(import.meta.url)))
  let at = 0
  let left = size
  let next = () => {}
  let done = () => {}
  for (const worker of workers)
    worker.on('message', () => {
      left -= 1
      if (left === 0) done()
      else next()
    })
  await new Promise<void>((resolve) => {
    done = resolve
  })
  next = () => {
    at = (at + 1) % size
    workers[at]!.postMessage(0)
  }
  const lap = () =>
    costOf(hops, () => {
      left = hops
      next()
      return new Promise<void>((resolve) => {
        done = resolve
      })
    })
  console.log(JSON.stringify({ cold: await lap(), warm: await lap() } satisfies ManyCosts))
  process.exit(0)
}
