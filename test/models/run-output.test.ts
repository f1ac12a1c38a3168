/** The answer of a run by a schema of its caller. */
import t from 'tap'
import { z } from 'zod'
import { createTeam } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { askFor } from '../../src/protocols.ts'
import { type Answers, calls } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const output = z.object({ x: z.string().transform(Number) })
const pair = [{ name: 'ann' }, { name: 'bob' }]
const JSON_TEXT = '{"x":"5"}'

t.test('the last speaker answers in the schema of the run, and nobody else', async (t) => {
  const answers: Answers = ({ agent }) => (agent === 'bob' ? JSON_TEXT : 'in words')
  const { team, model } = modelTeam(t, answers, pair)
  const result = await team.execute('go', { output })
  t.match(result, { success: true, data: { x: 5 }, finalOutput: JSON_TEXT })
  t.same(result.agentOutputs.bob, [{ content: JSON_TEXT, structuredData: { x: '5' } }])
  const schemas = model.requests.map(({ agent, jsonSchema }) => [agent, jsonSchema !== undefined])
  t.same(schemas, [
    ['ann', false],
    ['bob', true],
  ])
})

t.test('an answer that misses it is asked for once more, with what is wrong', async (t) => {
  const { team, model } = modelTeam(t, ['{"x":5}', JSON_TEXT], [{ name: 'ann' }])
  t.match(await team.execute('go', { output }), { data: { x: 5 } })
  t.match(model.requests[1]?.messages.at(-1)?.content, /misses the JSON schema.*x: .*string/)
  const { team: hopeless } = modelTeam(t, () => 'words', [{ name: 'ann' }])
  t.match((await hopeless.execute('go', { output })).error, { code: 'AGENT_FAILED', message: /ModelError.*twice/ })
})

t.test('each strategy knows who speaks last', async (t) => {
  const strategies: [orchestration: OrchestrationConfig, last: string[]][] = [
    [{ strategy: 'parallel', agents: ['ann'] }, ['ann']],
    [{ strategy: 'parallel', agents: ['ann'], aggregationStrategy: 'custom', aggregator: 'bob' }, ['bob']],
    [{ strategy: 'parallel', aggregationStrategy: 'vote' }, ['ann', 'bob']],
    [{ strategy: 'blackboard', agents: ['ann'], synthesizer: 'bob' }, ['bob']],
    [
      {
        strategy: 'custom',
        async run(script, query) {
          await script.request('ann', query)
          return (await script.request('bob', query, { metadata: { lastSpeaker: true } })).content
        },
      },
      ['bob'],
    ],
  ]
  for (const [orchestration, last] of strategies) {
    const publishes = calls(['publish', { key: 'x', value: 5, entryType: 'fact' }])
    const answers: Answers = ({ tools = [], messages }) =>
      tools.some(({ name }) => name === 'publish') && messages.at(-1)?.role === 'user' ? publishes : JSON_TEXT
    const { team, model } = modelTeam(t, answers, pair, { orchestration })
    t.match(await team.execute('go', { output }), { data: { x: 5 } }, orchestration.strategy)
    const asked = model.requests.flatMap(({ agent, jsonSchema }) => (jsonSchema ? [agent] : []))
    t.same(asked.sort(), last)
  }
})

t.test('an agent that is run alone speaks last', async (t) => {
  const { team, model } = modelTeam(t, [JSON_TEXT], [{ name: 'ann' }])
  t.equal(await team.getAgent('ann')?.run('go', { output: output as never }), JSON_TEXT)
  t.ok(model.requests[0]?.jsonSchema)
})

