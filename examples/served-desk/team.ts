/**
 * A desk to look at over HTTP: two models, a clerk whose thread crashes once in each task, and a buyer who asks a person
 * before money is spent. Without a key the rehearsal model plays the models.
 */
import { defineTeam, defineTool } from 'dramatis'
import { z } from 'zod'

const buy = defineTool({
  name: 'buy',
  description: 'Buys one thing.',
  input: z.object({ what: z.string(), euros: z.number() }),
  approval: true,
  idempotent: true,
  run: ({ what, euros }) => `bought: ${what}, ${euros} EUR`,
})

export default defineTeam({
  agents: [
    { name: 'planner', description: 'plans', systemPrompt: 'Plan what has to be bought, in three sentences.' },
    {
      name: 'clerk',
      description: 'writes offers on the blackboard; its thread crashes once in each task',
      module: new URL('./clerk.ts', import.meta.url),
      supervision: { maxRestarts: 1_000 }, // by default it would be stopped at the fourth task within a minute
    },
    {
      name: 'buyer',
      description: 'buys, when a person agrees',
      module: new URL('./buyer.ts', import.meta.url),
      tools: [buy],
    },
    { name: 'writer', description: 'reports', systemPrompt: 'Report in two sentences what was bought.' },
  ],
  orchestration: { strategy: 'sequential' },
  enableBlackboard: true,
  globalTimeoutMs: 3_600_000, // people take their time
  rehearsal: { realTools: true }, // `buy` spends no money, so it runs without a key too
})
