/**
 * Processor time of the host's thread for a message, in us, while nobody watches, and while somebody does and writes all
 * of it as JSON: by turns in one process, since two processes differ by more than that.
 *
 *   watched.js <digest|events> <count> <laps of each>
 */
import { readFileSync } from 'node:fs'
import { createTeam } from 'dramatis'
import type { Order } from '../agents/producer.ts'
import { median } from '../statistics.ts'

const [how, count = '0', laps = '0'] = process.argv.slice(2)
export interface Watched {
  unwatchedUs: number
  watchedUs: number
  /** Of JSON, of a message. */
  bytes: number
}

const SIZE = 200
const IN_FLIGHT = 64
/** Laps before those that count: until then code is compiled, of who watches too. */
const WARM_UP = 4
let written = 0
const unwatched: number[] = []
const watched: number[] = []

/** Processor time of the host's thread; where the system does not say it, the time in which its loop was at work. */
function hostMs(): number {
  try {
    const [ns] = readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')
    return Number(ns) / 1e6
  } catch {
    return performance.eventLoopUtilization().active
  }
}

const team = createTeam({
  agents: [
    { name: 'producer', module: new URL('../agents/producer.js', import.meta.url) },
    { name: 'counter', module: new URL('../agents/counter.js', import.meta.url) },
  ],
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const send = async (goal: number) => {
        const structuredData: Order = { to: 'counter', count: goal, size: SIZE, inFlight: IN_FLIGHT }
        const before = hostMs()
        await orchestrator.request('producer', 'go', { structuredData })
        const answer = await orchestrator.request<undefined, { count: number }>('counter', 'how many?')
        const tookMs = hostMs() - before
        if (answer.structuredData.count !== goal) throw new Error(`${answer.structuredData.count} of ${goal} arrived`)
        return (tookMs / goal) * 1_000
      }
      for (let lap = -WARM_UP; lap < Number(laps); lap++) {
        const alone = await send(Number(count))
        const stop = await watch()
        const seen = await send(Number(count))
        stop()
        if (lap < 0) continue
        unwatched.push(alone)
        watched.push(seen)
      }
      return 'done'
    },
  },
})
const write = (value: unknown) => {
  written += JSON.stringify(value).length
}
/** Messages that the watchers were told of. */
let told = 0
/** Resolves to what ends the watching, when it has begun: that costs the same however long it goes on. */
async function watch(): Promise<() => void> {
  if (how === 'events') {
    const subscription = team.events.subscribe((event) => {
      write(event)
      if (event.type === 'message') told += 1
    })
    return () => subscription.unsubscribe()
  }
  const stop = new AbortController()
  return new Promise((begun) => {
    const reading = async () => {
      for await (const line of team.watch({ signal: stop.signal })) {
        write(line)
        told += line.message?.rows ?? 0
        begun(() => stop.abort())
      }
    }
    void reading()
  })
}
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
// The last line of each lap comes a tenth of a second after its end: the watcher has gone by then.
const messages = (Number(laps) + WARM_UP) * Number(count)
if (told < messages * 0.8) throw new Error(`only ${told} of ${messages} messages were told`)
console.log(
  JSON.stringify({
    unwatchedUs: median(unwatched),
    watchedUs: median(watched),
    bytes: written / messages,
  } satisfies Watched),
)
