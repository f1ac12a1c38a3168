/** Content of several parts: how it reaches models, tools and agents, and how large parts are stored once. */

import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { Content, ContentPart } from '../../src/actors/definition/content.ts'
import {
  createTeam,
  defineTool,
  type MessagePart,
  type ModelClient,
  type OrchestratorContext,
  toolParts,
} from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { TraceArchive } from '../../src/runtime/durability/trace-archive.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import type { LogStore } from '../../src/runtime/store/log-files.ts'
import { testTeam } from '../../src/testing.ts'
import { folderOf } from '../durability/log-folders.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { modelServer } from '../fixtures/model-server.ts'
import draw from '../fixtures/tools/draws.ts'
import { pluck } from '../kit/lists.ts'
import { gate, localTeam, openTeam, type Receive, silent } from '../kit/team.ts'
import { clientOf, piecesOf } from '../runtime/models/asking.ts'
import { toolModule } from '../toolbox/desk.ts'
import { doing } from '../toolbox/tools.ts'
import { type Answers, calls, FakeModel } from './fake-model.ts'
import { killAt } from './killed-turns.ts'
import { modelTeam, played, ThreadTeam } from './teams.ts'

// Queries and messages that are more than a text: images, sounds and files reach the models that are asked.

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const image: MessagePart = { type: 'image', data: PNG }
const query: MessagePart[] = [{ type: 'text', text: 'What is ' }, image, { type: 'text', text: 'this?' }]

const lastOf = (model: FakeModel, nth = 0) => model.requests[nth]?.messages.at(-1)?.content

t.test('a query of parts reaches its model as it is, and is a part of the conversation', async (t) => {
  const { team, model } = modelTeam(t, ['A cat', 'Black'], [{ name: 'bot' }])
  const result = await team.execute(query)
  t.same(lastOf(model), query)
  t.equal(team.getRun(result.runId)?.query, 'What is this?')
  t.same(result.messages, [
    { role: 'user', content: query },
    { role: 'assistant', content: 'A cat' },
  ])
  t.same(
    result.messageHistory.map(({ content, parts, metadata }) => [content, parts, '$parts' in metadata]).slice(0, 2),
    [
      ['What is this?', query, false],
      ['What is this?', query, false],
    ],
  )
  await team.execute('Its colour?', { messages: result.messages })
  t.match(model.requests[1]!.messages.slice(1), [...result.messages, { role: 'user', content: 'Its colour?' }])
})

t.test('bytes and base64 become data URLs; a query of texts alone is a text', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [{ name: 'bot' }])
  await team.execute([
    { type: 'image', data: new Uint8Array([1, 2, 3]), mediaType: 'image/png' },
    { type: 'audio', data: 'AQID', mediaType: 'audio/wav' },
  ])
  t.match(lastOf(model), [{ data: 'data:image/png;base64,AQID' }, { data: 'data:audio/wav;base64,AQID' }])
  await team.execute([
    { type: 'text', text: 'two ' },
    { type: 'text', text: 'texts' },
  ])
  t.equal(lastOf(model, 1), 'two texts')
})

t.test('who is asked with the words of the query gets its parts, others do not', async (t) => {
  const { team, model } = modelTeam(t, ({ agent }) => `by ${agent}`, [{ name: 'ann' }, { name: 'bob' }])
  await team.execute(query)
  t.same([lastOf(model, 0), lastOf(model, 1)], [query, 'by ann'])
  const orchestration = { strategy: 'parallel' as const, agents: ['ann', 'bob'] }
  const { team: both, model: of } = modelTeam(t, ({ agent }) => `by ${agent}`, [{ name: 'ann' }, { name: 'bob' }], {
    orchestration,
  })
  await both.execute(query)
  for (const nth of [0, 1]) t.ok(JSON.stringify(lastOf(of, nth)).includes(PNG))
})