t.test('the text of an answer may be JSON that fits the schema', async (t) => {
  const orchestration: OrchestrationConfig = { strategy: 'custom', run: async () => `\`\`\`json\n${JSON_TEXT}\n\`\`\`` }
  const { team } = modelTeam(t, [], pair, { orchestration })
  t.match(await team.execute('go', { output }), { data: { x: 5 } })
  t.match(await team.execute('go', { output: z.string() }), { data: /^```json/ })
})

t.test('the output of a team is that of each run which brings none of its own', async (t) => {
  for (const ofTeam of [output, { type: 'object', properties: { x: { type: 'string' } }, required: ['x'] }]) {
    const { team, model } = modelTeam(t, () => JSON_TEXT, [{ name: 'ann' }], { output: ofTeam })
    t.match(await team.execute<unknown>('go'), { success: true, data: { x: ofTeam === output ? 5 : '5' } })
    t.match(await team.execute('go', { output: z.object({ x: z.literal('5') }) }), { data: { x: '5' } })
    const { team: wordy } = modelTeam(t, () => 'words', [{ name: 'ann' }], { output: ofTeam })
    t.match(await wordy.execute('go'), { success: false })
    t.equal(await wordy.getAgent('ann')?.run('go'), 'words', 'an agent alone is no run of the team')
    t.ok(model.requests.every(({ jsonSchema }) => jsonSchema))
  }
})

t.test('the output of a role is asked of it, whoever asks, unless a request brings its own', async (t) => {
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    async run(script) {
      const { structuredData } = await script.request('ann', 'in the schema of the role')
      const { value } = await askFor(script, 'ann', 'in another one', z.object({ y: z.number() }))
      return JSON.stringify([structuredData, value])
    },
  }
  const answers: Answers = ({ jsonSchema }) => (JSON.stringify(jsonSchema).includes('"y"') ? '{"y":1}' : JSON_TEXT)
  const { team } = modelTeam(t, answers, [{ name: 'ann', output }, { name: 'bob' }], { orchestration })
  t.match(await team.execute('go'), { finalOutput: '[{"x":"5"},{"y":1}]', data: undefined })
})

t.test('an answer that misses the output of its role is asked for once more, then its turn fails', async (t) => {
  const { team, model } = modelTeam(t, ['{"x":5}', JSON_TEXT, 'words', 'words'], [{ name: 'ann', output }])
  t.match(await team.execute('go'), { success: true })
  t.match(model.requests[1]?.messages.at(-1)?.content, /misses the JSON schema.*x: .*string/)
  t.match((await team.execute('go')).error, { code: 'AGENT_FAILED', message: /ModelError.*twice/ })
})

t.test('a run without a schema has its data from the role that speaks last', async (t) => {
  const answers: Answers = ({ agent, jsonSchema }) => (jsonSchema && agent === 'bob' ? JSON_TEXT : 'in words')
  const { team } = modelTeam(t, answers, [{ name: 'ann' }, { name: 'bob', output }])
  t.match(await team.execute<unknown>('go'), { finalOutput: JSON_TEXT, data: { x: 5 } })
  t.match(
    await team.execute('go', { output: z.object({ x: z.string() }) }),
    { data: { x: '5' } },
    'that of the run first',
  )
  const { team: other } = modelTeam(t, ({ agent }) => (agent === 'ann' ? JSON_TEXT : 'in words'), [
    { name: 'ann', output },
    { name: 'bob' },
  ])
  t.match(await other.execute('go'), { finalOutput: 'in words', data: undefined })
})

t.test('an output that no model can be asked in is refused', (t) => {
  const wrong: [options: object, path: string][] = [
    [{ output: 'x' }, 'output'],
    [{ output: { type: 'nonsense' } }, 'output'],
    [{ output: z.date() }, 'output'],
    [{ agents: [{ name: 'ann', output: 5 }] }, 'agents[0].output'],
    [{ agents: [{ name: 'ann', module: new URL('file:///a.js'), output }] }, 'agents[0].output'],
  ]
  const orchestration = { strategy: 'sequential' } as const
  for (const [options, path] of wrong)
    t.throws(() => createTeam({ agents: [{ name: 'ann' }], orchestration, ...options }), {
      code: 'CONFIGURATION',
      details: { path },
    })
  t.end()
})
