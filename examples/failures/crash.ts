/** An agent's thread dies in the midst of its work: it restarts, and the work comes again. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)

export default defineTeam({
  agents: [{ name: 'worker', module, data: { does: 'die once' } }],
  orchestration: { strategy: 'sequential' },
})
