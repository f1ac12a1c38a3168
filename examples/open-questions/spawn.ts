/** An agent that makes other agents, as many as its work needs: `trust: 'privileged'` lets it. */
import { defineTeam } from 'dramatis'

export default defineTeam({
  agents: [
    { name: 'foreman', module: new URL('./agent.ts', import.meta.url), data: { does: 'hire' }, trust: 'privileged' },
  ],
  orchestration: { strategy: 'sequential' },
})
