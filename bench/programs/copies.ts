/**
 * The floor under one-way.ts and paced.ts: the same bytes from one worker to another by way of the host. A message is
 * written once, copied by the host into a log and on to the other worker, and passed there. Nothing is looked up,
 * checked or told; a wake-up is an empty post to who sleeps.
 *
 *   copies.js one-way|cold <count> <size>    messages/s; `cold`: of the first ones, else as many go before
 *   copies.js paced <messages/s> <ms>        messages/s that were reached, and how busy the host was
 */
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { measureBusy, pace } from '../pacing.ts'
import { Slots, slotMemory } from '../slots.ts'
import { payload, SIZE } from '../workload.ts'

const LOG = 1 << 26
const HEADER = 64
const BESIDE = 128 // bytes of a message beside its content

type Order = { count: number } | { perSecond: number; forMs: number }

if (isMainThread) {
  const [kind = '', first, second] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
  console.log(JSON.stringify(await measure(kind, first, second)))
  process.exit(0)
} else work(...(workerData as [name: string, memory: SharedArrayBuffer, size: number]))

async function measure(kind: string, first: number, second: number): Promise<unknown> {
  const order = await host((kind === 'paced' ? SIZE : second) + BESIDE)
  if (kind === 'paced') return measureBusy((forMs) => order({ perSecond: first, forMs }), second)
  if (kind !== 'cold') await order({ count: first })
  const startedAt = performance.now()
  await order({ count: first })
  return (first / (performance.now() - startedAt)) * 1_000
}

/** Resolves, when both workers are up, to what lets the producer send; it resolves to the rate that a paced one reached. */
async function host(size: number): Promise<(order: Order) => Promise<number>> {
  const start = (name: string) => {
    const memory = slotMemory()
    const worker = new Worker(new URL(import.meta.url), { workerData: [name, memory, size] })
    return { slots: new Slots(memory, size), worker, wake: () => worker.postMessage(0) }
  }
  const [producer, counter] = [start('producer'), start('counter')]
  await Promise.all([producer, counter].map(({ worker }) => once(worker, 'message')))
  const log = Buffer.allocUnsafeSlow(LOG)
  let logged = 0
  let resolve = (_rate: number) => {}
  const look = () => {
    for (;;) {
      const from = producer.slots.next()
      const to = counter.slots.room()
      if (from < 0 ? producer.slots.readerSleeps() : to < 0 && counter.slots.writerSleeps()) return
      if (from < 0 || to < 0) continue
      const message = producer.slots.bytes.subarray(from, from + size)
      if (logged + size > LOG) logged = 0
      log.set(message, logged)
      logged += size
      counter.slots.bytes.set(message, to)
      counter.slots.publish(counter.wake)
      producer.slots.pass(producer.wake)
    }
  }
  for (const { worker } of [producer, counter])
    worker.on('message', (rate: number) => (rate === 0 ? look() : resolve(rate)))
  return (order) => {
    if ('count' in order) counter.worker.postMessage(order)
    producer.worker.postMessage(order)
    look()
    return new Promise((settle) => {
      resolve = settle
    })
  }
}

function work(name: string, memory: SharedArrayBuffer, size: number): void {
  const slots = new Slots(memory, size)
  const post = (value: number) => parentPort!.postMessage(value)
  const wake = () => post(0)
  const content = 'x'.repeat(size - BESIDE)
  let goOn = () => {}
  let [seen, goal] = [0, 0]
  const send = async (i: number) => {
    let at = slots.room()
    for (; at < 0; at = slots.room()) if (slots.writerSleeps()) await new Promise<void>((woken) => (goOn = woken))
    slots.bytes.fill(i, at, at + HEADER)
    slots.bytes.write(content, at + HEADER, 'latin1')
    slots.bytes.write(JSON.stringify(payload(i)), at + HEADER + content.length, 'latin1')
    slots.publish(wake)
  }
  const produce = async (order: Order) => {
    if ('forMs' in order) return post(await pace(send, order.perSecond, order.forMs))
    for (let i = 0; i < order.count; i++) await send(i)
  }
  const count = () => {
    do for (; slots.next() >= 0; slots.pass(wake)) if (++seen === goal) post(1)
    while (!slots.readerSleeps())
  }
  parentPort!.on('message', (order: Order | 0) => {
    if (name === 'producer') return order === 0 ? goOn() : void produce(order)
    if (order !== 0 && 'count' in order) {
      goal += order.count
      if (seen === goal) post(1) // they came before the order
    }
    count()
  })
  if (name === 'counter') count() // and so it sleeps until there is something
  wake()
}
