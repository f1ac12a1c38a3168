/** Fields of a provider that chat completions do not have: which go back, to whom, and what is said of the others. */
import t from 'tap'
import type { ModelMessage, ModelRequest } from '../../../src/actors/definition/model.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { event } from '../../fixtures/wires/wire.ts'
import { clientOf } from '../../runtime/models/asking.ts'
import { collected, TOOLS } from './contract.ts'

const called = { name: 'look', arguments: '{"at":"one"}' }
const signed = { extra_content: { google: { thought_signature: 'c2lnbmVk' } } }
const details = [{ type: 'reasoning.text', text: 'I look.', signature: 'abc', index: 0 }]
const message = {
  content: 'I look.',
  tool_calls: [{ id: 'c1', type: 'function', function: called, ...signed, thought_signature: 'def' }],
  reasoning_details: details,
  provider_specific_fields: { a: 1 },
  thinking_blocks: [{ type: 'thinking', thinking: 'I look.', signature: 'ghi' }],
  mood: { good: true },
}

/** Asks, and asks again with the answer and the result of its call. Returns what went back. */
async function round(server: Awaited<ReturnType<typeof modelServer>>, more: Partial<ModelRequest>, then = more) {
  const client = clientOf(server)
  const first = await collected(client, { tools: TOOLS, ...more })
  const messages: ModelMessage[] = [
    { role: 'user', content: 'Look.' },
    { role: 'assistant', content: first.parts.map(({ block: _, ...part }) => part), toolCalls: first.toolCalls },
    { role: 'tool', toolCallId: 'c1', content: 'seen' },
  ]
  server.answer('Seen.')
  await collected(client, { tools: TOOLS, messages, ...then })
  return { back: server.calls.at(-1)!.body.messages[1]!, warnings: first.warnings }
}

t.test('what comes with an answer goes back with it, to the same model alone', async (t) => {
  const server = await modelServer(t)
  const { mood, ...wanted } = message
  const answer = { body: { choices: [{ message, finish_reason: 'tool_calls' }] } }
  server.answer(answer)
  const { back, warnings } = await round(server, {})
  t.same(back, { role: 'assistant', ...wanted })
  t.match(warnings, [/the field "mood", which stays here/])
  server.answer(answer)
  t.same((await round(server, { giveBack: ['mood'] })).back, { role: 'assistant', ...wanted, mood })
  server.answer(answer)
  const other = await round(server, {}, { model: 'another' })
  t.same(other.back, {
    role: 'assistant',
    content: 'I look.',
    tool_calls: [{ id: 'c1', type: 'function', function: called }],
  })
})

t.test('what a stream sends in parts goes back whole', async (t) => {
  const server = await modelServer(t)
  const chunk = (delta: object, finish_reason: string | null = null) => event({ choices: [{ delta, finish_reason }] })
  server.answer({
    events: [
      chunk({ reasoning_details: [{ type: 'reasoning.text', text: 'I ', index: 0 }] }),
      chunk({ reasoning_details: [{ type: 'reasoning.text', text: 'look.', signature: 'abc', index: 0 }] }),
      chunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'xyz', index: 1 }] }),
      chunk({ thinking_blocks: [{ type: 'thinking', thinking: 'I ', signature: '' }] }),
      chunk({ thinking_blocks: [{ type: 'thinking', thinking: 'look.', signature: '' }] }),
      chunk({ thinking_blocks: [{ type: 'thinking', thinking: '', signature: 'ghi' }] }),
      chunk({ provider_specific_fields: { a: 1 } }),
      chunk({ provider_specific_fields: { b: { c: 2 } } }),
      chunk({
        tool_calls: [{ index: 0, id: 'c1', function: { name: 'look', arguments: '' }, extra_content: { google: {} } }],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"at":"one"}' }, ...signed }] }),
      chunk({}, 'tool_calls'),
    ],
  })
  const { back } = await round(server, { stream: true }, {})
  t.same(back, {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: called, ...signed }],
    reasoning_details: [...details, { type: 'reasoning.encrypted', data: 'xyz', index: 1 }],
    thinking_blocks: [{ type: 'thinking', thinking: 'I look.', signature: 'ghi' }],
    provider_specific_fields: { a: 1, b: { c: 2 } },
  })
})

t.test('fields without measure are left out, and the answer counts', async (t) => {
  const server = await modelServer(t)
  const deep = JSON.parse(`${'['.repeat(3_000)}${']'.repeat(3_000)}`)
  for (const field of [
    { extra_content: 'x'.repeat(2 ** 21) },
    { reasoning_details: deep },
    JSON.parse('{"__proto__":{"a":1}}'),
  ]) {
    server.answer({ body: { choices: [{ message: { ...message, ...field }, finish_reason: 'tool_calls' }] } })
    t.equal((await collected(clientOf(server), { tools: TOOLS })).text, 'I look.')
  }
})
