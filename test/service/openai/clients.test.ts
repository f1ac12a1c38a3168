/** Programs that speak OpenAI's formats, and the fields of theirs that change nothing. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { defineAgent, type ModelClient, type ModelMessage } from '../../../src/index.ts'
import { bearerToken, httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { echo, stage } from '../http/stage.ts'

// Programs that speak OpenAI's formats reach a team: the clients of OpenAI, the AI SDK and LangChain prove it.

const TOKEN = 'sk-not-a-real-token'
const OTHER_TOKEN = 'sk-not-a-real-token-either'

/** Answers, fails, or waits. */
const writer = defineAgent({
  async receive({ content }) {
    if (content === 'fail') throw new Error('no ink')
    if (content === 'wait') await new Promise(() => {})
    if (content === 'data') return '{"cities": 3}'
    return `heard: ${content}`
  },
})

t.test('openai: a team is a model that answers, streams and tells its tokens', async (t) => {
  const { client } = await served(t)
  const models = (await client.models.list()).data.map(({ id }) => id)
  t.same(models, ['desk', 'desk/writer', 'talk', 'talk/speaker'])
  t.equal((await client.models.retrieve('desk/writer')).id, 'desk/writer')
  const messages = [{ role: 'user' as const, content: 'hello' }]
  const { data, response } = await client.chat.completions
    .create({ model: 'desk', messages, temperature: 0.2, seed: 1 })
    .withResponse()
  t.match(data, { object: 'chat.completion', model: 'desk', choices: [{ finish_reason: 'stop' }] })
  t.equal(data.choices[0]!.message.content, 'heard: hello')
  t.equal(response.headers.get('x-dramatis-ignored'), 'temperature, seed')
  const stream = await client.chat.completions.create({
    model: 'desk/writer',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  })
  let text = ''
  let usage: OpenAI.CompletionUsage | undefined
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? ''
    usage = chunk.usage ?? usage
  }
  t.equal(text, 'heard: hello')
  t.match(usage, { total_tokens: 0 })
})

t.test('openai: parsed answers fit their schema', async (t) => {
  const { client } = await served(t)
  const schema = z.toJSONSchema(z.object({ cities: z.number() }))
  const answer = await client.chat.completions.create({
    model: 'desk',
    messages: [{ role: 'user', content: 'data' }],
    response_format: { type: 'json_schema', json_schema: { name: 'cities', schema } },
  })
  t.same(JSON.parse(answer.choices[0]!.message.content!), { cities: 3 })
})

t.test(
  'openai: the pieces of an answer with a schema join to data, also where the first answer missed it',
  async (t) => {
    let asked = 0
    const model: ModelClient = {
      async *complete() {
        for (const text of ['{"cities"', asked++ % 2 === 0 ? ':"three"}' : ':3}']) yield { text }
      },
    }
    const team = testTeam({ agents: [{ name: 'writer' }], orchestration: { strategy: 'sequential' } }, { model })
    const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'ann', may: ['run'] }) })
    t.teardown(() => api.close({ teams: true }))
    const fetch = (url: string | URL | Request, init?: RequestInit) => api.fetch(new Request(url, init))
    const client = new OpenAI({ baseURL: 'http://localhost/v1', apiKey: 'none', fetch })
    const format = {
      type: 'json_schema',
      name: 'cities',
      schema: z.toJSONSchema(z.object({ cities: z.number() })),
    } as const
    const { type, ...json_schema } = format
    let [chat, response] = ['', '']
    const messages = [{ role: 'user' as const, content: 'data' }]
    const response_format = { type, json_schema }
    for await (const { choices } of await client.chat.completions.create({
      model: 'desk',
      messages,
      response_format,
      stream: true,
    }))
      chat += choices[0]?.delta.content ?? ''
    for await (const event of await client.responses.create({
      model: 'desk',
      input: 'data',
      text: { format },
      stream: true,
    }))
      if (event.type === 'response.output_text.delta') response += event.delta
    t.same(
      [chat, response].map((text) => JSON.parse(text)),
      [{ cities: 3 }, { cities: 3 }],
    )
    t.equal(asked, 4)
  },
)

