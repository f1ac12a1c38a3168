/** `context.complete`: one call of a model. */
import t from 'tap'
import { z } from 'zod'
import type { CompletionRequest } from '../../src/actors/definition/model.ts'
import { USAGE } from './fake-model.ts'
import { played } from './teams.ts'

const Point = z.object({ x: z.number(), y: z.number() })

t.test('an answer has its text, its usage and why it has ended', async (t) => {
  const { value, model } = await played(t, [[{ text: 'two ' }, { text: 'words' }]], (context) =>
    context.complete({ prompt: 'Say two words.', temperature: 0.5, maxOutputTokens: 9 }),
  )
  t.same(value, { text: 'two words', output: undefined, usage: USAGE, finishReason: 'stop', rehearsed: false })
  t.match(model.requests[0], {
    model: 'default',
    agent: 'ann',
    temperature: 0.5,
    maxOutputTokens: 9,
    messages: [{ role: 'user', content: 'Say two words.' }],
  })
})

t.test('a prompt is said in the role; messages are said as they are', async (t) => {
  const role = { systemPrompt: 'Be brief.', model: 'default', temperature: 1, maxOutputTokens: 7 }
  const ask = async (request: CompletionRequest) =>
    (await played(t, ['ok'], (context) => context.complete(request), { role })).model.requests[0]
  t.match(await ask({ prompt: 'hi' }), {
    temperature: 1,
    maxOutputTokens: 7,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
    ],
  })
  t.strictSame((await ask({ messages: [{ role: 'user', content: 'hi' }] }))?.messages, [
    { role: 'user', content: 'hi' },
  ])
})

t.test('why an answer has ended reaches the caller', async (t) => {
  for (const finishReason of ['length', 'content_filter'] as const) {
    const { value } = await played(t, [[{ text: 'half' }, { finishReason }]], (context) =>
      context.complete({ prompt: 'go' }),
    )
    t.match(value, { text: 'half', finishReason })
  }
})

t.test('an answer by a schema is parsed and checked, also out of a code fence', async (t) => {
  for (const text of ['{"x":1,"y":2}', 'Here it is:\n```json\n{"x":1,"y":2}\n```\nDone.']) {
    const { value, model } = await played(t, [text], (context) => context.complete({ prompt: 'where?', output: Point }))
    t.match(value, { text, output: { x: 1, y: 2 } })
    t.match(model.requests[0]?.jsonSchema, { type: 'object', required: ['x', 'y'] })
  }
})

t.test('an answer that misses its schema is asked for once more, with what is wrong', async (t) => {
  const { value, model } = await played(t, ['{"x":1}', '{"x":1,"y":2}'], (context) =>
    context.complete({ prompt: 'where?', output: Point }),
  )
  t.match(value, { output: { x: 1, y: 2 }, usage: { totalTokens: 30, calls: 2 } })
  t.match(model.requests[1]?.messages, [
    { role: 'user', content: 'where?' },
    { role: 'assistant', content: '{"x":1}' },
    { role: 'user', content: /y: .*Answer again, with JSON alone/ },
  ])
})

t.test('the second answer that misses it is a ModelError', async (t) => {
  const { error, model } = await played(t, ['no', [{ text: '{"x":' }, { finishReason: 'length' }]], (context) =>
    context.complete({ prompt: 'where?', output: Point }),
  )
  t.match(error, {
    code: 'MODEL',
    message: /twice.*cut off before its end \(maxOutputTokens\)/,
    details: { agent: 'ann' },
  })
  t.equal(model.requests.length, 2)
})

t.test('a model that calls a tool though it has none is a ModelError', async (t) => {
  const { error } = await played(t, [[{ toolCall: { id: '1', name: 'search', input: '{}' } }]], (context) =>
    context.complete({ prompt: 'go' }),
  )
  t.match(error, { code: 'MODEL', message: /called the tool "search".*context\.think/ })
})

t.test('with stream: true the pieces are emitted as they come', async (t) => {
  const { events } = await played(t, [[{ text: 'a' }, { text: '' }, { text: 'b' }]], (context) =>
    context.complete({ prompt: 'go', stream: true }),
  )
  const chunks = events.flatMap((event) => (event.type === 'output.delta' ? [event] : []))
  t.match(chunks, [
    { agent: 'ann', chunk: 'a', final: false },
    { agent: 'ann', chunk: 'b' },
  ])
  t.equal(chunks.length, 2)
})

t.test('a wrong request is refused by the field, and no model is asked', async (t) => {
  const wrong: [request: unknown, path: string][] = [
    [undefined, 'request'],
    ['hi', 'request'],
    [{}, 'prompt'],
    [{ prompt: 1 }, 'prompt'],
    [{ prompt: 'a', messages: [{ role: 'user', content: 'b' }] }, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'boss', content: 'b' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ prompt: 'a', model: '' }, 'model'],
    [{ prompt: 'a', output: {} }, 'output'],
    [{ prompt: 'a', output: z.custom(() => true) }, 'output'],
    [{ prompt: 'a', temperature: 3 }, 'temperature'],
    [{ prompt: 'a', maxOutputTokens: 0 }, 'maxOutputTokens'],
    [{ prompt: 'a', stream: 'yes' }, 'stream'],
    [{ prompt: 'a', signal: {} }, 'signal'],
    [{ prompt: 'a', tools: [] }, 'tools'],
  ]
  for (const [request, path] of wrong) {
    const { error, model } = await played(t, [], (context) => context.complete(request as CompletionRequest))
    t.match(error, { code: 'MESSAGE_REJECTED', details: { path } }, path)
    t.equal(model.requests.length, 0)
  }
})

t.test('a model that the team does not have is named, with those that it has', async (t) => {
  const { error } = await played(t, [], (context) => context.complete({ prompt: 'a', model: 'huge' }))
  t.match(error, { code: 'CONFIGURATION', message: /no model of this team is named "huge"; there are default/ })
})
