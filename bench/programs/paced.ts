/**
 * Messages from one agent to another at a steady pace, through the public API, with the defaults on: messages/s that
 * were reached, and how busy the host was.
 *
 *   paced.js <messages/s> <ms>
 */
import { createTeam } from 'dramatis'
import type { Pace } from '../agents/pacer.ts'
import { measureBusy, type Paced } from '../pacing.ts'

const [perSecond = '0', forMs = '0'] = process.argv.slice(2)
let paced: Paced | undefined

const team = createTeam({
  agents: [
    { name: 'pacer', module: new URL('../agents/pacer.js', import.meta.url) },
    { name: 'counter', module: new URL('../agents/counter.js', import.meta.url) },
  ],
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const keepPace = async (ms: number) => {
        const structuredData: Pace = { to: 'counter', perSecond: Number(perSecond), forMs: ms }
        const answer = await orchestrator.request<Pace, { rate: number }>('pacer', 'go', { structuredData })
        return answer.structuredData.rate
      }
      paced = await measureBusy(keepPace, Number(forMs))
      return 'done'
    },
  },
})
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
console.log(JSON.stringify(paced))
