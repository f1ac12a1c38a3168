/**
 * The floor under committed.ts: what comes from outside is written and flushed, a worker is woken and wakes the host, and
 * its answer is written and flushed.
 *
 *   flushes.js <count> <warm up> <folder>
 */
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { flushUs } from '../disk.ts'
import { measureRoundTrips } from '../round-trips.ts'
import type { Committed } from './committed.ts'

const BYTES = 512

if (isMainThread) {
  const [count = '0', warmUp = '0', folder = ''] = process.argv.slice(2)
  console.log(JSON.stringify(await measure(Number(count), Number(warmUp), folder)))
  process.exit(0)
} else parentPort!.on('message', () => parentPort!.postMessage(0)).postMessage(0)

async function measure(count: number, warmUp: number, folder: string): Promise<Committed> {
  const worker = new Worker(new URL(import.meta.url))
  let answered = () => {}
  worker.on('message', () => answered())
  const woken = () => new Promise<void>((resolve) => (answered = resolve))
  await woken()
  const file = await open(join(folder, 'log'), 'wx')
  const bytes = Buffer.alloc(BYTES, 1)
  let at = 0
  const commit = async () => {
    await file.write(bytes, 0, BYTES, at)
    at += BYTES
    await file.datasync()
  }
  const ask = async () => {
    await commit()
    const answer = woken()
    worker.postMessage(0)
    await answer
    await commit()
  }
  const trips = await measureRoundTrips(ask, { count, inFlight: 1, warmUp, pauseMs: 0 })
  await file.close()
  return { tripUs: trips.p50, flushUs: await flushUs(folder) }
}
