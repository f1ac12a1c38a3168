/** An agent asks the same again and again, and gets the same answer: it is told, then its protocol, then the run ends. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)

export default defineTeam({
  agents: [
    { name: 'manager', module, data: { does: 'nag', whom: 'worker' } },
    { name: 'worker', module, data: { does: 'listen' } },
  ],
  orchestration: { strategy: 'sequential', agentOrder: ['manager'] },
  supervision: { livelock: { maxRepeats: 4, onFound: 'end' } },
})
