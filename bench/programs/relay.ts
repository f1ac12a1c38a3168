/**
 * The baseline: what one writes with `postMessage` alone. Workers post plain objects, the host looks up the recipient
 * and posts them on. No log, no supervision, no waits, no restarts.
 *
 *   relay.js one-way <count>               messages/s, at most 1,024 on their way
 *   relay.js round-trip <count> <in flight>  p50 and p99 in us
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { measureRoundTrips } from '../round-trips.ts'
import { CONTENT, type Payload, payload } from '../workload.ts'

const WINDOW = 1_024
const CREDIT = 64 // the counter gives back so many at a time
const WARM_UP = 20_000

/** The fields that differ from message to message; the runtime carries more. */
interface Posted {
  id: string
  type: 'report' | 'request' | 'response'
  sender: string
  recipient: string
  content: string
  structuredData: Payload
  priority: number
  threadId: string
  correlationId?: string
}
type Part = 'producer' | 'counter' | 'asker' | 'answerer'
/** What the host asks of a worker, and what a worker tells the host beside messages. */
type Command = { go: number; inFlight: number }
type Note = 'ready' | { credit: number } | { result: unknown }

const parts: Record<Part, () => void> = { producer, counter, asker, answerer }

if (isMainThread) {
  const [kind, count = '0', inFlight = '1'] = process.argv.slice(2)
  if (kind === 'one-way') console.log(JSON.stringify(await oneWay(Number(count))))
  else console.log(JSON.stringify(await roundTrip(Number(count), Number(inFlight))))
  process.exit(0)
} else {
  parts[workerData as Part]()
  post('ready')
}

// ---- host

async function startWorkers(...names: Part[]): Promise<Map<string, Worker>> {
  const workers = new Map(
    names.map((name) => [name as string, new Worker(new URL(import.meta.url), { workerData: name })]),
  )
  await Promise.all([...workers.values()].map((worker) => new Promise((resolve) => worker.once('message', resolve))))
  return workers
}

async function oneWay(count: number): Promise<number> {
  const workers = await startWorkers('producer', 'counter')
  const producing = workers.get('producer')!
  const counting = workers.get('counter')!
  producing.on('message', (message: Posted) => workers.get(message.recipient)!.postMessage(message))
  let onCounted = () => {}
  counting.on('message', (note: { credit: number } | { result: unknown }) => {
    if ('credit' in note) producing.postMessage(note)
    else onCounted()
  })
  const send = async (goal: number) => {
    const counted = new Promise<void>((resolve) => {
      onCounted = resolve
    })
    const startedAt = performance.now()
    counting.postMessage({ go: goal, inFlight: 0 } satisfies Command)
    producing.postMessage({ go: goal, inFlight: WINDOW } satisfies Command)
    await counted
    return (goal / (performance.now() - startedAt)) * 1_000
  }
  await send(WARM_UP)
  return send(count)
}

async function roundTrip(count: number, inFlight: number): Promise<unknown> {
  const workers = await startWorkers('asker', 'answerer')
  const asking = workers.get('asker')!
  const result = new Promise<unknown>((resolve) => {
    for (const worker of workers.values()) {
      worker.on('message', (message: Posted | { result: unknown }) => {
        if ('result' in message) resolve(message.result)
        else workers.get(message.recipient)!.postMessage(message)
      })
    }
  })
  asking.postMessage({ go: count, inFlight } satisfies Command)
  return result
}

// ---- workers

function producer(): void {
  let credit = 0
  let left = 0
  parentPort!.on('message', (note: Command | { credit: number }) => {
    if ('go' in note) {
      credit = note.inFlight
      left = note.go
    } else credit += note.credit
    for (; credit > 0 && left > 0; credit--, left--) post(message('report', 'producer', 'counter', left))
  })
}

function counter(): void {
  let goal = 0
  let seen = 0
  parentPort!.on('message', (input: Command | Posted) => {
    if ('go' in input) {
      goal = input.go
      seen = 0
      return
    }
    seen++
    if (seen === goal) post({ result: seen })
    else if (seen % CREDIT === 0) post({ credit: CREDIT })
  })
}

function asker(): void {
  const waiting = new Map<string, () => void>()
  const request = (i: number) =>
    new Promise<void>((resolve) => {
      const asked = message('request', 'asker', 'answerer', i)
      waiting.set(asked.id, resolve)
      post(asked)
    })
  parentPort!.on('message', async (input: Command | Posted) => {
    if ('go' in input) {
      post({ result: await measureRoundTrips(request, input.go, input.inFlight) })
      return
    }
    const id = input.correlationId!
    const resolve = waiting.get(id)!
    waiting.delete(id)
    resolve()
  })
}

function answerer(): void {
  let answered = 0
  parentPort!.on('message', (asked: Posted) => {
    const reply = message('response', 'answerer', asked.sender, answered++)
    reply.correlationId = asked.id
    post(reply)
  })
}

function message(type: Posted['type'], sender: Part, recipient: string, i: number): Posted {
  const id = `0190b3a4-7c11-7f3e-9a55-${String(i).padStart(12, '0')}`
  return { id, type, sender, recipient, content: CONTENT, structuredData: payload(i), priority: 0, threadId: 't' }
}

function post(value: Note | Posted): void {
  parentPort!.postMessage(value)
}