t.test('code gets and gives parts', async (t) => {
  const model = new FakeModel(() => 'seen')
  const got: unknown[] = []
  const ann: Receive = async (message, context) => {
    got.push(message.parts, message.metadata)
    return (await context.request('bob', 'Look', { parts: [image], metadata: { a: 1 } })).content
  }
  const bob: Receive = async (message, context) => {
    got.push(message.parts, message.metadata)
    const content = (message.parts ?? []) as Content
    return (await context.complete({ messages: [{ role: 'user', content }] })).text
  }
  const run = async (script: OrchestratorContext, text: string) =>
    (await script.request('ann', `Please: ${text}`)).content
  const team = localTeam(t, { ann, bob }, { models: { default: model }, script: run })
  t.equal((await team.execute(query)).finalOutput, 'seen')
  t.same(got, [query, {}, [image], { a: 1 }])
  t.same(lastOf(model), [image])
})

t.test('a message from outside has parts, also when it is sent again from the dead letters', async (t) => {
  const { team, model } = modelTeam(t, (_request, nth) => (nth === 0 ? [new Error('no')] : 'ok'), [
    { name: 'bot', communication: { turnRetries: 0 } },
  ])
  const message = { recipient: 'bot', content: 'What is this?', parts: query }
  await team.sendMessage(message)
  await team.clock.advance(1_000)
  const [letter] = team.deadLetters.list()
  t.same(letter?.message.parts, query)
  await team.deadLetters.replay(letter!.id)
  await team.clock.advance(1_000)
  t.same([lastOf(model, 0), lastOf(model, 1)], [query, query])
  for (const [parts, said] of [
    ['x', /parts/],
    [[{ type: 'video' }], /parts\[0\]\.type: got "video"/],
  ] as const)
    await t.rejects(team.sendMessage({ ...message, parts: parts as never }), {
      code: 'MESSAGE_REJECTED',
      message: said,
    })
  await t.rejects(team.sendMessage({ ...message, metadata: { $parts: [] } }), { message: /runtime's own/ })
})

t.test('who gets a task by handoff sees its parts', async (t) => {
  const answers: Answers = ({ agent }) =>
    agent === 'ann' ? calls(['handoff', { to: 'bob', task: 'Look at it.', summary: 'An image.' }]) : 'A cat'
  const agents = [{ name: 'ann', canDelegateTo: ['bob'] }, { name: 'bob' }]
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const { team, model } = modelTeam(t, answers, agents, { orchestration })
  t.equal((await team.execute(query)).finalOutput, 'A cat')
  t.ok(JSON.stringify(lastOf(model, 1)).includes(PNG))
})

t.test('a role says what it accepts; a mismatch names who, what and what is accepted', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [{ name: 'bot', accepts: ['audio'] }])
  t.throws(() => team.launch(query), {
    code: 'CONFIGURATION',
    message: /query\[1\]\.type: got "image", which no agent accepts; accepted: audio/,
  })
  t.equal(model.requests.length, 0)
  const { team: two } = modelTeam(t, () => 'ok', [
    { name: 'ann', accepts: [] },
    { name: 'bob', accepts: ['image'] },
  ])
  const { error } = await two.execute(query)
  t.match(error, {
    code: 'MESSAGE_REJECTED',
    message:
      'Agent "ann" does not accept a part of type "image"; it accepts text (accepts). Ask another agent, or leave the part out.',
    details: { agent: 'ann', path: 'parts', got: 'image' },
  })
  t.throws(() => modelTeam(t, () => 'ok', [{ name: 'bot', accepts: ['video'] as never }]), {
    message: /accepts\[0\].*"image"/,
  })
})

