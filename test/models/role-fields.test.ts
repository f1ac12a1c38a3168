/** What a role says of its model. Requirements P1, P31; how a model is asked is in complete.test.ts. */
import t from 'tap'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../kit/team.ts'
import { calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

t.test('each role has the model that it names, at its own address and with its own key', async (t) => {
  const [small, large] = [await modelServer(t), await modelServer(t)]
  for (const server of [small, large]) server.always(({ body }) => `I am ${body.model}.`)
  const agents = [{ name: 'scout', model: 'quick' }, { name: 'judge', model: 'careful' }, { name: 'ann' }]
  const models = {
    quick: { model: 'small-1', baseURL: small.baseURL, apiKey: 'key-of-the-small-one' },
    careful: { model: 'large-1', baseURL: large.baseURL, apiKey: 'key-of-the-large-one' },
    default: new FakeModel(['I am the default.']),
  }
  const team = testTeam({ agents, models, orchestration: { strategy: 'parallel' }, logger: silent })
  t.teardown(() => team.close())
  const { agentOutputs } = await team.execute('Who are you?')
  t.match(agentOutputs, {
    scout: [{ content: 'I am small-1.' }],
    judge: [{ content: 'I am large-1.' }],
    ann: [{ content: 'I am the default.' }],
  })
  const asked = (server: typeof small) => server.calls.map(({ key, body }) => [key, body.model])
  t.same(asked(small), [['key-of-the-small-one', 'small-1']])
  t.same(asked(large), [['key-of-the-large-one', 'large-1']])
})

t.test('maxRounds is 12 where the role says nothing', async (t) => {
  const asksBob = calls(['request', { to: 'bob', content: 'again' }])
  const rounds = async (role: object) => {
    let nth = 0
    const model = new FakeModel(({ agent }) => (agent === 'bob' ? `no ${nth++}` : asksBob))
    const { team } = modelTeam(t, model, [{ name: 'ann', canDelegateTo: ['bob'], ...role }, { name: 'bob' }], {
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
    })
    t.match((await team.execute('go')).error, { code: 'TASK_REFUSED' })
    return model.requests.filter(({ agent }) => agent === 'ann').length
  }
  t.equal(await rounds({}), 12)
  t.equal(await rounds({ maxRounds: 3 }), 3)
})
