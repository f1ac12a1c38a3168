/** Which models a rehearsal asks: none that cost money, unless that is wanted. */
import t from 'tap'
import type { ModelClient } from '../../../src/actors/definition/model.ts'
import { type AgentContext, defineAgent, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { rehearse, scriptedModel } from '../../../src/testing.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { silent } from '../../kit/team.ts'

const agents = [{ name: 'ann' }, { name: 'bob', model: 'other' }, { name: 'cat', model: 'huge' }]
const orchestration = { strategy: 'sequential' } as const
const plan = { query: 'REST or GraphQL?', seeds: 5, faults: ['crash', 'delay'] } as const

t.test('nobody is asked but the rehearsal model, whatever models the team has', async (t) => {
  const server = await modelServer(t)
  const { baseURL } = server
  let keys = 0
  const apiKey = () => {
    keys += 1
    return 'secret'
  }
  const asks = defineAgent({
    receive: async ({ content }, context) => (await context.think({ prompt: content, model: 'other' })).text,
  })
  const script = async (run: AgentContext, query: string) => {
    const said = [await run.complete({ prompt: query, model: 'own' })]
    said.push(await run.complete({ prompt: query, model: 'careful' }))
    for (const name of ['ann', 'bob', 'cat', 'dan'])
      said.push({ ...said[0]!, text: (await run.request(name, query)).content })
    return said.map(({ text }) => text).join('\n')
  }
  let calls = 0
  const own: ModelClient = {
    async *complete() {
      calls += 1
      yield { text: 'Mine.' }
    },
  }
  const options: MultiAgentPatternOptions = {
    agents: [...agents, { name: 'dan' }],
    orchestration: { strategy: 'custom', run: script },
    models: {
      default: { model: 'large', baseURL, apiKey },
      other: { model: 'small', baseURL, apiKeyEnv: 'A_VARIABLE_THAT_NOBODY_SETS' },
      own,
      careful: { client: own, temperature: 0.1 },
    },
    logger: silent,
  }
  const answers: string[] = []
  const { outcomes, standsInFor } = await rehearse(options, {
    ...plan,
    modules: { dan: asks },
    check: (outcome) => void answers.push(outcome.ok ? outcome.message.content : outcome.error.message),
  })
  t.match(outcomes, { done: 5 }, answers.join('\n'))
  t.same(standsInFor, ['default', 'other', 'own', 'careful'])
  t.ok(answers.every((answer) => answer.split('\n').every((line) => line.startsWith('[rehearsal]'))))
  t.same([server.calls.length, keys, calls], [0, 0, 0])
})

t.test('the model of the environment is not asked either', async (t) => {
  const server = await modelServer(t)
  const before = { ...process.env }
  Object.assign(process.env, { OPENAI_API_KEY: 'key', OPENAI_BASE_URL: server.baseURL, DRAMATIS_MODEL: 'large' })
  t.teardown(() => {
    for (const name of ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'DRAMATIS_MODEL'])
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
  })
  const { outcomes, standsInFor } = await rehearse({ agents: [{ name: 'ann' }], orchestration }, plan)
  t.match(outcomes, { done: 5 })
  t.same(standsInFor, ['default'])
  t.equal(server.calls.length, 0)
})

t.test('a name that no model has is refused as in life', async (t) => {
  const own: ModelClient = { async *complete() {} }
  const wrong = { agents: [{ name: 'ann', model: 'ownn' }], orchestration, models: { own } }
  await t.rejects(rehearse(wrong, plan), { code: 'CONFIGURATION', message: /no model of this team is named "ownn"/ })
})

t.test(
  "realModels asks the team's own models; what they take is no time of the run, and their pauses are",
  async (t) => {
    const server = await modelServer(t)
    let failures = 1
    server.always(() => (failures-- > 0 ? { status: 429, headers: { 'retry-after': '3' } } : 'Certainly.'))
    const answers: string[] = []
    const tookMs: number[] = []
    const options = {
      agents: [{ name: 'ann' }],
      orchestration,
      models: { default: { model: 'large', baseURL: server.baseURL, apiKey: 'key' } },
    }
    const {
      outcomes,
      standsInFor,
      failures: failed,
    } = await rehearse(options, {
      query: 'go',
      seeds: 3,
      realModels: true,
      check: (outcome) => {
        answers.push(outcome.ok ? outcome.message.content : outcome.error.message)
        if (outcome.ok) tookMs.push(outcome.message.sentAt - Date.UTC(2025, 0, 1))
      },
    })
    t.ok(tookMs[0]! >= 3_000)
    t.same(tookMs.slice(1), [0, 0])
    t.same([outcomes.done, standsInFor, failed], [3, [], []], answers.join('\n'))
    t.same(answers, Array(3).fill('Certainly.'))
    t.equal(server.calls.length, 4)
  },
)

t.test('a line that plays a failure again asks the same models', async (t) => {
  const server = await modelServer(t)
  server.always('Certainly.')
  const { failures } = await rehearse(
    {
      agents: [{ name: 'ann' }],
      orchestration,
      models: { default: { model: 'large', baseURL: server.baseURL, apiKey: 'key' } },
    },
    {
      query: 'go',
      seeds: 1,
      realModels: true,
      check() {
        throw new Error('no')
      },
    },
  )
  t.equal(failures[0]?.replay, 'await rehearse(options, {"query":"go","seeds":[1],"realModels":true})')
})

t.test('a model that asks nobody stays in its place', async (t) => {
  const answers: string[] = []
  const check = (outcome: { ok: boolean; message?: { content: string } }) =>
    void answers.push(outcome.message?.content ?? '')
  const make = () => ({
    agents: [{ name: 'ann' }],
    orchestration,
    models: { default: scriptedModel([{ fail: 'rate_limit' }, { reply: 'As written.', delayMs: 5_000 }]) },
  })
  const { outcomes, standsInFor } = await rehearse(make, { query: 'go', seeds: 3, check })
  t.same([outcomes.done, standsInFor], [3, []])
  t.same(answers, Array(3).fill('As written.'))
})
