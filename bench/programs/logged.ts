/**
 * What a message costs where the log is kept on a disk, and where it is not: as one-way.js, each send awaited.
 *
 *   logged.js <count> <size> [folder]     without a folder the log is in memory
 */
import { createTeam } from 'dramatis'
import type { Order } from '../agents/producer.ts'
import { type Cost, costOf } from '../many.ts'
import { supervision } from './detectors.ts'

const [count = '0', size = '0', folder] = process.argv.slice(2)
let cost: Cost | undefined

const team = createTeam({
  agents: [
    { name: 'producer', module: new URL('../agents/producer.js', import.meta.url) },
    { name: 'counter', module: new URL('../agents/counter.js', import.meta.url) },
  ],
  supervision,
  ...(folder !== undefined && { stateManagement: { path: folder } }),
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const send = async () => {
        const structuredData: Order = { to: 'counter', count: Number(count), size: Number(size), inFlight: 1 }
        await orchestrator.request('producer', 'go', { structuredData })
        await orchestrator.request('counter', 'how many?')
      }
      await send() // as many before: until then code is compiled in each thread, and memory touched
      cost = await costOf(Number(count), async () => {
        await send()
        await team.flush() // what is counted is also written
      })
      return 'done'
    },
  },
})
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
console.log(JSON.stringify(cost))
