/** The answer of a run by a schema of its caller. */
import t from 'tap'
import { z } from 'zod'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import type { Answers } from './fake-model.ts'
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
    const { team, model } = modelTeam(t, () => JSON_TEXT, pair, { orchestration })
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