t.test('openai: errors are those of its classes, in streams too', async (t) => {
  const { client, url } = await served(t)
  const ask = (content: string, more: object = {}) =>
    client.chat.completions.create({ model: 'desk', messages: [{ role: 'user', content }], ...more })
  t.match(await failureOf(ask('fail')), { status: 502, code: 'AGENT_FAILED', message: /no ink/ })
  t.match(await failureOf(ask('hello', { model: 'none' })), { status: 404, code: 'NOT_FOUND', param: 'model' })
  t.match(await failureOf(ask('hello', { n: 2 })), { status: 400, param: 'n' })
  t.match(await failureOf(ask('hello', { tool_choice: 'required' })), { status: 400, param: 'tool_choice' })
  t.match(await failureOf(client.embeddings.create({ model: 'desk', input: 'x' })), {
    status: 404,
    message: /There is no such path/,
  })
  const stranger = new OpenAI({ apiKey: 'wrong', baseURL: `${url}/v1`, maxRetries: 0 })
  t.ok((await failureOf(stranger.models.list())) instanceof OpenAI.AuthenticationError)
  await t.rejects(
    async () => {
      const messages = [{ role: 'user' as const, content: 'fail' }]
      for await (const _chunk of await client.chat.completions.create({ model: 'desk', messages, stream: true })) {
        // until it fails
      }
    },
    { message: /no ink/ },
  )
})

t.test('openai: the Responses API answers, streams, and goes on with an earlier response', async (t) => {
  const { client, heard } = await served(t)
  const first = await client.responses.create({ model: 'talk', input: 'my name is Ann', instructions: 'Be brief.' })
  t.equal(first.output_text, 'answer 1')
  t.equal(first.status, 'completed')
  const second = await client.responses.create({ model: 'talk', input: 'who am I?', previous_response_id: first.id })
  t.equal(second.output_text, 'answer 2')
  t.same(heard().slice(1), ['Be brief.', 'my name is Ann', 'answer 1', 'who am I?'])
  const stream = client.responses.stream({ model: 'desk', input: [{ role: 'user', content: 'hello' }] })
  const deltas: string[] = []
  stream.on('response.output_text.delta', ({ delta }) => void deltas.push(delta))
  t.equal((await stream.finalResponse()).output_text, 'heard: hello')
  t.equal(deltas.join(''), 'heard: hello')
  const unknown = client.responses.create({ model: 'desk', input: 'x', previous_response_id: 'resp_none' })
  t.match(await failureOf(unknown), { status: 404 })
})

t.test('openai: a response is retrieved while it is under way, at its end, and when it was cancelled', async (t) => {
  const { client } = await served(t)
  const begun = await client.responses.create({ model: 'desk', input: 'wait', background: true })
  t.match(begun, { object: 'response', background: true, output: [] })
  const now = await client.responses.retrieve(begun.id)
  t.match(now, { id: begun.id, status: /^(queued|in_progress)$/, model: 'desk', output: [] })
  t.match(await client.responses.cancel(begun.id), { id: begun.id, status: 'cancelled', output: [] })
  t.equal((await client.responses.retrieve(begun.id)).status, 'cancelled')

  const first = await client.responses.create({ model: 'talk/speaker', input: 'one' })
  const next = await client.responses.create({ model: 'talk', input: 'two', previous_response_id: first.id })
  t.equal((await client.responses.retrieve(first.id)).model, 'talk/speaker')
  const { id, output, usage, previous_response_id } = await client.responses.retrieve(next.id)
  t.same({ id, output, usage, previous_response_id }, { ...picked(next), previous_response_id: first.id })
  t.equal((await client.responses.cancel(next.id)).status, 'completed', 'it is over')

  const failing = await client.responses.create({ model: 'desk', input: 'fail', background: true })
  let failed = failing
  while (failed.status !== 'failed') failed = await client.responses.retrieve(failing.id)
  t.match(failed.error, { code: 'AGENT_FAILED', message: /no ink/ })
})

t.test('openai: a response that is not stored is unknown, as one of a stranger is', async (t) => {
  const { client, url } = await served(t)
  const { id, output_text } = await client.responses.create({ model: 'desk', input: 'hello', store: false })
  t.equal(output_text, 'heard: hello')
  const kept = await client.responses.create({ model: 'desk', input: 'hello' })
  const stranger = new OpenAI({ apiKey: OTHER_TOKEN, baseURL: `${url}/v1`, maxRetries: 0 })
  for (const asked of [
    () => client.responses.retrieve(id),
    () => client.responses.cancel(id),
    () => client.responses.create({ model: 'desk', input: 'x', previous_response_id: id }),
    () => client.responses.retrieve('resp_none'),
    () => client.responses.retrieve(kept.id.replace('resp_', '')),
    () => stranger.responses.retrieve(kept.id),
  ])
    t.match(await failureOf(asked()), { status: 404, code: 'NOT_FOUND', message: /no response ".*" that is stored/ })
  const both = client.responses.create({ model: 'desk', input: 'x', store: false, background: true })
  t.match(await failureOf(both), { status: 400, param: 'background' })
  t.match(await failureOf(client.responses.delete(kept.id)), { status: 405 })
  t.match(await client.responses.retrieve(kept.id), { status: 'completed' }, 'it is still there')
  const streamed = client.responses.retrieve(kept.id, { stream: true })
  t.match(await failureOf(streamed), { status: 422, message: /stream/ })
})

