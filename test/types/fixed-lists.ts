/** Lists that nobody may change (`as const`) are taken wherever a list is given. */
import { createTeam, defineAgent, defineTool, loadTeam, type ToolReference } from 'dramatis'
import { readWebpage, workspace } from 'dramatis/tools'
import { z } from 'zod'

const names = ['ann', 'bob', 'lead'] as const
const colors = ['red', 'blue'] as const
const add = defineTool({ name: 'add', description: 'Adds.', input: z.object({ a: z.number() }), run: ({ a }) => a })
const tools: readonly ToolReference[] = [add, readWebpage({ allow: colors, ports: [443] as const })]
const module = new URL('./analyst.js', import.meta.url)

const agents = names.map((name) => ({
  name,
  module,
  tools,
  env: colors,
  sharedWith: names,
  canDelegateTo: names,
  capabilities: [{ name: 'sums', inputTypes: colors, outputTypes: colors }, 'maps'] as const,
}))
const syncPoints = [{ name: 'revealed', requiredAgents: names, timeoutMs: 1_000 }] as const

export const asker = defineAgent({
  async receive({ content }, context) {
    const color = await context.ask('Which color?', { choices: colors })
    await context.requestAll(names, content)
    await context.requestAny(names, content)
    await context.requestQuorum(names, 2, content)
    await context.delegate('ann', { description: content, requiredCapabilities: colors, dependencies: [] as const })
    await context.publish('color', color, 'fact', { references: colors })
    await context.complete({ messages: [{ role: 'user', content }] as const })
    await context.think({ prompt: content, tools: ['add'] as const })
  },
})

const moderated = { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'lead', positions: colors } as const

export const teams = async () => [
  createTeam({ agents, syncPoints, tools, orchestration: { strategy: 'sequential', agentOrder: names } }),
  createTeam({ agents, orchestration: { strategy: 'parallel', agents: names } }),
  createTeam({ agents, orchestration: { strategy: 'auction', bidders: names } }),
  createTeam({ agents, orchestration: { strategy: 'blackboard', agents: names, interests: { ann: colors } } }),
  createTeam({ agents, orchestration: { strategy: 'consensus', agents: names } }),
  createTeam({ agents, orchestration: { strategy: 'collaborate', teammates: names } }),
  createTeam({ agents, orchestration: { strategy: 'hierarchical', manager: 'lead', workers: names } }),
  createTeam({ agents, orchestration: { strategy: 'supervisor', supervisor: 'lead', experts: names } }),
  createTeam({ agents, orchestration: { ...moderated, judgeCriteria: colors } }),
  createTeam({
    agents,
    orchestration: {
      strategy: 'custom',
      async run({ vote }, query) {
        const ballots: readonly { agent: string; value: string }[] = [{ agent: 'ann', value: query }]
        return vote(ballots).winner
      },
    },
  }),
  createTeam(await loadTeam('agents.yaml', { tools: [add] as const })),
]

export async function outside() {
  const [team] = await teams()
  await team?.sendMessage({ recipient: names, content: 'hi', type: 'report' })
  for await (const event of team?.launch('hi').events({ types: ['question', 'run.finished'] as const }) ?? [])
    void event
  return workspace({ root: '.', allow: colors })
}
