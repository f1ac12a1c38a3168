/** A task that its agent refuses goes to somebody else. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)

export default defineTeam({
  agents: [
    { name: 'lead', module, data: { does: 'lead', whom: ['poet', 'builder'] } },
    { name: 'poet', module, data: { does: 'decline', says: 'I write, and dig no holes.' } },
    { name: 'builder', module, data: { does: 'work' } },
  ],
  orchestration: { strategy: 'sequential', agentOrder: ['lead'] },
})
