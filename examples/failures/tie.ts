/** Two agents do not agree, round after round: after the last round somebody else breaks the tie. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)
const ROUNDS = 3

export default defineTeam({
  agents: [
    { name: 'ann', module, data: { does: 'vote', vote: 'red' } },
    { name: 'bob', module, data: { does: 'vote', vote: 'blue' } },
    { name: 'chair', module, data: { does: 'vote', vote: 'blue' } },
  ],
  orchestration: {
    strategy: 'custom',
    async run(orchestrator, query) {
      for (let round = 1; round <= ROUNDS; round++) {
        const outcomes = await orchestrator.requestAll(['ann', 'bob'], `${query} (round ${round})`)
        const ballots = outcomes.flatMap((each) => (each.ok ? { agent: each.agent, value: each.message.content } : []))
        const { winner, tied } = orchestrator.vote(ballots)
        if (!tied) return winner
      }
      const { content } = await orchestrator.request('chair', query)
      orchestrator.decide(query, content, `no majority in ${ROUNDS} rounds, so the chair broke the tie`)
      return content
    },
  },
})
