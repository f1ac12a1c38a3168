/** Content of more than text: images, sounds, files, and reasoning that goes back with the results of tools. */
import t from 'tap'
import { z } from 'zod'
import type { ContentPart } from '../../src/actors/definition/content.ts'
import { defineTool } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../kit/team.ts'
import { clientOf, piecesOf } from '../runtime/models/asking.ts'
import { played } from './teams.ts'

const PIXEL = 'iVBORw0KGgo='

t.test('parts of a user reach a provider as chat completions have them', async (t) => {
  const server = await modelServer(t)
  server.always('Done.')
  const content: ContentPart[] = [
    { type: 'text', text: 'What is this?' },
    { type: 'image', data: 'https://pictures.example/one.png' },
    { type: 'image', data: `data:image/png;base64,${PIXEL}` },
    { type: 'audio', data: Buffer.from('sound'), mediaType: 'audio/mpeg' },
    { type: 'file', data: 'cGRm', mediaType: 'application/pdf', name: 'one.pdf' },
  ]
  await piecesOf(clientOf(server), { messages: [{ role: 'user', content }] })
  t.strictSame(server.calls[0]!.body.messages, [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: 'https://pictures.example/one.png' } },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
        { type: 'input_audio', input_audio: { data: 'c291bmQ=', format: 'mp3' } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,cGRm', filename: 'one.pdf' } },
      ],
    },
  ])
})

t.test('what chat completions cannot carry is an error before anything is sent', async (t) => {
  const server = await modelServer(t)
  for (const part of [
    { type: 'file', data: 'https://papers.example/one.pdf' },
    { type: 'audio', data: 'AAAA', mediaType: 'audio/ogg' },
  ] as const)
    await t.rejects(piecesOf(clientOf(server), { messages: [{ role: 'user', content: [part] }] }), {
      code: 'MODEL',
      details: { reason: 'rejected', retryable: false },
    })
  t.equal(server.calls.length, 0)
})

t.test('bytes that code gives to a model cross to the host as a data URL', async (t) => {
  const content: ContentPart[] = [{ type: 'image', data: Buffer.from(PIXEL, 'base64'), mediaType: 'image/png' }]
  const { model, error } = await played(t, ['a dot'], (context) =>
    context.complete({ messages: [{ role: 'user', content }] }),
  )
  t.equal(error, undefined)
  t.same(model.requests[0]!.messages[0]!.content, [
    { type: 'image', data: `data:image/png;base64,${PIXEL}`, mediaType: 'image/png' },
  ])
})

const wrong: [content: unknown, path: string][] = [
  [7, 'content'],
  [[], 'content'],
  [['a'], 'content[0]'],
  [[{ type: 'video', data: 'AAAA' }], 'content[0].type'],
  [[{ type: 'text' }], 'content[0].text'],
  [[{ type: 'image' }], 'content[0].data'],
  [[{ type: 'image', data: '' }], 'content[0].data'],
  [[{ type: 'image', data: 'no base64!' }], 'content[0].data'],
  [[{ type: 'image', data: 'data:image/png,raw' }], 'content[0].data'],
  [[{ type: 'image', data: 'AAAA' }], 'content[0].mediaType'],
  [[{ type: 'image', data: new Uint8Array(3) }], 'content[0].mediaType'],
  [[{ type: 'image', data: 'AAAA', mediaType: 'png' }], 'content[0].mediaType'],
  [[{ type: 'file', data: 'AAAA', mediaType: 'text/plain', name: 3 }], 'content[0].name'],
]

t.test('a wrong part is refused by its place, and no model is asked', async (t) => {
  for (const [content, path] of wrong) {
    const { error, model } = await played(t, [], (context) =>
      context.complete({ messages: [{ role: 'user', content: content as string }] }),
    )
    t.match(error, { code: 'MESSAGE_REJECTED', details: { path: `messages[0].${path}` } }, path)
    t.equal(model.requests.length, 0)
  }
})

const look = defineTool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' })
const SIGNED = { local: { signature: 'c2lnbmVk' } }

t.test('reasoning goes back unchanged with the results of its tools, and is gone in the next turn', async (t) => {
  const answers = [
    [
      { reasoning: 'First ', block: 'r1' },
      { reasoning: 'look.', block: 'r1' },
      { reasoning: '', block: 'r1', providerData: SIGNED },
      { text: 'I look.' },
      { toolCall: { id: 'c1', name: 'look', input: '{}', providerData: SIGNED } },
    ],
    [{ reasoning: 'Now I know.' }, { text: 'Seen.' }],
    [{ text: 'Seen before.' }],
  ]
  const requests: unknown[] = []
  const model = {
    offline: true,
    async *complete({ messages }: { messages: unknown[] }) {
      yield* answers[requests.push(messages) - 1]!
    },
  }
  const team = testTeam(
    {
      agents: [{ name: 'ann', systemPrompt: 'Look.', tools: [look] }],
      orchestration: { strategy: 'sequential' },
      logger: silent,
    },
    { model },
  )
  t.teardown(() => team.close())
  const options = { threadId: 'one' }
  t.equal((await team.execute('What is there?', options)).finalOutput, 'Seen.')
  t.match((requests[1] as object[]).slice(-2), [
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'First look.', providerData: SIGNED },
        { type: 'text', text: 'I look.' },
      ],
      toolCalls: [{ id: 'c1', providerData: SIGNED }],
    },
    { role: 'tool', toolCallId: 'c1' },
  ])
  await team.execute('And now?', options)
  const last = JSON.stringify(requests[2])
  t.notMatch(last, /First look|Now I know/)
  t.match(last, /"toolCalls":\[\{"id":"c1","name":"look","input":"\{\}","providerData"/, 'a call keeps its data')
})

t.test('the reasoning of a server comes apart from its text, and goes back under the name that it has', async (t) => {
  for (const field of ['reasoning_content', 'reasoning']) {
    const server = await modelServer(t)
    const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }
    const message = { role: 'assistant', content: null, [field]: 'I have to look.', tool_calls: [call] }
    server.answer({ body: { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] } })
    server.answer({ text: 'Seen.' })
    const team = testTeam({
      agents: [{ name: 'ann', systemPrompt: 'Look.', tools: [look] }],
      orchestration: { strategy: 'sequential' },
      models: { default: { model: 'm', baseURL: server.baseURL, apiKey: 'none' } },
      logger: silent,
    })
    t.teardown(() => team.close())
    t.equal((await team.execute('q')).finalOutput, 'Seen.')
    const back = server.calls[1]!.body.messages.find(({ role }) => role === 'assistant')
    t.match(back, { role: 'assistant', content: null, [field]: 'I have to look.' })
  }
})

t.test('code sees the reasoning of an answer beside its text', async (t) => {
  const { value } = await played(t, [], (context) => context.complete({ prompt: 'a' }), {
    models: {
      default: {
        offline: true,
        async *complete() {
          yield { reasoning: 'Hm.' }
          yield { text: 'Yes.' }
        },
      },
    },
  })
  t.match(value, { text: 'Yes.', reasoning: 'Hm.' })
})

t.test('wrong reasoning of a client is an error of the model', async (t) => {
  for (const piece of [{ reasoning: 7 }, { reasoning: 'a', block: 7 }, { text: 'a', providerData: { x: 1 } }]) {
    const models = {
      default: {
        offline: true,
        async *complete() {
          yield piece as object
        },
      },
    }
    const { error } = await played(t, [], (context) => context.complete({ prompt: 'a' }), { models })
    t.match(error, { code: 'MODEL', details: { reason: 'invalid_answer' } })
  }
})
