/**
 * The baseline: what one writes with `postMessage` alone. Workers post plain objects, the host looks up the recipient
 * and posts them on. No log, no supervision, no waits, no restarts. At most 1,024 one-way messages are on their way.
 *
 *   relay.js one-way <count> <size>          messages/s, when as many have gone before
 *   relay.js cold <count> <size>             the same of the first ones
 *   relay.js paced <messages/s> <ms>         messages/s that were reached, and how busy the host was
 *   relay.js round-trip <plan>               p50 and p99 in us; the plan is JSON, see round-trips.ts
 *   relay.js beside-a-flood <plan>           the same, of requests to a worker that another one floods
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import { measureBusy, type Paced, pace } from '../pacing.ts'
import { type Commands, type Credit, type Note, type Part, type Posted, RelayHost } from '../relay-host.ts'
import { measureRoundTrips, type RoundTripPlan, type RoundTrips } from '../round-trips.ts'
import { CONTENT, payload } from '../workload.ts'

const WINDOW = 1_024
const CREDIT = 64 // the counter gives back so many at a time

const parts: Record<Part, () => void> = { producer, counter, pacer, asker }

if (isMainThread) {
  const [kind, ...args] = process.argv.slice(2)
  console.log(JSON.stringify(await measure(kind, args)))
  process.exit(0)
} else {
  parts[workerData as Part]()
  parentPort!.postMessage('ready')
}

// ---- host

function measure(kind: string | undefined, args: string[]): Promise<unknown> {
  const [first = '', second = ''] = args
  if (kind === 'one-way' || kind === 'cold') return oneWay(Number(first), Number(second), kind === 'cold')
  if (kind === 'paced') return paced(Number(first), Number(second))
  return roundTrips(JSON.parse(first), kind === 'beside-a-flood')
}

async function oneWay(count: number, size: number, cold: boolean): Promise<number> {
  const host = new RelayHost(new URL(import.meta.url))
  await host.start('producer', 'counter')
  const send = async (goal: number) => {
    const counted = host.result()
    const startedAt = performance.now()
    host.tell('counter', { count: goal })
    host.tell('producer', { count: goal, size })
    await counted
    return (goal / (performance.now() - startedAt)) * 1_000
  }
  if (!cold) await send(count) // as many before, as for the runtime
  return send(count)
}

async function paced(perSecond: number, forMs: number): Promise<Paced> {
  const host = new RelayHost(new URL(import.meta.url))
  await host.start('pacer', 'counter')
  const keepPace = (ms: number) => {
    host.tell('pacer', { perSecond, forMs: ms })
    return host.result<number>()
  }
  return measureBusy(keepPace, forMs)
}

async function roundTrips(plan: RoundTripPlan, flooded: boolean): Promise<RoundTrips> {
  const host = new RelayHost(new URL(import.meta.url))
  await host.start(...(flooded ? (['producer'] as const) : []), 'counter', 'asker')
  if (flooded) host.tell('producer', { count: Number.MAX_SAFE_INTEGER, size: CONTENT.length })
  host.tell('asker', plan)
  return host.result()
}

// ---- workers

function producer(): void {
  let credit = WINDOW
  let left = 0
  let content = ''
  parentPort!.on('message', (note: Commands['producer'] | Credit) => {
    if ('credit' in note) credit += note.credit
    else {
      left = note.count
      content = 'x'.repeat(note.size)
    }
    for (; credit > 0 && left > 0; credit--, left--) post(message('report', 'producer', 'counter', left, content))
  })
}

function pacer(): void {
  let credit = WINDOW
  let wake = () => {}
  const send = async (i: number) => {
    while (credit === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    credit--
    post(message('report', 'pacer', 'counter', i))
  }
  parentPort!.on('message', async (note: Commands['pacer'] | Credit) => {
    if ('credit' in note) {
      credit += note.credit
      wake()
    } else post({ result: await pace(send, note.perSecond, note.forMs) })
  })
}

/** Counts what nobody waits for, and answers requests at once. */
function counter(): void {
  let goal = Number.POSITIVE_INFINITY
  let seen = 0
  let since = 0
  parentPort!.on('message', (input: Commands['counter'] | Posted) => {
    if ('count' in input) {
      goal = input.count
      seen = 0
      return
    }
    if (input.type === 'request') {
      const reply = message('response', 'counter', input.sender, seen)
      reply.correlationId = input.id
      post(reply)
      return
    }
    if (++since === CREDIT) {
      since = 0
      post({ credit: CREDIT })
    }
    if (++seen === goal) post({ result: seen })
  })
}

function asker(): void {
  const waiting = new Map<string, () => void>()
  const request = (i: number) =>
    new Promise<void>((resolve) => {
      const asked = message('request', 'asker', 'counter', i)
      waiting.set(asked.id, resolve)
      post(asked)
    })
  parentPort!.on('message', async (input: RoundTripPlan | Posted) => {
    if ('warmUp' in input) {
      post({ result: await measureRoundTrips(request, input) })
      return
    }
    const id = input.correlationId!
    const resolve = waiting.get(id)!
    waiting.delete(id)
    resolve()
  })
}

function message(type: Posted['type'], sender: Part, recipient: string, i: number, content = CONTENT): Posted {
  const id = `0190b3a4-7c11-7f3e-9a55-${String(i).padStart(12, '0')}`
  return { id, type, sender, recipient, content, structuredData: payload(i), priority: 0, threadId: 't' }
}

function post(value: Note | Posted): void {
  parentPort!.postMessage(value)
}
