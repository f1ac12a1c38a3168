/**
 * The floor under round-trip.ts flooded (same plan): who asks wakes who answers by way of the host, and is woken the same way,
 * while a producer keeps the counter and the host busy with the copies of copies.ts. These two let posts in behind every 64.
 */
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { measureRoundTrips, type RoundTripPlan, type RoundTrips } from '../round-trips.ts'
import { Slots, slotMemory } from '../slots.ts'
import { SIZE } from '../workload.ts'

const BYTES = SIZE + 128 // of a message, with what stands beside its content
const [LOG, SLICE] = [1 << 26, 64]
/** Posts: look at your slots; a request, or its answer. */
const [LOOK, PASS] = [0, 1] as const
const parts = { produce, count, ask }
const post = (value: unknown) => parentPort!.postMessage(value)

if (isMainThread) {
  console.log(JSON.stringify(await host(JSON.parse(process.argv[2] ?? ''))))
  process.exit(0)
} else {
  const [part, memory] = workerData as [keyof typeof parts, SharedArrayBuffer]
  parts[part](new Slots(memory, BYTES))
  post(LOOK)
}

async function host(plan: RoundTripPlan): Promise<RoundTrips> {
  const start = async (part: keyof typeof parts) => {
    const memory = slotMemory()
    const worker = new Worker(new URL(import.meta.url), { workerData: [part, memory] })
    await once(worker, 'message')
    return { worker, slots: new Slots(memory, BYTES), post: (value: unknown) => worker.postMessage(value) }
  }
  const [producer, counter, asker] = [await start('produce'), await start('count'), await start('ask')]
  const log = Buffer.allocUnsafeSlow(LOG)
  let logged = 0
  const look = inSlices(() => {
    const [from, to] = [producer.slots.next(), counter.slots.room()]
    if (from < 0 || to < 0) return from < 0 ? !producer.slots.readerSleeps() : !counter.slots.writerSleeps()
    producer.slots.bytes.copy(log, logged, from, from + BYTES)
    producer.slots.bytes.copy(counter.slots.bytes, to, from, from + BYTES)
    logged = (logged + BYTES) % (LOG - BYTES)
    counter.slots.publish(() => counter.post(LOOK))
    producer.slots.pass(() => producer.post(LOOK))
    return true
  })
  producer.worker.on('message', look)
  counter.worker.on('message', (value) => (value === LOOK ? look() : asker.post(PASS)))
  look() // and so it sleeps until there is something
  asker.post(plan)
  return new Promise((resolve) => {
    asker.worker.on('message', (value) => (value === PASS ? counter.post(PASS) : resolve(value)))
  })
}

async function produce(slots: Slots): Promise<void> {
  let goOn = () => {}
  parentPort!.on('message', () => goOn())
  for (;;) {
    let at = slots.room()
    for (; at < 0; at = slots.room()) if (slots.writerSleeps()) await new Promise<void>((woken) => (goOn = woken))
    slots.bytes.fill(1, at, at + BYTES)
    slots.publish(() => post(LOOK))
  }
}

function count(slots: Slots): void {
  const look = inSlices(() => {
    if (slots.next() < 0) return !slots.readerSleeps()
    slots.pass(() => post(LOOK))
    return true
  })
  parentPort!.on('message', (value) => (value === LOOK ? look() : post(PASS)))
  look()
}

function ask(): void {
  let answered = () => {}
  const request = () =>
    new Promise<void>((resolve) => {
      answered = resolve
      post(PASS)
    })
  parentPort!.on('message', async (value) =>
    value === PASS ? answered() : post(await measureRoundTrips(request, value)),
  )
}

/** Calls `step` while it returns true, and lets posts in behind every slice. */
function inSlices(step: () => boolean): () => void {
  let goesOn = false
  const look = () => {
    goesOn = false
    for (let i = 0; i < SLICE; i++) if (!step()) return
    goesOn = true
    setImmediate(look)
  }
  return () => goesOn || look()
}
