/** A manager without code decides on an escalation: its model has the four answers of document 002, 2.6.2. */
import t from 'tap'
import type { MultiAgentPatternOptions } from '../../src/index.ts'
import type { ModelRequest } from '../../src/models.ts'
import { where } from '../kit/lists.ts'
import { type Answers, calls } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const lastOf = (request: ModelRequest | undefined) => request?.messages.at(-1)
const toolNames = (request: ModelRequest | undefined) => request?.tools?.map(({ name }) => name)

const agents: MultiAgentPatternOptions['agents'] = [
  { name: 'ann', escalateTo: 'lead' },
  { name: 'lead', escalateTo: 'boss' },
  { name: 'boss' },
  { name: 'bob' },
]

/** Has ann escalate; the others answer as they are told. */
async function escalated(test: Pick<typeof t, 'teardown'>, others: Record<string, ReturnType<typeof calls> | string>) {
  const answers: Answers = (request) => {
    const said = lastOf(request)
    if (request.agent !== 'ann') return others[request.agent!] ?? `${request.agent} did it`
    return said?.role === 'tool' ? `told: ${said.content}` : calls(['escalate', { reason: 'no spade' }])
  }
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const { team, model } = modelTeam(test, answers, agents, { orchestration })
  const result = await team.execute('dig')
  return { result, model, asked: (agent: string) => model.requests.filter((request) => request.agent === agent) }
}

t.test('its words are guidance', async (t) => {
  const { result, asked } = await escalated(t, { lead: 'Take a spoon.' })
  t.equal(result.finalOutput, 'told: Take a spoon.')
  t.same(toolNames(asked('lead')[0]), ['escalate', 'refuse', 'reassign', 'take_over'])
  t.match(asked('lead')[0]?.messages[0]?.content, /- bob/)
  t.same(toolNames(asked('ann')[0]), ['escalate', 'refuse'])
})

t.test('it gives the task to another agent', async (t) => {
  const { result, asked } = await escalated(t, { lead: calls(['reassign', { to: 'bob', guidance: 'Use the spade.' }]) })
  t.equal(result.finalOutput, 'bob did it')
  t.equal(lastOf(asked('bob')[0])?.content, 'Task from "ann":\ndig')
  t.match(
    where(result.orchestrationTrace.events, 'eventType', 'reassignment'),
    ['requested', 'done'].map((step) => ({ agent: 'lead', details: { step, from: 'ann', to: 'bob' } })),
  )
})

t.test('it takes the task over', async (t) => {
  const { result, asked } = await escalated(t, { lead: calls(['take_over', { result: 'I dug it.' }]) })
  t.equal(result.finalOutput, 'I dug it.')
  t.equal(asked('ann').length, 1)
})

t.test('it passes the escalation on: its own manager decides', async (t) => {
  const { result, asked } = await escalated(t, {
    lead: calls(['escalate', { reason: 'not mine' }]),
    boss: calls(['take_over', { result: 'The boss dug it.' }]),
  })
  t.equal(result.finalOutput, 'The boss dug it.')
  t.match(lastOf(asked('boss')[0])?.content, /"passedBy": \[\s+"lead"/)
  t.same(toolNames(asked('boss')[0]), ['reassign', 'take_over'])
})

t.test('it is told to whom it may give the task', async (t) => {
  const tried: Answers = ({ agent, messages }) => {
    if (agent === 'ann') return messages.at(-1)?.role === 'tool' ? 'so be it' : calls(['escalate', { reason: 'no' }])
    const tools = messages.filter(({ role }) => role === 'tool')
    return tools.length === 0 ? calls(['reassign', { to: 'ann' }]) : `heard: ${tools.at(-1)?.content}`
  }
  const { team, model } = modelTeam(t, tried, agents, {
    orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
  })
  await team.execute('dig')
  t.match(lastOf(model.requests.at(-1))?.content, /heard: Error: "to" is "ann"; you may give the task to: boss, bob/)
})
