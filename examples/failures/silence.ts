/** An agent does not answer: it is asked again, then the manager hears of it, then the request fails. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)

export default defineTeam({
  agents: [
    { name: 'asker', module, data: { does: 'ask first', whom: 'silent' }, escalateTo: 'manager' },
    { name: 'silent', module, data: { does: 'keep silent' } },
    { name: 'manager', module, data: { does: 'listen' } },
  ],
  communication: { responseTimeoutMs: 200, retries: 2 },
  orchestration: {
    strategy: 'custom',
    async run(orchestrator, query) {
      try {
        return (await orchestrator.request('asker', query, { timeoutMs: 10_000, retries: 0 })).content
      } finally {
        await orchestrator.request('manager', 'Have you heard?', { timeoutMs: 10_000 }) // it takes one message at a time
      }
    },
  },
})
