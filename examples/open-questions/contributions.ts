/** Two agents of which the second repeats a sentence of the first: `result.contributions` says whose each sentence is. */
import { defineTeam } from 'dramatis'

const module = new URL('./agent.ts', import.meta.url)

export default defineTeam({
  agents: [
    { name: 'gauge', module, data: { does: 'tell', says: 'It rained 56 mm. The river rose by a metre.' } },
    { name: 'adviser', module, data: { does: 'tell', says: 'It rained 56 mm. Move your car.' } },
  ],
  orchestration: { strategy: 'sequential' },
})
