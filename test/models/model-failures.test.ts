/** Why a model gave no answer, as its caller reads it: however deep it lies, over threads, and in JSON. */
import t from 'tap'
import { type DramatisError, defineAgent, ModelError } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../supervision/teams.ts'
import { FakeModel } from './fake-model.ts'
import { ThreadTeam } from './teams.ts'

type Test = Pick<typeof t, 'teardown'>

const sequential = { strategy: 'sequential' } as const

t.test('a run whose model gives no answer says why in one place, also in JSON', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 401 })
  const team = new ThreadTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: sequential,
    models: { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key-of-the-team-1' } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const result = await team.execute('go')
  const provider = new URL(server.baseURL).host
  const failure = {
    reason: 'auth',
    code: 'auth',
    agent: 'ann',
    provider,
    model: 'small',
    status: 401,
    retryable: false,
  }
  t.equal(result.error?.code, 'AGENT_FAILED')
  t.same(result.error?.modelFailure, failure)
  t.same(result.failures[0]?.error.modelFailure, failure)
  t.same(JSON.parse(JSON.stringify(result)).error.modelFailure, failure)
})

/** Of a run whose last agent is played by a model that throws, with as many agents of code before it. */
async function failureOf(t: Test, thrown: Error, depth = 0): Promise<DramatisError | null> {
  const model = new FakeModel(() => [thrown])
  const names = Array.from({ length: depth }, (_, i) => `asker${i}`)
  const asks = (next: string) =>
    defineAgent({ receive: async ({ content }, context) => (await context.request(next, content)).content })
  const modules = Object.fromEntries(names.map((name, i) => [name, asks(names[i + 1] ?? 'ann')]))
  const team = testTeam(
    {
      agents: [...names.map((name) => ({ name })), { name: 'ann', systemPrompt: 'Answer.' }],
      orchestration: { strategy: 'sequential', agentOrder: [names[0] ?? 'ann'] },
      logger: silent,
    },
    { model, modules },
  )
  t.teardown(() => team.close())
  return (await team.execute('go')).error
}

t.test('it is found below the failures of agents that have asked each other', async (t) => {
  const error = await failureOf(t, new ModelError('No.', { reason: 'filtered' }), 3)
  t.match(error, { code: 'AGENT_FAILED', modelFailure: { reason: 'filtered', agent: 'ann' } })
})

t.test(
  'a client of your own may name the reason; what it does not name, or in a word of its own, is other',
  async (t) => {
    for (const [thrown, reason] of [
      [new ModelError('No.', { reason: 'quota', retryable: false }), 'quota'],
      [new ModelError('No.', { reason: 'tired' }), 'other'],
      [new ModelError('No.'), 'other'],
      [new TypeError('oops'), 'other'],
    ] as const)
      t.match((await failureOf(t, thrown))?.modelFailure, { reason, agent: 'ann', retryable: false })
  },
)

t.test('of several agents that fail it is the first', async (t) => {
  const team = testTeam(
    {
      agents: [
        { name: 'ann', systemPrompt: 'Answer.' },
        { name: 'bob', systemPrompt: 'Answer.' },
      ],
      orchestration: { strategy: 'parallel' },
      logger: silent,
    },
    { model: new FakeModel(() => [new ModelError('No.', { reason: 'rate_limit', retryAfterMs: 5 })]) },
  )
  t.teardown(() => team.close())
  t.match((await team.execute('go')).error?.modelFailure, { reason: 'rate_limit', retryAfterMs: 5 })
})

t.test('an agent that throws by itself has no failure of a model', async (t) => {
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: sequential, logger: silent },
    {
      modules: {
        ann: defineAgent({
          receive() {
            throw new Error('oops')
          },
        }),
      },
    },
  )
  t.teardown(() => team.close())
  const { error } = await team.execute('go')
  t.equal(error?.code, 'AGENT_FAILED')
  t.equal(error?.modelFailure, undefined)
  t.notOk('modelFailure' in JSON.parse(JSON.stringify(error)))
})
