/** Thoughts that a model writes into its text are reasoning: nothing parses them, and nobody is given them. */
import fc from 'fast-check'
import t from 'tap'
import { z } from 'zod'
import type { ModelClient, ModelPiece } from '../../src/actors/definition/model.ts'
import { collect, nothingYet } from '../../src/runtime/providers/collect.ts'
import { Thoughts } from '../../src/runtime/verbs/gateway.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../kit/team.ts'
import { request } from '../runtime/models/asking.ts'

const saying = (texts: readonly string[]): ModelClient => ({
  async *complete(): AsyncGenerator<ModelPiece> {
    for (const text of texts) yield { text }
    yield { finishReason: 'stop' }
  },
})

async function read(texts: readonly string[], thinks = false) {
  const into = nothingYet()
  let found = 0
  const heard: string[] = []
  await collect(
    saying(texts),
    request({ stream: true }),
    into,
    (part) => void heard.push(part.part === 'restart' ? '<>' : part.text),
    new Thoughts({ thinks, found: () => void found++ }),
  )
  const reasoning = into.parts.flatMap(({ type, text }) => (type === 'reasoning' ? [text] : [])).join('')
  return { text: into.text, reasoning, found, heard }
}

const cases: { said: string; text: string; reasoning: string; thinks?: boolean }[] = [
  { said: 'Four.', text: 'Four.', reasoning: '' },
  { said: '<think>two and two</think>Four.', text: 'Four.', reasoning: 'two and two' },
  { said: '\n <think>\ntwo\n</think>\n\nFour.', text: 'Four.', reasoning: '\ntwo\n' },
  { said: '<think></think>Four.', text: 'Four.', reasoning: '' },
  { said: '<think>without an end', text: '', reasoning: 'without an end' },
  { said: 'two and two</think>Four.', text: 'Four.', reasoning: 'two and two' },
  { said: 'a</think>b</think>c', text: 'b</think>c', reasoning: 'a' },
  { said: '<think>a</think>b</think>c', text: 'b</think>c', reasoning: 'a' },
  { said: 'see ```\n</think>\n``` there', text: 'see ```\n</think>\n``` there', reasoning: '' },
  { said: 'Write <think>so</think> first.', text: 'Write <think>so</think> first.', reasoning: '' },
  { said: 'a ```x``` b</think>Four.', text: 'Four.', reasoning: 'a ```x``` b' },
  { said: '<thin air>', text: '<thin air>', reasoning: '' },
  { said: '  Four.', text: '  Four.', reasoning: '' },
  { said: 'two</think>Four.', text: 'Four.', reasoning: 'two', thinks: true },
  { said: 'no tag at all', text: 'no tag at all', reasoning: '', thinks: true },
  { said: '<think>two</think>Four.', text: 'Four.', reasoning: 'two', thinks: true },
]

t.test('thoughts at the start of an answer are reasoning, wherever a stream cuts them', async (t) => {
  for (const { said, text, reasoning, thinks = false } of cases)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(said.length), { maxLength: 8 }), async (cuts) => {
        const ends = [...cuts, said.length].sort((a, b) => a - b)
        const texts = ends.map((end, i) => said.slice(ends[i - 1] ?? 0, end))
        const answer = await read(texts, thinks)
        t.same([answer.text, answer.reasoning], [text, reasoning], JSON.stringify(texts))
      }),
      { numRuns: 20 },
    )
})

t.test('the words of a model that thinks are held until the tag; of others they are taken back once', async (t) => {
  const texts = ['two ', 'and two', '</think>', 'Four', '.']
  t.same((await read(texts, true)).heard, ['two and two', 'Four', '.'])
  t.same(await read(texts), {
    text: 'Four.',
    reasoning: 'two and two',
    found: 1,
    heard: ['two ', 'and two', '<>', 'two and two', 'Four', '.'],
  })
})

t.test('an answer in a schema is read behind the thoughts, and the second such answer is held', async (t) => {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const thought = 'Perhaps\n```json\n{"celsius":-99}\n```\n'
  const output = z.object({ celsius: z.number() })
  for (const text of [`<think>${thought}</think>{"celsius":4}`, `${thought}</think>{"celsius":4}`]) {
    server.answer(text)
    t.same((await team.execute('How warm?', { output })).data, { celsius: 4 })
  }
  t.equal(server.calls.length, 2, 'neither was asked for again')
  server.answer({ text: ['Hm', 'm.</think>', 'Warm.'] })
  const run = team.launch('How warm?', { stream: true })
  let said = ''
  for await (const text of run.text()) said += text
  t.equal(said, 'Warm.')
})

t.test('a model that is said to think is held from its first answer on', async (t) => {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: { model: 'small', baseURL: server.baseURL, thinks: true } },
    logger: silent,
  })
  t.teardown(() => team.close())
  server.answer({ text: ['Hm', 'm.</think>', 'Warm.'] })
  const run = team.launch('How warm?', { stream: true })
  let said = ''
  for await (const text of run.text()) said += text
  t.equal(said, 'Warm.')
  t.equal((await run.result).finalOutput, 'Warm.')
})
