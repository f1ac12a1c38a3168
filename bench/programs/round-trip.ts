/**
 * Requests from one agent to another and their answers, through the public API, with the defaults on: p50 and p99 in
 * us. With `flooded` a third agent floods the one that answers, and the requests are of high priority.
 *
 *   round-trip.js <plan> [flooded]     the plan is JSON, see round-trips.ts
 */
import { createTeam } from 'dramatis'
import type { Questions } from '../agents/asker.ts'
import type { RoundTripPlan, RoundTrips } from '../round-trips.ts'
import { supervision } from './detectors.ts'

const [planText = '', flood] = process.argv.slice(2)
const plan: RoundTripPlan = JSON.parse(planText)
const flooded = flood === 'flooded'
let times: RoundTrips | undefined

const team = createTeam({
  agents: [
    { name: 'asker', module: new URL('../agents/asker.js', import.meta.url) },
    { name: 'answerer', module: new URL('../agents/answerer.js', import.meta.url) },
    ...(flooded ? [{ name: 'flooder', module: new URL('../agents/flooder.js', import.meta.url) }] : []),
  ],
  supervision,
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      if (flooded) await orchestrator.send('flooder', 'answerer') // it goes on until this run ends
      const structuredData: Questions = { ...plan, to: 'answerer', priority: flooded ? 1 : 0 }
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
