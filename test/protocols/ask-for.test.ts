/** Questions of a script whose answers have to fit a schema. */
import t from 'tap'
import { z } from 'zod'
import { jsonIn } from '../../src/actors/model/structured-output.ts'
import { type AgentMessage, defineAgent } from '../../src/index.ts'
import { askFor } from '../../src/protocols.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { stage } from '../team/stage.ts'

const schema = z.object({ side: z.enum(['left', 'right']), why: z.string().default('no reason') })

function asking(t: Tap, judge: (message: AgentMessage) => unknown) {
  const heard: AgentMessage[] = []
  const cast = {
    judge: defineAgent({
      receive(message) {
        heard.push(message)
        const said = judge(message)
        return typeof said === 'string' ? said : { structuredData: said }
      },
    }),
  }
  const team = stage(t, cast, { orchestration })
  return { team, heard }
}
type Tap = Parameters<typeof stage>[0]

const orchestration = {
  strategy: 'custom' as const,
  run: async (script: Parameters<typeof askFor>[0], query: string) => {
    const { value, message } = await askFor(script, 'judge', query, schema, { structuredData: { sides: 2 } })
    return `${message.sender}: ${JSON.stringify(value)}`
  },
}

t.test('an agent of code answers with data, or with JSON in its words', async (t) => {
  const says = [
    { side: 'left' },
    '{"side":"left"}',
    'I think:\n```json\n{"side":"left"}\n```',
    'So be it: {"side":"left"}',
  ]
  for (const said of says) {
    const { team, heard } = asking(t, () => said)
    t.equal((await team.execute('Which?')).finalOutput, 'judge: {"side":"left","why":"no reason"}')
    t.match(heard, [{ content: 'Which?', structuredData: { sides: 2 } }])
    t.match(heard[0]?.metadata, { answerSchema: { type: 'object', properties: { side: { enum: ['left', 'right'] } } } })
  }
})

t.test('an answer that misses the schema is sent back once, with what is wrong', async (t) => {
  const better = asking(t, ({ content }) => (content.includes('cannot be used') ? { side: 'right' } : { side: 'up' }))
  t.equal((await better.team.execute('Which?')).finalOutput, 'judge: {"side":"right","why":"no reason"}')
  t.match(better.heard[1]?.content, /^Which\?\n\nYour last answer cannot be used: side: .*left/)

  const hopeless = asking(t, () => 'left, I should say')
  const { error } = await hopeless.team.execute('Which?')
  t.match(error, { code: 'REPLY_INVALID', message: /"judge" cannot be used: it has no structured data/ })
  t.match(error?.details, { agent: 'judge', content: 'left, I should say' })
  t.equal(hopeless.heard.length, 2)
})

t.test('of many things that are wrong the first ones are told', async (t) => {
  const heard: string[] = []
  const judge = defineAgent({
    receive({ content }) {
      heard.push(content)
      return { structuredData: Array.from({ length: 200 }, () => 'x') }
    },
  })
  const run = async (script: Parameters<typeof askFor>[0]) =>
    String((await askFor(script, 'judge', 'Which?', z.array(z.number()))).value)
  const team = stage(t, { judge }, { orchestration: { strategy: 'custom', run } })
  const { error } = await team.execute('Which?')
  for (const text of [error?.message, heard[1]]) {
    t.match(text, /cannot be used: 0: .*; 9: .*; and 190 more\./)
    t.notMatch(text, '; 10: ')
  }
})

t.test('a model is asked in the schema, and answers with data', async (t) => {
  const model = scriptedModel([{ agent: 'judge', reply: { side: 'left', why: 'tradition' } }])
  const team = testTeam({ agents: [{ name: 'judge' }], orchestration }, { model })
  t.teardown(() => team.close())
  const result = await team.execute('Which?')
  t.equal(result.finalOutput, 'judge: {"side":"left","why":"tradition"}')
  t.match(result.agentOutputs.judge, [{ structuredData: { side: 'left', why: 'tradition' } }])
  model.assertDone()
})

t.test('JSON is all of a text, or in a fence, or behind prose up to its end; nothing else is', async (t) => {
  const cases: [text: string, value: unknown][] = [
    ['["a", "b"]', ['a', 'b']],
    ['Here [as you asked] it is:\n["a", "b"]', ['a', 'b']],
    ['```json\n["a"]\n``` as you asked', ['a']],
    ['["a"] is what I would do', undefined],
    ['It says "}" first: {"a": "]}", "b": ["\\""]}', { a: ']}', b: ['"'] }],
    ['[\n  {"x": 1},\n  {"x": 2}', undefined],
    ['{"a": 1}\n{"a": 2}', undefined],
    ['} then {"a": 1} ', { a: 1 }],
    ['one, two', undefined],
    ['[1, 2', undefined],
    ['Here: ```json ```\n["a"]\n```', ['a']],
    ['```JSON  \n\n["a"]\n```', ['a']],
    ['```js\nx\n``` and ```\n["a"]\n``` too', ['a']],
    ['````\n["a"]\n````', ['a']],
    [`${'['.repeat(2_000)}${']'.repeat(2_000)}`, undefined],
    ['['.repeat(100_000), undefined],
  ]
  for (const [text, value] of cases) t.same(jsonIn(text)?.value, value, text.slice(0, 40))
})

t.test('an agent asks another one, and its model is told what is wrong', async (t) => {
  const asker = defineAgent({
    receive: async ({ content }, context) => (await askFor(context, 'judge', content, schema)).value.why,
  })
  const model = scriptedModel([
    { agent: 'judge', when: /:\nWhich\?$/, reply: { side: 'up' } },
    { agent: 'judge', when: /cannot be used: side: .*left/, reply: { side: 'left' } },
  ])
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['asker' as const] }
  const team = testTeam(
    { agents: [{ name: 'asker' }, { name: 'judge' }], orchestration },
    { modules: { asker }, model },
  )
  t.teardown(() => team.close())
  t.equal((await team.execute('Which?')).finalOutput, 'no reason')
  model.assertDone()
})

t.test('what is no schema is refused, and named', async (t) => {
  for (const wrong of [undefined, {}, { type: 'object' }, z.object({ when: z.date() })]) {
    const run = async (script: Parameters<typeof askFor>[0]) =>
      String((await askFor(script, 'judge', 'Which?', wrong as typeof schema)).value)
    const team = stage(
      t,
      { judge: defineAgent({ receive: () => '{}' }) },
      { orchestration: { strategy: 'custom', run } },
    )
    const { error } = await team.execute('Which?')
    t.match(error, { message: /schema/ })
    t.match(JSON.stringify(error), /"path":"schema"/)
  }
})
