/**
 * A request from one agent to another and its answer, through the public API, with the defaults on: p50 and p99 in us.
 *
 *   round-trip.js <count> <in flight>
 */
import { createTeam } from 'dramatis'
import type { Questions } from '../agents/asker.ts'
import type { RoundTrips } from '../round-trips.ts'

const [count = '0', inFlight = '1'] = process.argv.slice(2)
let times: RoundTrips | undefined

const team = createTeam({
  agents: [
    { name: 'asker', module: new URL('../agents/asker.js', import.meta.url) },
    { name: 'answerer', module: new URL('../agents/answerer.js', import.meta.url) },
  ],
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const structuredData: Questions = { to: 'answerer', count: Number(count), inFlight: Number(inFlight) }
      const answer = await orchestrator.request<Questions, RoundTrips>('asker', 'go', { structuredData })
      times = answer.structuredData
      return 'done'
    },
  },
})
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
console.log(JSON.stringify(times))
