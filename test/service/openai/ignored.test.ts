/** The header `x-dramatis-ignored` names each field of a request that changes nothing, and no other. */
import t from 'tap'
import { defineAgent } from '../../../src/index.ts'
import { echo, stage } from '../http/stage.ts'

const hi = { role: 'user', content: 'hi' }
const image = { type: 'image_url', image_url: { url: 'https://host.example/a.png', detail: 'low' } }
const schema = { type: 'object', properties: {} }

const chats: [fields: object, ignored: string | null][] = [
  [{}, null],
  [{ temperature: 0, seed: 1, user: null, stop: [] }, 'temperature, seed'],
  [{ response_format: { type: 'text' }, n: 1, tool_choice: 'auto', stream: false }, null],
  [{ response_format: { type: 'json_object' } }, 'response_format'],
  [{ response_format: { type: 'json_schema' } }, 'response_format'],
  [{ tool_choice: 'none', tools: [{ type: 'function' }] }, 'tools, tool_choice'],
  [{ stream_options: { include_usage: true, include_obfuscation: true } }, 'stream_options.include_obfuscation'],
  [{ messages: [{ ...hi, name: 'ann' }] }, 'messages.name'],
  [
    { messages: [hi, { role: 'assistant', content: 'ho', refusal: null, annotations: [], audio: { id: 'a' } }, hi] },
    'messages.audio, messages',
  ],
  [
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: {} }, image] }] },
    'messages.content.cache_control, messages.content.image_url.detail',
  ],
]

const ofCode = { module: 'worker' }

t.test('of a chat', async (t) => {
  const { send } = stage(t, echo(), {}, ofCode)
  for (const [fields, ignored] of chats) {
    const { status, headers } = await send('POST', '/v1/chat/completions', {
      body: { model: 'desk', messages: [hi], ...fields },
    })
    t.same([status, headers.get('x-dramatis-ignored')], [200, ignored], JSON.stringify(fields))
  }
})

const responses: [fields: object, ignored: string | null][] = [
  [{}, null],
  [{ text: { format: { type: 'text' }, verbosity: 'low' } }, 'text.verbosity'],
  [{ text: { format: { type: 'json_object' } } }, 'text.format'],
  [{ tool_choice: 'none', metadata: { a: 'b' }, reasoning: null }, 'metadata, tool_choice'],
  [{ input: [{ id: 'm', status: 'completed', ...hi, phase: 'commentary' }] }, 'input.phase'],
  [
    { input: [hi, { role: 'assistant', content: [{ type: 'output_text', text: 'ho', annotations: [] }] }, hi] },
    'input',
  ],
]

t.test('of a response', async (t) => {
  const { send } = stage(t, echo(), {}, ofCode)
  for (const [fields, ignored] of responses) {
    const { status, headers } = await send('POST', '/v1/responses', { body: { model: 'desk', input: 'hi', ...fields } })
    t.same([status, headers.get('x-dramatis-ignored')], [200, ignored], JSON.stringify(fields))
  }
})

t.test('a schema that binds the answer is not ignored', async (t) => {
  const { send } = stage(t, defineAgent({ receive: async () => '{}' }))
  const format = { type: 'json_schema', json_schema: { name: 'a', schema } }
  const body = { model: 'desk', messages: [hi], response_format: format }
  const { status, headers } = await send('POST', '/v1/chat/completions', { body })
  t.same([status, headers.get('x-dramatis-ignored')], [200, null])
})

t.test('names without end do not make a header without end', async (t) => {
  const { send } = stage(t)
  const fields = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`f${at}`.padEnd(150, 'x'), 1]))
  const { status, headers } = await send('POST', '/v1/chat/completions', {
    body: { model: 'desk', messages: [hi], ...fields },
  })
  t.equal(status, 200)
  t.match(headers.get('x-dramatis-ignored'), /, and 250 more$/)
  t.ok(headers.get('x-dramatis-ignored')!.length < 8_192)
})
