/**
 * Processor time of the host's thread for a message, in us, while nobody watches, or somebody does and writes all of it as JSON.
 *
 *   watched.js <nobody|digest|events> <count>
 */
import { readFileSync } from 'node:fs'
import { createTeam } from 'dramatis'
import type { Order } from '../agents/producer.ts'

const [how = 'nobody', count = '0'] = process.argv.slice(2)
const SIZE = 200
const IN_FLIGHT = 64
const stop = new AbortController()
let written = 0
let hostUs = Number.NaN

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
      await send(Number(count)) // until then code is compiled
      hostUs = await send(Number(count))
      return 'done'
    },
  },
})
const write = (value: unknown) => {
  written += JSON.stringify(value).length
}
const reading = async () => {
  for await (const line of team.watch({ signal: stop.signal })) write(line)
}
if (how === 'digest') void reading()
if (how === 'events') team.events.subscribe(write)
const result = await team.execute('go')
stop.abort()
await team.close()
if (!result.success) throw result.error
if (how !== 'nobody' && written < Number(count)) throw new Error(`only ${written} characters were written`)
console.log(JSON.stringify({ hostUs, bytes: written / (2 * Number(count)) }))
