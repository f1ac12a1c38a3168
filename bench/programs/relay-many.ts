/**
 * The baseline of many.ts: as many workers, whose messages their host posts on. Same arguments.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { type Cost, costOf, type ManyCosts, messagesIn, roundsOf } from '../many.ts'
import { CONTENT, payload } from '../workload.ts'

interface Passed {
  id: string
  type: 'token' | 'request' | 'response'
  sender: number
  recipient: number
  content: string
  structuredData: object
  /** Hops to go. */
  left: number
}
/** To the host: it is up, the token is at its end, or all that it was told to ask is answered. */
type Done = { done: true }
type Command = { ask: number[] }

if (isMainThread) {
  const [kind = '', size, much] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
  const workers = Array.from(
    { length: size },
    (_, i) => new Worker(new URL(import.meta.url), { workerData: [i, size] }),
  )
  const measure = kind === 'ring' ? ring(workers, much) : big(workers, much)
  let waiting = size
  let allDone = () => {}
  for (const worker of workers)
    worker.on('message', (message: Passed | Done) => {
      if ('recipient' in message) workers[message.recipient]!.postMessage(message)
      else if (--waiting === 0) allDone()
    })
  const done = (count: number) =>
    new Promise<void>((resolve) => {
      waiting = count
      allDone = resolve
    })
  await done(size)
  console.log(JSON.stringify({ cold: await measure(done), warm: await measure(done) } satisfies ManyCosts))
  process.exit(0)
} else work(...(workerData as [number, number]))

// ---- host

type Measure = (done: (count: number) => Promise<void>) => Promise<Cost>

function ring([first]: Worker[], hops: number): Measure {
  return (done) =>
    costOf(hops, () => {
      const ended = done(1)
      first!.postMessage(message('token', -1, 0, hops - 1))
      return ended
    })
}

function big(workers: Worker[], laps: number): Measure {
  const rounds = roundsOf(workers.length, laps)
  return (done) =>
    costOf(messagesIn(rounds), async () => {
      for (const round of rounds) {
        const ended = done(round.length)
        for (const { asker, others } of round) workers[asker]!.postMessage({ ask: others } satisfies Command)
        await ended
      }
    })
}

// ---- workers

function work(me: number, size: number): void {
  const post = (value: Passed | Done) => parentPort!.postMessage(value)
  const waiting = new Map<string, () => void>()
  let asked = 0
  parentPort!.on('message', async (input: Passed | Command) => {
    if ('ask' in input) {
      for (const other of input.ask)
        await new Promise<void>((resolve) => {
          const request = message('request', me, other, asked++)
          waiting.set(request.id, resolve)
          post(request)
        })
      post({ done: true })
    } else if (input.type === 'request') post({ ...message('response', me, input.sender, 0), id: input.id })
    else if (input.type === 'response') {
      waiting.get(input.id)!()
      waiting.delete(input.id)
    } else if (input.left === 0) post({ done: true })
    else post(message('token', me, (me + 1) % size, input.left - 1))
  })
  post({ done: true })
}

function message(type: Passed['type'], sender: number, recipient: number, left: number): Passed {
  const id = `0190b3a4-7c11-7f3e-9a55-${String(left).padStart(12, '0')}`
  return { id, type, sender, recipient, content: type === 'token' ? '' : CONTENT, structuredData: payload(left), left }
}
