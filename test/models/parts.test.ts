/** Content of more than text, in queries, in messages and from tools. */
import t from 'tap'
import { z } from 'zod'
import type { Content, ContentPart } from '../../src/actors/definition/content.ts'
import { createTeam, defineTool, type MessagePart, type OrchestratorContext, toolParts } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { modelServer } from '../fixtures/model-server.ts'
import draw from '../fixtures/tools/draws.ts'
import { pluck } from '../kit/lists.ts'
import { gate, localTeam, type Receive, silent } from '../kit/team.ts'
import { clientOf, piecesOf } from '../runtime/models/asking.ts'
import { toolModule } from '../toolbox/desk.ts'
import { type Answers, calls, FakeModel } from './fake-model.ts'
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
