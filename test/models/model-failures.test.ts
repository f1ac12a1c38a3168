/** Why a model gave no answer, as its caller reads it: however deep it lies, over threads, and in JSON. */
import t from 'tap'
import { z } from 'zod'
import { type DramatisError, defineAgent, defineTool, ModelError } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../kit/team.ts'
import { FakeModel } from './fake-model.ts'
import { ThreadTeam } from './teams.ts'

type Test = Pick<typeof t, 'teardown'>

const add = defineTool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number() }),
  run: ({ a }) => `${a}`,
})

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

t.test('a provider that wants to be left alone for longer than the run has is not asked again', async (t) => {
  const server = await modelServer(t)
  const team = new ThreadTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: sequential,
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const tomorrow = Date.now() + 86_400_000
  const waits: Record<string, string>[] = [
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': `${tomorrow}` },
    { 'retry-after': `${Math.ceil(tomorrow / 1_000)}` },
    { 'retry-after': '45' },
  ]
  for (const headers of waits) {
    const before = server.calls.length
    server.answer({ status: 429, headers })
    const { error } = await team.execute('go', { timeoutMs: 40_000 })
    t.match(error?.modelFailure, { reason: 'rate_limit' })
    t.ok(error!.modelFailure!.retryAfterMs! > 40_000, 'its time is told')
    t.ok(server.calls.length <= before + 1)
  }
  t.equal(server.calls.length, 1, 'those that come meanwhile fail without a call')
})

t.test('history goes back in a form that strict servers take', async (t) => {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.', tools: [add] }],
    orchestration: sequential,
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const inputs = ['', '{"a":1', 'null', '[]', '{"a":NaN}', '```json\n{"a":1}\n```', '"{\\"a\\":1}"', '7', '{"a":1}']
  for (const input of inputs) {
    server.answer({ toolCalls: [{ name: 'add', input }] }, 'Done.')
    await team.execute('go')
    const messages = server.calls.at(-1)!.body.messages as { tool_calls?: { function: { arguments: string } }[] }[]
    const [call] = messages.flatMap(({ tool_calls: calls = [] }) => calls)
    const given: unknown = JSON.parse(call!.function.arguments)
    t.ok(typeof given === 'object' && given !== null && !Array.isArray(given), `${input} goes back as an object`)
  }
  server.answer('', '', 'Done.')
  for (const threadId of ['t1', 't1', 't1']) await team.execute('go', { threadId })
  const said = server.calls.at(-1)!.body.messages.filter(({ role }) => role === 'assistant')
  t.same(said, [], 'nothing was said, so nothing goes back')
})
