/**
 * A message from outside to an agent and its answer, where both wait until they are on the disk, and what one flush of
 * that disk takes.
 *
 *   committed.js <count> <warm up> <folder>
 */
import { createTeam } from 'dramatis'
import { flushUs } from '../disk.ts'
import { measureRoundTrips } from '../round-trips.ts'

export interface Committed {
  /** Median, in us. */
  tripUs: number
  flushUs: number
}

const [count = '0', warmUp = '0', folder = ''] = process.argv.slice(2)
const team = createTeam({
  agents: [{ name: 'answerer', module: new URL('../agents/answerer.js', import.meta.url) }],
  orchestration: { strategy: 'sequential' },
  stateManagement: { path: folder, durability: 'commit' },
})
await team.start()
const ask = () => team.sendMessage({ recipient: 'answerer', content: 'a question', requiresResponse: true })
const trips = await measureRoundTrips(ask, { count: Number(count), inFlight: 1, warmUp: Number(warmUp), pauseMs: 0 })
const flush = await flushUs(folder)
await team.close()
console.log(JSON.stringify({ tripUs: trips.p50, flushUs: flush } satisfies Committed))