t.test('what is no query and no part is refused by its place', async (t) => {
  const { team } = modelTeam(t, () => 'ok', [{ name: 'bot' }])
  const wrong: [query: unknown, said: RegExp][] = [
    [5, /query: got 5; accepted: a text or a list of parts/],
    [[], /query: got an empty list; accepted: at least one part/],
    [[{ type: 'video' }], /query\[0\]\.type: got "video"/],
    [[{ type: 'image', data: new Uint8Array(1) }], /query\[0\]\.mediaType/],
    [[{ type: 'reasoning', text: 'x' }], /query\[0\]\.type: got "reasoning".*its own model alone/],
  ]
  for (const [given, said] of wrong)
    t.throws(() => team.launch(given as string), { code: 'CONFIGURATION', message: said })
  const errors: unknown[] = []
  const ann: Receive = async (_message, context) => {
    for (const options of [{ parts: 'x' }, { parts: [{ type: 'video' }] }, { metadata: { $parts: [] } }])
      errors.push(await context.request('bob', 'x', options as object).catch((error: Error) => error.message))
    return ''
  }
  await localTeam(t, { ann, bob: () => '' }).execute('go')
  t.match(errors, [/parts.*a list of parts/, /parts\[0\]\.type/, /metadata\.\$parts.*runtime's own/])
})

t.test('a guardrail that changes the text leaves the images', async (t) => {
  const input = [{ name: 'x', when: 'before' as const, check: (text: string) => ({ change: text.toUpperCase() }) }]
  const { team, model } = modelTeam(t, () => 'ok', [{ name: 'bot' }], { guardrails: { input } })
  await team.execute(query)
  t.same(lastOf(model), [{ type: 'text', text: 'WHAT IS THIS?' }, image])
})

t.test('parts cross threads, and are there after a restart', async (t) => {
  const disk = new MemoryDisk()
  const seen: unknown[] = []
  const asked = gate()
  const teamOf = (complete: () => AsyncIterable<{ text: string }>) =>
    createTeam({
      agents: [{ name: 'bot', systemPrompt: 'Look.' }],
      orchestration: { strategy: 'sequential' },
      models: {
        default: {
          offline: true,
          complete(request) {
            seen.push(request.messages.at(-1)?.content)
            return complete()
          },
        },
      },
      stateManagement: { store: new MemoryStore(disk) },
      logger: silent,
    })
  const before = teamOf(async function* () {
    asked.open()
    await new Promise(() => {})
    yield { text: '' }
  })
  before.launch(query, { runId: 'one' })
  await asked.opened
  await before.close()
  const after = teamOf(async function* () {
    yield { text: 'A cat' }
  })
  t.teardown(() => after.close())
  await after.start()
  const result = await after.getRun('one')!.result
  t.same(seen, [query, query])
  t.same(result.messages[0], { role: 'user', content: query })
})

t.test('an answer with a schema to an image', async (t) => {
  const answers: Answers = () => '{"animal": "cat"}'
  const { team } = modelTeam(t, answers, [{ name: 'bot' }])
  t.match(await team.execute(query, { output: z.object({ animal: z.string() }) }), { data: { animal: 'cat' } })
})

// Content of more than text: images, sounds, files, and reasoning that goes back with the results of tools.

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

// Results of tools that are parts: a model sees the image, wherever the tool runs, and code gets the parts.

const shown = [
  { type: 'text', text: 'a dot' },
  { type: 'image', data: `data:image/png;base64,${PIXEL}`, mediaType: 'image/png' },
]
t.test('the model of an agent gets the parts of a tool as its result', async (t) => {
  const { team, model } = modelTeam(t, [calls(['draw', {}]), 'I see it.'], [{ name: 'ann', tools: [draw] }])
  t.equal((await team.execute('Draw.')).finalOutput, 'I see it.')
  t.same(model.requests[1]!.messages.at(-1), { role: 'tool', toolCallId: 'call-0', content: shown })
})

t.test('the parts of a tool in a thread, of the agent or of its own, are the same', async (t) => {
  for (const isolate of [false, true]) {
    const model = new FakeModel([calls(['draw', {}]), 'I see it.'])
    const team = new ThreadTeam({
      agents: [{ name: 'ann', tools: [{ module: toolModule('draws'), ...(isolate && { isolate }) }] }],
      orchestration: { strategy: 'sequential' },
      models: { default: model },
      threads: { warmSpares: 0 },
      logger: silent,
    })
    t.teardown(() => team.close())
    t.equal((await team.execute('Draw.')).success, true)
    t.same(model.requests[1]!.messages.at(-1)!.content, shown)
  }
})

t.test('a model that takes no images is told so, and goes on', async (t) => {
  const { team, model } = modelTeam(
    t,
    [calls(['draw', {}]), 'Then not.'],
    [{ name: 'ann', tools: [draw], accepts: ['audio'] }],
  )
  t.equal((await team.execute('Draw.')).finalOutput, 'Then not.')
  t.match(
    model.lastPrompt,
    /^Error: Tool "draw" gave agent "ann" a part of type "image", which its role does not accept/,
  )
})

t.test('over chat completions the media follow the results of all calls of the answer', async (t) => {
  const server = await modelServer(t)
  server.always('Done.')
  const toolCalls = ['a', 'b'].map((id) => ({ id, name: 'draw', input: '{}' }))
  await piecesOf(clientOf(server), {
    messages: [
      { role: 'user', content: 'Draw.' },
      { role: 'assistant', content: '', toolCalls },
      { role: 'tool', toolCallId: 'a', content: shown as never },
      { role: 'tool', toolCallId: 'b', content: 'nothing' },
      { role: 'user', content: 'Go on.' },
    ],
  })
  const sent = server.calls[0]!.body.messages as { role: string; content: unknown }[]
  t.same(pluck(sent, 'role'), ['user', 'assistant', 'tool', 'tool', 'user', 'user'])
  t.equal(sent[2]!.content, 'a dot')
  t.same(sent[4]!.content, [
    { type: 'text', text: 'Result of the call a:' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
  ])
})

t.test('half a part is refused where it is made', async (t) => {
  const wrong: [part: object, says: RegExp][] = [
    [{ type: 'image' }, /^toolParts: parts\[0\]\.data: bytes, a data URL/],
    [{ type: 'video', data: 'AAAA' }, /^toolParts: parts\[0\]\.type: one of text, image/],
    [{ type: 'reasoning', text: 'hm' }, /^toolParts: parts\[0\]\.type: /],
  ]
  for (const [part, says] of wrong) {
    t.throws(() => toolParts([part as never]), { code: 'TOOL_FAILED', message: says })
  }
})

// Large parts of messages are stored once, whoever passes them on, and are there after crashes and restarts.

const MB = 2 ** 20
const BYTES = 100_000
const module = new URL('../fixtures/models/passes-parts.js', import.meta.url)
const PASSING = ['ann', 'bob', 'cat', 'dan']

const photo = (bytes: number): MessagePart => ({
  type: 'image',
  data: new Uint8Array(randomBytes(bytes)),
  mediaType: 'image/jpeg',
})
const dataUrl = ({ data }: MessagePart & { data?: unknown }) =>
  `data:image/jpeg;base64,${Buffer.from(data as Uint8Array).toString('base64')}`
const dataOf = (content: unknown) => String((content as { data: unknown }[])[0]?.data)
const digest = (text: string) => createHash('sha1').update(text).digest('hex')

/** A model that keeps digests of the media that it is shown. */
class Viewer implements ModelClient {
  readonly offline = true
  readonly seen: string[] = []
  async *complete({ messages }: Parameters<ModelClient['complete']>[0]) {
    for (const { content } of messages)
      for (const part of typeof content === 'string' ? [] : content)
        if ('data' in part) this.seen.push(digest(String(part.data)))
    yield { text: 'A cat' }
  }
}

/** Four agents with code on threads pass on what they get; a fifth one asks its model. */
const [model, disk] = [new Viewer(), new MemoryDisk()]
const passing = new ThreadTeam({
  agents: [...PASSING.map((name) => ({ name, module })), { name: 'eve', systemPrompt: 'Look.' }],
  orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
  models: { default: model },
  stateManagement: { store: new MemoryStore(disk) },
  threads: { warmSpares: 0 },
  logger: silent,
})
t.teardown(() => passing.close())

const bytesOn = (disk: MemoryDisk) => disk.blocks.reduce((sum, { entries }) => sum + entries.byteLength, 0)
const manyParts = (image: MessagePart): MessagePart[] => [{ type: 'text', text: 'bob cat dan eve' }, image]

t.test('an image of 30 MB goes through five agents and is stored once', async (t) => {
  const image = photo(30 * MB)
  const result = await passing.execute(manyParts(image), { runId: 'one' })
  t.match(result, { success: true, finalOutput: 'A cat' })
  t.same(model.seen.splice(0), [digest(dataUrl(image))])
  const run = passing.host.runs.find('one')!
  t.equal(passing.host.parts.bytes, 30 * MB)
  t.match(passing.metrics('prometheus'), /^dramatis_stored_part_bytes(\{[^}]*\})? 31457280$/m)
  t.ok(run.log.bytes < MB, `the messages of the run take ${run.log.bytes} bytes`)
  const written = bytesOn(disk) - 30 * MB
  t.ok(written > 0 && written < MB, `the log has ${written} bytes beside the image`)
  const shown = dataOf(result.messageHistory[4]?.parts?.slice(1))
  t.equal(digest(shown), digest(dataUrl(image)), 'who reads the history gets the bytes')
})

t.test('each of the agents may end in the middle', async (t) => {
  const image = photo(BYTES)
  const before = bytesOn(disk)
  const agents = [...PASSING, 'eve']
  for (const [nth, agent] of agents.entries()) {
    const places = killAt(passing, agent, (at) => at === 1 + 2 * nth + (nth % 2))
    const { finalOutput } = await passing.execute(manyParts(image))
    t.match([finalOutput, model.seen.splice(0)], ['A cat', [digest(dataUrl(image))]], agent)
    t.ok(places() > 0)
  }
  t.ok(bytesOn(disk) - before < 2 * BYTES)
})

t.test('code in a thread reads the bytes of a part that it got, and gives large ones itself', async (t) => {
  const image = photo(BYTES)
  const read = await passing.execute([{ type: 'text', text: 'read' }, image])
  t.equal(digest(`${read.finalOutput}`), digest(`read ${dataUrl(image)}`))
  const made = await passing.execute('make bob')
  const text = Buffer.from('made '.repeat(20_000)).toString('base64')
  t.equal(digest(`${made.finalOutput}`), digest(`data:text/plain;base64,${text}`))
})

/** One agent that a model plays, with a log. */
function looking(t: Test, model: ModelClient, store: LogStore, keep?: { runs: number }) {
  const team = new ThreadTeam({
    agents: [{ name: 'eve', systemPrompt: 'Look.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: model },
    stateManagement: { store, ...(keep && { keep }) },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  return team
}

/** A run in the archive. */
interface Archived {
  messages: { parts: { data: string }[] }[]
  parts: Record<string, string>
}

/** A model that never answers its first call. */
function silentModel() {
  const asked = gate()
  let calls = 0
  const model: ModelClient = {
    offline: true,
    async *complete() {
      calls += 1
      asked.open()
      if (calls === 1) await new Promise(() => {})
      yield { text: '' }
    },
  }
  return { model, asked: asked.opened }
}

t.test('a run goes on after a restart with the image that it had', async (t) => {
  const image = photo(BYTES)
  const disk = new MemoryDisk()
  const { model: waits, asked } = silentModel()
  const before = looking(t, waits, new MemoryStore(disk))
  before.launch(manyParts(image), { runId: 'one' })
  await asked
  await before.close()
  const model = new Viewer()
  const after = looking(t, model, new MemoryStore(disk))
  await after.start()
  t.match(await after.getRun('one')!.result, { finalOutput: 'A cat' })
  t.same(model.seen, [digest(dataUrl(image))])
  t.ok(bytesOn(disk) < 2 * BYTES)
  await after.close()
  const later = looking(t, model, new MemoryStore(disk))
  await later.start()
  t.equal(later.host.parts.bytes, 0, 'of a run that has ended nothing is in memory')
  const { messageHistory, messages } = await later.getRun('one')!.result
  for (const parts of [messageHistory[0]?.parts, messages[0]?.content])
    t.equal(digest(dataOf(parts?.slice(1))), digest(dataUrl(image)))
})

t.test('a conversation keeps its image, also over a restart', async (t) => {
  const image = photo(BYTES)
  const disk = new MemoryDisk()
  const model = new Viewer()
  const before = looking(t, model, new MemoryStore(disk))
  await before.execute([{ type: 'text', text: 'This?' }, image], { threadId: 'a' })
  await before.execute('And now?', { threadId: 'a' })
  await before.close()
  const after = looking(t, model, new MemoryStore(disk))
  const { messages } = await after.execute('And then?', { threadId: 'a' })
  t.same(
    model.seen,
    Array.from({ length: 3 }, () => digest(dataUrl(image))),
  )
  t.equal(messages.length, 2)
  t.ok(bytesOn(disk) < 2 * BYTES)
})

t.test('a caller gives the messages of one run to the next, and a message from outside brings parts', async (t) => {
  const image = photo(BYTES)
  const { team, model } = modelTeam(t, () => 'A cat', [{ name: 'eve' }])
  const lastOf = () => dataOf(model.requests.at(-1)?.messages.at(-1)?.content)
  const { messages } = await team.execute([image])
  const { messages: more } = await team.execute('And now?', { messages: JSON.parse(JSON.stringify(messages)) })
  await team.execute('And then?', { messages: more })
  t.equal(digest(dataOf(model.requests[2]?.messages[1]?.content)), digest(dataUrl(image)))
  await team.sendMessage({ recipient: 'eve', content: '', parts: [image] })
  await team.clock.advance(1_000)
  t.equal(digest(lastOf()), digest(dataUrl(image)))
})

t.test('a dead letter keeps its image over a restart', async (t) => {
  const image = photo(BYTES)
  const disk = new MemoryDisk()
  const fails = new FakeModel(() => [new Error('no')])
  const before = looking(t, fails, new MemoryStore(disk))
  const dead = gate()
  before.events.subscribe(({ type }) => type === 'message.dead' && dead.open())
  await before.sendMessage({ recipient: 'eve', content: 'See', parts: [image] })
  await dead.opened
  await before.close()
  const model = new Viewer()
  const after = looking(t, model, new MemoryStore(disk))
  await after.start()
  const handled = gate()
  after.events.subscribe(({ type }) => type === 'turn.finished' && handled.open())
  await after.deadLetters.replay(after.deadLetters.list()[0]!.id)
  await handled.opened
  t.same(model.seen, [digest(dataUrl(image))])
  t.ok(bytesOn(disk) < 2 * BYTES)
})

t.test('what no run in memory refers to any more is given up', async (t) => {
  const team = openTeam(t, { ann: () => '' }, { orchestration: { strategy: 'sequential' } })
  for (let n = 0; n < 130; n++) await team.execute([photo(100_000)])
  t.ok(team.host.parts.size <= 101, `${team.host.parts.size} parts are stored`)
  t.equal(team.host.parts.bytes, team.host.parts.size * 100_000)
})

t.test('a part for which there is no room is refused', async (t) => {
  const answers: unknown[] = []
  const ann: Receive = async (_message, context) => {
    for (const to of ['bob', 'bob'])
      answers.push(
        await context
          .request(to, 'x', { parts: [photo(150_000)] })
          .then(({ content }) => content)
          .catch((error: Error) => error.message),
      )
    return ''
  }
  const bob: Receive = ({ parts }) => `${dataOf(parts).length}`
  const team = openTeam(t, { ann, bob }, { maxStoredBytes: 200_000 })
  await t.rejects(team.execute([photo(200_001)]), { code: 'PART_LOST', message: /no room.*maxStoredBytes/ })
  await team.execute('go')
  t.match(answers, [`${(150_000 / 3) * 4 + 23}`, /gone|no room/])
  t.equal(team.host.parts.size, 1)
})

t.test('a part whose bytes the run does not have is an error that says so', async (t) => {
  const lost: MessagePart = { type: 'image', data: `stored:sha256-${'0'.repeat(64)}:70000`, mediaType: 'image/png' }
  const errors: unknown[] = []
  const ann: Receive = async (_message, context) => {
    const asked = [
      () => context.request('bob', 'x', { parts: [lost] }),
      () => context.complete({ messages: [{ role: 'user', content: [lost] }] }),
    ]
    for (const ask of asked) errors.push(await ask().catch((error: Error) => error))
    return ''
  }
  const bob: Receive = ({ parts }) => dataOf(parts)
  const team = localTeam(t, { ann, bob }, { models: { default: new FakeModel(() => 'ok') } })
  await team.execute('go')
  t.match(errors, [{ message: /PartLostError.*70000 bytes.*are gone/ }, { code: 'PART_LOST' }])
  t.throws(() => team.launch([lost]), { code: 'PART_LOST' })
  const message = { recipient: 'bob', content: '', parts: [lost] }
  await t.rejects(team.sendMessage(message), { code: 'PART_LOST' })
})

t.test('the image that a tool gives is stored too', async (t) => {
  const image = photo(20 * MB) // more than a message may have
  const tool = doing(() => toolParts([image]))
  const model = new FakeModel((_request, nth) => (nth === 0 ? calls(['act', {}]) : 'A cat'))
  const team = new ThreadTeam({
    agents: [{ name: 'eve', tools: [tool] }],
    orchestration: { strategy: 'sequential' },
    models: { default: model },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  t.match(await team.execute('go'), { success: true, finalOutput: 'A cat' })
  t.equal(digest(dataOf(model.requests[1]?.messages.at(-1)?.content)), digest(dataUrl(image)))
  t.equal(team.host.parts.bytes, 20 * MB)
})

t.test('a log that is compacted keeps the images of open runs, and forgets others', async (t) => {
  const path = join(folderOf(t), 'log')
  const folder = join(path, '..', 'archive')
  const image = photo(BYTES)
  const { model: waits, asked } = silentModel()
  const storeOf = () => new FileStore(path, { segmentBytes: 2 ** 18 })
  const before = looking(t, waits, storeOf(), { runs: 2 }) // it is compacted in the background too
  before.launch(manyParts(image), { runId: 'open' })
  await asked
  for (let n = 0; n < 20; n++) await before.execute([photo(BYTES)], { runId: `short ${n}` })
  await before.close()
  const store = storeOf()
  const keep = { runs: 1, days: 30, bytes: 2 ** 30 }
  const archive = (name: (index: number) => string) =>
    new TraceArchive({ folder, redactor: { data: (value) => value }, name })
  const { after: size } = await compactLog(store, { keep, logger: silent, archive })
  await store.close()
  t.ok(size > 2 * BYTES && size < 4 * BYTES, `the log has ${size} bytes`)
  const [first] = readdirSync(folder).sort()
  const { messages, parts } = JSON.parse(readFileSync(join(folder, first!), 'utf8')) as Archived
  const [, hash = ''] = /^stored:sha256-(.*):/.exec(messages[0]!.parts[0]!.data) ?? []
  const archived = Buffer.from(parts[hash]!, 'base64')
  t.equal(createHash('sha256').update(archived).digest('hex'), hash, 'the archive has the bytes')
  const model = new Viewer()
  const after = looking(t, model, storeOf())
  await after.start()
  t.match(await after.getRun('open')!.result, { finalOutput: 'A cat' })
  t.same(model.seen, [digest(dataUrl(image))])
})
