/** `limits.messagesPerTurn` bounds what one turn sends, and two agents with very many messages are told. */
import t from 'tap'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { calls, FakeModel } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { localTeam, type Receive } from './teams.ts'

const heard: Receive = () => 'heard'

/** Sends as many messages, and says what became of those that were refused. */
const sends =
  (count: number): Receive =>
  async (_message, context) => {
    const refused: string[] = []
    for (let i = 0; i < count; i++)
      await context.send('bob', `${i}`).catch((error) => refused.push(`${error.code} ${error.details.path}`))
    return refused.join(', ')
  }

t.test('a message beyond the limit of a turn is refused, with an error that names the limit', async (t) => {
  const team = localTeam(t, { ann: sends(5), bob: heard }, { roles: { ann: { limits: { messagesPerTurn: 3 } } } })
  const refusal = 'MESSAGE_REJECTED limits.messagesPerTurn'
  for (let turn = 0; turn < 2; turn++) t.equal((await team.execute('go')).finalOutput, `${refusal}, ${refusal}`)
})

t.test('code has no limit unless it says so, a model has 1,000', (t) => {
  const limitOf = (role: object) => settingsFrom({ agents: [{ name: 'ann', ...role }] }).agents[0]?.messagesPerTurn
  t.equal(limitOf({ module: 'any' }), Number.POSITIVE_INFINITY)
  t.equal(limitOf({}), 1_000)
  t.equal(limitOf({ limits: { messagesPerTurn: 5 } }), 5)
  t.end()
})

t.test('a model learns that it has sent too many', async (t) => {
  const asks = calls(
    ...Array.from({ length: 3 }, (_, i) => ['request', { to: 'bob', content: `${i}` }] as [string, object]),
  )
  const model = new FakeModel(({ agent, messages }) =>
    agent === 'bob' ? 'heard' : messages.at(-1)?.role === 'tool' ? 'done' : asks,
  )
  const agents = [{ name: 'ann', canDelegateTo: ['bob'], limits: { messagesPerTurn: 2 } }, { name: 'bob' }]
  const { team } = modelTeam(t, model, agents, { orchestration: { strategy: 'sequential', agentOrder: ['ann'] } })
  t.equal((await team.execute('go')).finalOutput, 'done')
  const told = model.requests.at(-1)?.messages.filter(({ role }) => role === 'tool') ?? []
  t.equal(told.length, 3)
  t.equal(told.filter(({ content }) => JSON.stringify(content).includes('limits.messagesPerTurn')).length, 1)
})

t.test('two agents with 1,000 messages in one run are told once, and counted', async (t) => {
  const asks: Receive = async (_message, context) => {
    for (let i = 0; i < 2_500; i++) await context.request('bob', `${i}`)
    return 'done'
  }
  const team = localTeam(t, { ann: asks, bob: heard })
  const told: string[] = []
  team.events.subscribe((event) => void (event.type === 'limit.reached' && told.push(event.option)))
  t.equal((await team.execute('go')).finalOutput, 'done')
  t.same(told, ['messages between "ann" and "bob" in one run'])
  t.match(team.metrics('prometheus'), /^dramatis_chatty_pairs_total 1$/m)
})
