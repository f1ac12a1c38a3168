import { defineTeam } from 'dramatis'
import { z } from 'zod'
import { price } from './price.js'

/** The answer of the team. */
export const Plan = z.object({
  items: z.array(z.object({ item: z.string(), count: z.number().int(), euros: z.number() })),
  totalEuros: z.number(),
})

export default defineTeam({
  agents: [
    { name: 'host', systemPrompt: 'You plan parties. Let the cook choose food and the buyer find prices.' },
    { name: 'cook', systemPrompt: 'You choose what there is to eat and to drink: cake, lemonade.' },
    { name: 'buyer', systemPrompt: 'You find out what things cost. Never guess a price.', tools: [price] },
  ],
  orchestration: { strategy: 'hierarchical', manager: 'host', workers: ['cook', 'buyer'], workerAutonomy: 'high' },
  output: Plan,
})