t.test('openai: a background response goes on when its client leaves the stream', async (t) => {
  const { client, team } = await served(t)
  const left = async (background: boolean): Promise<string> => {
    const asked = { model: 'desk', input: 'wait', background, stream: true } as const
    let id = ''
    for await (const event of await client.responses.create(asked)) {
      if (event.type === 'response.created') id = event.response.id
      if (event.type === 'response.in_progress') break
    }
    return id
  }
  const goesOn = await left(true)
  const ends = await left(false)
  const run = team.getRun(ends.replace('resp_', ''))!
  t.match(await run.result, { error: { code: 'RUN_ABORTED' } }, 'the other one, which was left later, is over')
  t.match((await client.responses.retrieve(goesOn)).status, /^(queued|in_progress)$/)
})

t.test('openai: earlier messages are the conversation of the models', async (t) => {
  const { client, heard } = await served(t)
  await client.chat.completions.create({
    model: 'talk',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'my name is Ann' }] },
      { role: 'assistant', content: 'Hello, Ann.' },
      { role: 'user', content: 'who am I?' },
    ],
  })
  t.same(heard().slice(1), ['Be brief.', 'my name is Ann', 'Hello, Ann.', 'who am I?'])
})

t.test('openai: images, sounds and files reach the models, in both APIs', async (t) => {
  const { client, heard } = await served(t)
  const image = `data:image/png;base64,${Buffer.from('image').toString('base64')}`
  const pdf = `data:application/pdf;base64,${Buffer.from('pdf').toString('base64')}`
  const sound = Buffer.from('sound').toString('base64')
  await client.chat.completions.create({
    model: 'talk',
    messages: [
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://pictures.example/a.png' } }] },
      { role: 'assistant', content: 'A cat.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'And here?' },
          { type: 'image_url', image_url: { url: image, detail: 'low' } },
          { type: 'input_audio', input_audio: { data: sound, format: 'mp3' } },
          { type: 'file', file: { file_data: pdf, filename: 'a.pdf' } },
        ],
      },
    ],
  })
  const file = { type: 'file', data: pdf, name: 'a.pdf' }
  t.same(heard().slice(1), [
    [{ type: 'image', data: 'https://pictures.example/a.png' }],
    'A cat.',
    [
      { type: 'text', text: 'And here?' },
      { type: 'image', data: image },
      { type: 'audio', data: `data:audio/mpeg;base64,${sound}`, mediaType: 'audio/mpeg' },
      file,
    ],
  ])
  await client.responses.create({
    model: 'talk/speaker',
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What?' },
          { type: 'input_image', image_url: image, detail: 'auto' },
          { type: 'input_file', file_data: pdf, filename: 'a.pdf' },
        ],
      },
    ],
  })
  t.same(heard().slice(1), [[{ type: 'text', text: 'What?' }, { type: 'image', data: image }, file]])
})

t.test('openai: a part that is not taken is refused by its place', async (t) => {
  const { client } = await served(t)
  const refused: [content: object[], said: RegExp][] = [
    [
      [{ type: 'file', file: { file_id: 'file-1' } }],
      /messages\[0\]\.content\[0\]\.file\.file_data: The id of a file is not taken/,
    ],
    [[{ type: 'image_url', image_url: {} }], /content\[0\]\.image_url: A data URL, or a URL, is needed/],
    [[{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }], /content\[0\]: Its data are/],
    [[{ type: 'image_url', image_url: { url: `stored:sha256-${'0'.repeat(64)}:9` } }], /reference to stored bytes/],
    [[{ type: 'video', video: 'x' }], /content\[0\]\.type: "video" is no part that a team takes; accepted: text/],
  ]
  for (const [content, said] of refused) {
    const asked = client.chat.completions.create({
      model: 'talk',
      messages: [{ role: 'user', content: content as never }],
    })
    t.match(await failureOf(asked), { status: 400, message: said })
  }
  const bySystem = [{ type: 'image_url', image_url: { url: 'https://pictures.example/a.png' } }]
  const system = { role: 'system' as const, content: bySystem as never }
  const asked = client.chat.completions.create({ model: 'talk', messages: [system, { role: 'user', content: 'x' }] })
  t.match(await failureOf(asked), { status: 400, message: /messages\[0\].*only texts are taken from this role/ })
})

