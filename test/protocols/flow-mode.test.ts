/** One team in three flows. What each does is in supervisor.test.ts, the environment in service/flow-mode.test.ts. */
import t from 'tap'
import { z } from 'zod'
import { type AgentRole, defineTeam, defineTool } from '../../src/index.ts'
import { inFlowMode } from '../../src/protocols.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'

const tool = (name: string) =>
  defineTool({ name, description: name, input: z.object({}), run: () => `by ${name}`, idempotent: true })
const shared = tool('weather')
const module = new URL('./tools.js', import.meta.url)

const agents: AgentRole[] = [
  { name: 'chief' },
  { name: 'weather', tools: [shared] },
  { name: 'travel', tools: [shared, tool('weather'), tool('maps'), 'delegate'] },
  { name: 'general', tools: ['delegate', { module, export: 'clock' }, { module, export: 'dice' }] },
]
const desk = defineTeam<string>({
  agents,
  orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['weather', 'travel'], fallback: 'general' },
})

t.test('the flow of a desk is switched, and nothing else of it', async (t) => {
  t.equal(inFlowMode(desk, undefined), desk)
  t.equal(inFlowMode(desk, ''), desk)
  for (const [mode, flow] of [
    ['multi_agent', 'multi_agent'],
    ['graph', 'graph'],
    ['langgraph', 'graph'],
  ] as const)
    t.same(inFlowMode(desk, mode), { ...desk, orchestration: { ...desk.orchestration, flow } })
})

t.test('with tools one agent has the tools of all, each once', async (t) => {
  const { agents: equipped } = inFlowMode(desk, 'tools')
  const { tools = [] } = equipped.find(({ name }) => name === 'general') ?? {}
  const names = tools.map((each) => (typeof each === 'string' ? each : 'name' in each ? each.name : each.export))
  t.same(names, ['delegate', 'clock', 'dice', 'weather', 'maps'])
  t.same(
    equipped.filter(({ name }) => name !== 'general'),
    agents.slice(0, 3),
  )
})

t.test('with tools one agent holds the keys of all, each once', async (t) => {
  const keys = { free: ['SEARCH_KEY_FREE'], paid: ['SEARCH_KEY_PAID'] }
  const holding = agents.map((agent) => (agent.name === 'weather' ? { ...agent, keys: ['free', 'paid'] } : agent))
  const roles = [...holding.slice(0, 3), { ...holding[3]!, keys: ['paid'] }]
  const { agents: equipped } = inFlowMode({ ...desk, agents: roles, keys }, 'tools')
  t.same(equipped.at(-1)?.keys, ['paid', 'free'])
  t.same(equipped.slice(0, 3), roles.slice(0, 3))
})

t.test('the agent that is alone calls them', async (t) => {
  const model = scriptedModel([
    { agent: 'chief', toolCall: { name: 'maps', input: {} } },
    { agent: 'chief', reply: 'There.' },
  ])
  const options = defineTeam<string>({
    agents: [{ name: 'chief' }, { name: 'travel', tools: [tool('maps')] }],
    orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['travel'] },
  })
  const team = testTeam(inFlowMode(options, 'tools'), { model })
  t.teardown(() => team.close())
  t.equal((await team.execute('Where?')).finalOutput, 'There.')
  t.match(model.calls[1]?.prompt, 'by maps')
})

t.test('what is no mode is refused, whatever the strategy', async (t) => {
  const line = defineTeam({ agents: [{ name: 'a' }], orchestration: { strategy: 'sequential' } })
  for (const mode of ['swarm', 'Tools', 'constructor'])
    for (const options of [desk, line])
      t.throws(() => inFlowMode<typeof desk | typeof line>(options, mode), {
        code: 'CONFIGURATION',
        message: `FLOW_MODE: got "${mode}"; accepted: tools, graph, langgraph, multi_agent.`,
        details: { path: 'FLOW_MODE' },
      })
  t.throws(() => inFlowMode(line, 'graph'), { message: /only a team of the strategy "supervisor"/ })
  t.equal(inFlowMode(line, 'multi_agent'), line)
})
