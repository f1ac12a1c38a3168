/**
 * Messages/s from one agent to another through the public API, with the defaults on.
 *
 *   one-way.js <count> <size> <in flight> [reads|cold]
 *
 * cold: the first of the process; else as many go before.
 */
import { createTeam } from 'dramatis'
import type { Order } from '../agents/producer.ts'
import { supervision } from './detectors.ts'

const [count = '0', size = '0', inFlight = '1', how] = process.argv.slice(2)
let rate = Number.NaN

const team = createTeam({
  agents: [
    { name: 'producer', module: new URL('../agents/producer.js', import.meta.url) },
    { name: 'counter', module: new URL('../agents/counter.js', import.meta.url), data: { reads: how === 'reads' } },
  ],
  supervision,
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const send = async (goal: number) => {
        const structuredData: Order = { to: 'counter', count: goal, size: Number(size), inFlight: Number(inFlight) }
        const startedAt = performance.now()
        await orchestrator.request('producer', 'go', { structuredData })
        // in order behind all that the producer sent, so its answer is the end of the work
        const answer = await orchestrator.request<undefined, { count: number }>('counter', 'how many?')
        const tookMs = performance.now() - startedAt
        const counted = answer.structuredData.count
        if (counted !== goal) throw new Error(`${counted} of ${goal} messages had arrived`)
        return (goal / tookMs) * 1_000
      }
      if (how !== 'cold') await send(Number(count)) // as many before: until then code is compiled in each thread, and memory touched
      rate = await send(Number(count))
      return 'done'
    },
  },
})
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
console.log(JSON.stringify(rate))
