/** Two buyers, each of whom wants the quote of the other first: the cycle is named, and broken. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)

export default defineTeam({
  agents: [
    { name: 'ann', module, data: { does: 'ask first', whom: 'bob' } },
    { name: 'bob', module, data: { does: 'ask first', whom: 'ann' } },
  ],
  orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
})