t.test('openai: with x-dramatis-thread the team keeps the conversation', async (t) => {
  const { client, heard } = await served(t)
  const headers = { 'x-dramatis-thread': 'ann' }
  const ask = (content: string) =>
    client.chat.completions.create({ model: 'talk', messages: [{ role: 'user', content }] }, { headers })
  await ask('one')
  await ask('two')
  t.same(heard().slice(1), ['one', 'answer 1', 'two'])
})

t.test("openai: calls of the client's own tools and their results are told in words", async (t) => {
  const { client, heard } = await served(t)
  const call = { id: 'c1', type: 'function' as const, function: { name: 'weather', arguments: '{"city":"Rome"}' } }
  const { response } = await client.chat.completions
    .create({
      model: 'talk',
      messages: [
        { role: 'user', content: 'Is it warm?' },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c1', content: '21 degrees' },
        { role: 'user', content: 'So?' },
      ],
    })
    .withResponse()
  t.equal(response.headers.get('x-dramatis-ignored'), null)
  const told = [
    'Is it warm?',
    '[called the tool "weather" with {"city":"Rome"}]',
    '[the tool "weather" answered]\n21 degrees',
    'So?',
  ]
  t.same(heard().slice(1), told)
  await client.responses.create({
    model: 'talk',
    input: [
      { role: 'user', content: 'Is it warm?' },
      { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city":"Rome"}' },
      { type: 'function_call_output', call_id: 'c1', output: '21 degrees' },
      { role: 'user', content: 'So?' },
    ],
  })
  t.same(heard().slice(1), told)
  const headers = { 'x-dramatis-thread': 'ann' }
  const messages = [
    { role: 'user' as const, content: 'one' },
    { role: 'user' as const, content: 'two' },
  ]
  const threaded = await client.chat.completions.create({ model: 'talk', messages }, { headers }).withResponse()
  t.equal(threaded.response.headers.get('x-dramatis-ignored'), 'messages')
})

t.test('openai: a client that leaves stops its task', async (t) => {
  const { client, team } = await served(t)
  const gone = new AbortController()
  const messages = [{ role: 'user' as const, content: 'wait' }]
  const asked = client.chat.completions.create({ model: 'desk', messages }, { signal: gone.signal })
  while ((await team.listRuns({ status: 'running' })).length === 0) await new Promise(setImmediate)
  gone.abort()
  t.ok((await failureOf(asked)) instanceof OpenAI.APIUserAbortError)
  const [summary] = await team.listRuns()
  t.match(await team.getRun(summary!.id)!.result, { error: { code: 'RUN_ABORTED' } })
})

t.test('openai: a task goes on whose client leaves, while its caller reads it otherwise', async (t) => {
  const { client, team, url } = await served(t)
  const messages = [{ role: 'user' as const, content: 'wait' }]
  const running = async (count: number) => {
    for (;;) {
      const runs = await team.listRuns({ status: 'running' })
      if (runs.length === count) return runs[0]!.id
      await new Promise(setImmediate)
    }
  }
  const read: string[] = []
  for (const stream of [true, false]) {
    const gone = new AbortController()
    const asked = client.chat.completions.create({ model: 'desk', messages, stream }, { signal: gone.signal })
    const id = await running(read.length + 1)
    const reading = await fetch(`${url}/api/tasks/${id}/events`, {
      headers: { authorization: `Bearer ${TOKEN}`, accept: 'text/event-stream' },
    })
    t.teardown(() => reading.body!.cancel())
    if (stream) await asked
    gone.abort()
    await failureOf(asked)
    read.push(id)
  }
  const last = new AbortController()
  const unread = client.chat.completions.create({ model: 'desk', messages }, { signal: last.signal })
  const id = await running(3)
  last.abort()
  await failureOf(unread)
  t.match(await team.getRun(id)!.result, { error: { code: 'RUN_ABORTED' } }, 'nobody reads it')
  t.same(
    read.map((each) => team.getRun(each)!.status),
    ['running', 'running'],
  )
})

t.test('openai: a client that leaves while an earlier response is under way begins no task', async (t) => {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const { team, send } = stage(
    t,
    echo(() => held),
  )
  const earlier = team.launch('wait')
  const gone = new AbortController()
  const body = { model: 'desk', input: 'and then?', previous_response_id: earlier.id }
  const asked = send('POST', '/v1/responses', { body, signal: gone.signal })
  for (let i = 0; i < 100; i++) await new Promise(setImmediate) // it waits by now
  gone.abort()
  t.match(await asked, { status: 400, body: { error: { message: /client has left/ } } })
  release()
  t.match(await earlier.result, { success: true }, 'the earlier one goes on')
  t.equal((await team.listRuns()).length, 1)
})

t.test('the AI SDK generates and streams; who works comes as reasoning', async (t) => {
  const { url } = await served(t)
  const provider = createOpenAICompatible({ name: 'dramatis', baseURL: `${url}/v1`, apiKey: TOKEN, includeUsage: true })
  const model = provider('desk')
  t.equal((await generateText({ model, prompt: 'hello' })).text, 'heard: hello')
  const stream = streamText({ model, prompt: 'hello' })
  t.equal(await stream.text, 'heard: hello')
  t.match(await stream.reasoningText, /writer works/)
  t.equal(await stream.finishReason, 'stop')
})

t.test('LangChain invokes and streams', async (t) => {
  const { url } = await served(t)
  const model = new ChatOpenAI({ model: 'desk', apiKey: TOKEN, configuration: { baseURL: `${url}/v1` }, maxRetries: 0 })
  t.equal((await model.invoke('hello')).text, 'heard: hello')
  let text = ''
  for await (const chunk of await model.stream('hello')) text += chunk.text
  t.equal(text, 'heard: hello')
  await t.rejects(model.invoke('fail'), /no ink/)
})

const picked = ({ id, output, usage }: OpenAI.Responses.Response) => ({ id, output, usage })

const failureOf = (asked: Promise<unknown>): Promise<unknown> =>
  asked.then(
    () => 'it succeeded',
    (error: unknown) => error,
  )

async function served(t: Test) {
  const requests: ModelMessage[][] = []
  let answers = 0
  const model: ModelClient = {
    offline: true,
    async *complete({ messages }) {
      requests.push(messages)
      answers += 1
      const usage = { inputTokens: 5, outputTokens: 2, totalTokens: 7, calls: 1 }
      yield { text: 'answer ' }
      yield { text: String(answers) }
      yield { usage, finishReason: 'stop' }
    },
  }
  const orchestration = { strategy: 'sequential' } as const
  const team = testTeam({ agents: [{ name: 'writer', concurrency: 10 }], orchestration }, { modules: { writer } })
  const talk = testTeam({ agents: [{ name: 'speaker', systemPrompt: 'You speak.' }], orchestration }, { model })
  const api = httpApi({
    teams: { desk: team, talk },
    authorize: (request) =>
      bearerToken(TOKEN, { id: 'ann', may: ['run'] })(request) ??
      bearerToken(OTHER_TOKEN, { id: 'bob', may: ['run'] })(request),
    limits: { postsPerSecond: 10_000, getsPerSecond: 10_000, disconnectGraceMs: 0 },
  })
  const server = createServer(api.node).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    await api.close({ teams: true })
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = new OpenAI({ apiKey: TOKEN, baseURL: `${url}/v1`, maxRetries: 0 })
  return { client, url, team, heard: () => requests.at(-1)!.map(({ content }) => content) }
}

// The header `x-dramatis-ignored` names each field of a request that changes nothing, and no other.

const hi = { role: 'user', content: 'hi' }
const image = { type: 'image_url', image_url: { url: 'https://host.example/a.png', detail: 'low' } }
const schema = { type: 'object', properties: {} }

const chats: [fields: object, ignored: string | null][] = [
  [{}, null],
  [{ temperature: 0, seed: 1, user: null, stop: [] }, 'temperature, seed'],
  [{ response_format: { type: 'text' }, n: 1, tool_choice: 'auto', stream: false }, null],
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

const nullable = { type: 'object', properties: { a: { type: 'string', nullable: true } }, required: ['a'] }

/** Formats of answers: what an agent says, and what comes of it. */
const FORMATS: [format: object, said: string, status: number][] = [
  [{ type: 'json_object' }, '{"a":1}', 200],
  [{ type: 'json_object' }, 'no object', 502],
  [{ type: 'json_schema', schema }, '{}', 200],
  [{ type: 'json_schema' }, '[]', 502],
  [{ type: 'json_schema', schema: nullable }, '{"a":null}', 200],
  [{ type: 'json_schema', schema: nullable }, '{"a":1}', 502],
  [{ type: 'text' }, 'words', 200],
  [{ type: 'grammar' }, 'words', 400],
]

t.test('a format binds the answer, in both APIs', async (t) => {
  for (const [format, said, status] of FORMATS) {
    const { send } = stage(t, defineAgent({ receive: async () => said }))
    const { schema, ...named } = Object(format)
    const response_format = { ...named, ...(schema && { json_schema: { name: 'a', schema } }) }
    const asked = [
      ['/v1/chat/completions', { messages: [hi], response_format }, 'response_format.type'],
      ['/v1/responses', { input: 'hi', text: { format } }, 'text.format.type'],
    ] as const
    for (const [path, fields, param] of asked) {
      const { body, headers, ...answer } = await send('POST', path, { body: { model: 'desk', ...fields } })
      t.same([answer.status, headers.get('x-dramatis-ignored')], [status, null], `${path} ${JSON.stringify(format)}`)
      if (status === 400) t.match(body, { error: { param, message: /grammar.*accepted: text, json_object/ } })
    }
  }
})

/** Fields that are used: a test of its own shows how. Any other is named, or refused. */
const USED = {
  chat: ['messages', 'model', 'n', 'response_format', 'stream', 'stream_options', 'tool_choice'],
  responses: ['background', 'input', 'instructions', 'model', 'previous_response_id', 'store', 'stream', 'text'],
}

const namesIn = (file: string, type: string): string[] => {
  const text = readFileSync(new URL(`../../../../node_modules/openai/resources/${file}`, import.meta.url), 'utf8')
  const [, body = ''] = new RegExp(`interface ${type} \\{\\n([\\s\\S]*?)\\n\\}`).exec(text) ?? []
  return [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, name]) => name!)
}

