/** The same request of two agents, of which one is not trusted. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)
const data = { does: 'pry', whom: ['vault'] }

export default defineTeam({
  agents: [
    { name: 'stranger', module, data, trust: 'untrusted' },
    { name: 'colleague', module, data },
    { name: 'vault', module, data: { does: 'work' } },
  ],
  orchestration: { strategy: 'parallel', agents: ['stranger', 'colleague'] },
})