t.test("each field of OpenAI's own client is used, named or refused", async (t) => {
  const all = [
    ['/v1/chat/completions', { messages: [hi] }, 'chat', 'chat/completions/completions.d.ts', 'ChatCompletion'],
    ['/v1/responses', { input: 'hi' }, 'responses', 'responses/responses.d.ts', 'Response'],
  ] as const
  const { send } = stage(t, echo(), {}, ofCode)
  for (const [path, least, api, file, type] of all) {
    const names = namesIn(file, `${type}CreateParamsBase`)
    t.ok(names.length > 20, `${names.length} fields`)
    for (const name of names.filter((each) => !USED[api].includes(each))) {
      const { status, headers, body } = await send('POST', path, { body: { model: 'desk', ...least, [name]: 'other' } })
      if (status === 200) t.equal(headers.get('x-dramatis-ignored'), name)
      else t.match([status, body.error.param], [400, name])
    }
  }
})

/** Requests that cannot be what their client means, and the field that says so. */
const REFUSED: [path: string, fields: object, param: string][] = [
  ['/v1/chat/completions', { functions: [{ name: 'f' }] }, 'functions'],
  ['/v1/chat/completions', { modalities: ['text', 'audio'] }, 'modalities'],
  ['/v1/chat/completions', { audio: { voice: 'ash', format: 'mp3' } }, 'audio'],
  ['/v1/chat/completions', { messages: [hi, { role: 'tool', content: '3' }] }, 'messages[1].tool_call_id'],
  [
    '/v1/chat/completions',
    { messages: [{ role: 'tool', tool_call_id: 'a', content: '3' }, hi] },
    'messages[0].tool_call_id',
  ],
  ['/v1/responses', { input: [{ type: 'function_call_output', call_id: 'a', output: '3' }] }, 'input[0].call_id'],
]

t.test('what a team cannot mean is refused by its place', async (t) => {
  const { send } = stage(t, echo(), {}, ofCode)
  for (const [path, fields, param] of REFUSED) {
    const least = path.endsWith('responses') ? { input: 'hi' } : { messages: [hi] }
    const { status, body } = await send('POST', path, { body: { model: 'desk', ...least, ...fields } })
    t.same([status, body.error?.param], [400, param])
  }
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
