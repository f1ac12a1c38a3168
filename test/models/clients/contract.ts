/**
 * What holds for each client of models. `clientContract`: for every one, also those that contact nobody.
 * `providerContract`: for those in front of a server, whatever wire it speaks.
 */
import type { Test } from 'tap'
import type { ModelClient, ModelMessage, ModelRequest } from '../../../src/actors/definition/model.ts'
import { type Collected, collect, nothingYet } from '../../../src/runtime/providers/collect.ts'
import type { ModelError, ModelFailureReason } from '../../../src/shared/errors.ts'
import { type ModelServer, modelServer, type SeenCall } from '../../fixtures/model-server.ts'
import type { Answer, Asked, Wire } from '../../fixtures/wires/wire.ts'
import { BOTH, errorOf, request } from '../../runtime/models/asking.ts'

export const TOOLS = ['look', 'add'].map((name) => ({
  name,
  description: `It can ${name}.`,
  inputSchema: { type: 'object', properties: { at: { type: 'string' } }, required: ['at'] },
}))

const CALLS = [
  { name: 'look', input: { at: 'one' } },
  { name: 'add', input: { at: 'two' } },
]

/** An answer as the team gets it. */
export async function collected(
  client: ModelClient,
  more: Partial<ModelRequest> = {},
): Promise<Collected & { said: string[] }> {
  const into = nothingYet()
  const said: string[] = []
  await collect(client, request(more), into, (heard) => void (heard.part === 'text' && said.push(heard.text)))
  return { ...into, said }
}

/** `open` gives a client that answers so; undefined: it answers as it likes. */
export function clientContract(
  t: Test,
  name: string,
  open: (t: Test, answer: Answer) => ModelClient | Promise<ModelClient>,
): void {
  t.test(`${name}: a text has an end, and its tokens are counted`, async (t) => {
    for (const how of BOTH) {
      const { text, said, finishReason, usage, toolCalls } = await collected(await open(t, { text: 'Four.' }), how)
      t.ok(text.length > 0)
      t.equal(said.join(''), text)
      t.equal(finishReason, 'stop')
      t.same(toolCalls, [])
      t.equal(usage.calls, 1)
      t.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens)
    }
  })

  t.test(`${name}: a call of a tool comes whole, with its id and its input as JSON`, async (t) => {
    for (const how of BOTH) {
      const [tool] = TOOLS
      const client = await open(t, { toolCalls: [CALLS[0]!] })
      const { toolCalls, finishReason } = await collected(client, { ...how, tools: [tool!] })
      t.equal(toolCalls.length, 1)
      t.match(toolCalls, [{ id: /./, name: 'look' }])
      t.type(JSON.parse(toolCalls[0]!.input).at, 'string')
      t.equal(finishReason, 'tool_calls')
    }
  })

  t.test(`${name}: a call that is withdrawn before it begins rejects with the reason`, async (t) => {
    const client = await open(t, { text: 'Four.' })
    const reason = new Error('nobody wants it')
    const pieces = client.complete(request({ signal: AbortSignal.abort(reason) }))
    await t.rejects(async () => {
      for await (const _ of pieces) t.fail('there was a piece')
    }, reason)
  })

  t.test(`${name}: a caller can leave after the first piece`, async (t) => {
    const client = await open(t, { text: ['One', ' two', ' three', ' four', ' five'] })
    let count = 0
    for await (const _ of client.complete(request({ stream: true }))) {
      count += 1
      break
    }
    t.equal(count, 1)
  })
}

/** A client in front of a server. */
export interface Subject {
  readonly name: string
  readonly wire: Wire
  client(server: ModelServer): ModelClient
  /** Key that its calls have. */
  readonly key: string
  /** The wire has no ids for calls of tools: the client makes them. */
  readonly hasNoIds?: boolean
  /** What comes back of reasoning. */
  readonly keeps: 'signature' | 'text'
  /** An event of a stream of a type that nobody knows. */
  readonly unknownEvent: string
  /** An event that reports an overload in the middle of a stream. */
  readonly errorEvent: string
  /** Body of a refusal because the conversation is too long. */
  readonly tooLong: object
  /** A stream that ends without saying so counts as whole: servers of this wire leave the end out. */
  readonly endsAnyhow?: boolean
}

const REASONING = { text: 'First I look.', signature: 'c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg==' }
const PIXEL = 'iVBORw0KGgo='

export function providerContract(t: Test, subject: Subject): void {
  const { name, wire } = subject
  const opened = async (t: Test) => {
    const server = await modelServer(t, wire)
    return { server, client: subject.client(server) }
  }
  const asked = (call: SeenCall | undefined): Asked => wire.asked(call!.body)
  clientContract(t, name, async (t, answer) => {
    const { server, client } = await opened(t)
    server.always(answer)
    return client
  })

  t.test(`${name}: the conversation reaches the provider, with its key and its bounds`, async (t) => {
    const { server, client } = await opened(t)
    server.always('Four.')
    const messages: ModelMessage[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Two and two?' },
    ]
    for (const how of BOTH) {
      const headers = { 'x-desk': 'one' }
      await collected(client, { messages, maxOutputTokens: 50, idempotencyKey: 'k-1', headers, ...how })
      const call = server.calls.at(-1)!
      t.match(asked(call), { system: 'Be brief.', maxTokens: 50 })
      t.equal(call.prompt, 'Two and two?')
      t.match(call.headers, { 'idempotency-key': 'k-1', 'x-desk': 'one' })
      t.match(JSON.stringify(call.headers), subject.key)
    }
  })

  t.test(`${name}: a stream comes piece by piece`, async (t) => {
    const { server, client } = await opened(t)
    let open = () => {}
    const between = new Promise<void>((resolve) => {
      open = resolve
    })
    server.answer({ text: ['One', ' two'], between })
    const said: string[] = []
    const into = nothingYet()
    await collect(client, request({ stream: true }), into, (heard) => {
      if (heard.part === 'text') said.push(heard.text)
      open()
    })
    t.same(said, ['One', ' two'])
  })

  t.test(`${name}: several calls of one answer keep their order`, async (t) => {
    const { server, client } = await opened(t)
    server.always({ text: 'I look.', toolCalls: CALLS })
    for (const how of BOTH) {
      const { text, toolCalls, finishReason } = await collected(client, { tools: TOOLS, ...how })
      t.equal(text, 'I look.')
      t.match(toolCalls, [{ name: 'look' }, { name: 'add' }])
      t.same(
        toolCalls.map(({ input }) => JSON.parse(input)),
        CALLS.map(({ input }) => input),
      )
      t.equal(new Set(toolCalls.map(({ id }) => id)).size, 2)
      t.equal(finishReason, 'tool_calls')
      t.same(asked(server.calls.at(-1)).tools, ['look', 'add'])
    }
  })

  t.test(`${name}: a thousand calls in one answer are read`, async (t) => {
    const { server, client } = await opened(t)
    server.always({ toolCalls: Array.from({ length: 1_000 }, (_, at) => ({ name: 'add', input: { at: `${at}` } })) })
    for (const how of BOTH) {
      const { toolCalls } = await collected(client, { tools: TOOLS, ...how })
      t.equal(toolCalls.length, 1_000)
      t.equal(JSON.parse(toolCalls[999]!.input).at, '999')
    }
  })

  t.test(`${name}: two calls with the same id get ids of their own`, { skip: subject.hasNoIds }, async (t) => {
    const { server, client } = await opened(t)
    server.always({ toolCalls: CALLS.map((call) => ({ ...call, id: 'same' })) })
    const { toolCalls } = await collected(client, { tools: TOOLS })
    t.equal(new Set(toolCalls.map(({ id }) => id)).size, toolCalls.length)
    t.ok(toolCalls.length > 0)
  })

  t.test(`${name}: results of tools go back in order, with the reasoning before their calls`, async (t) => {
    for (const how of BOTH) {
      const { server, client } = await opened(t)
      server.answer({ reasoning: REASONING, text: 'I look.', toolCalls: CALLS })
      const first = await collected(client, { tools: TOOLS, ...how })
      const reasoning = first.parts.filter(({ type }) => type === 'reasoning')
      t.equal(reasoning.map(({ text }) => text).join(''), REASONING.text)
      t.equal(first.text, 'I look.', 'reasoning is no part of the text')
      server.answer('Seen.')
      const messages: ModelMessage[] = [
        { role: 'user', content: 'Look.' },
        { role: 'assistant', content: first.parts.map(({ block: _, ...part }) => part), toolCalls: first.toolCalls },
        ...first.toolCalls.map(({ id }, at) => ({ role: 'tool' as const, toolCallId: id, content: `seen ${at}` })),
      ]
      t.equal((await collected(client, { tools: TOOLS, messages, ...how })).text, 'Seen.')
      t.match(asked(server.calls[1]), {
        calls: ['look', 'add'],
        results: ['seen 0', 'seen 1'],
        reasoning: [REASONING[subject.keeps]],
      })
    }
  })

  t.test(`${name}: the calls of a tool that is gone stay in the conversation`, async (t) => {
    const { server, client } = await opened(t)
    server.always('Seen.')
    const messages: ModelMessage[] = [
      { role: 'user', content: 'Look.' },
      { role: 'assistant', content: '', toolCalls: [{ id: 'c1', name: 'gone', input: 'no JSON' }] },
      { role: 'tool', toolCallId: 'c1', content: 'There is no tool "gone".' },
    ]
    t.equal((await collected(client, { tools: TOOLS, messages })).text, 'Seen.')
    t.match(asked(server.calls[0]), { calls: ['gone'], results: ['There is no tool "gone".'] })
  })

  t.test(`${name}: an image reaches the provider`, async (t) => {
    const { server, client } = await opened(t)
    server.always('A dot.')
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image', data: PIXEL, mediaType: 'image/png' },
    ] as const
    t.equal((await collected(client, { messages: [{ role: 'user', content }] })).text, 'A dot.')
    t.same(asked(server.calls[0]).media, [PIXEL])
  })

  t.test(`${name}: an image in the result of a tool reaches the provider as an image`, async (t) => {
    const { server, client } = await opened(t)
    server.always('A dot.')
    const image = { type: 'image', data: PIXEL, mediaType: 'image/png' } as const
    const messages: ModelMessage[] = [
      { role: 'user', content: 'Look.' },
      { role: 'assistant', content: '', toolCalls: [{ id: 'c1', name: 'look', input: '{"at":"one"}' }] },
      { role: 'tool', toolCallId: 'c1', content: [{ type: 'text', text: 'seen' }, image] },
    ]
    t.equal((await collected(client, { tools: TOOLS, messages })).text, 'A dot.')
    t.match(asked(server.calls[0]), { results: ['seen'], media: [PIXEL] })
  })

  t.test(`${name}: tokens of the cache and of reasoning are counted apart`, async (t) => {
    const { server, client } = await opened(t)
    server.always({ text: 'Four.', usage: { inputTokens: 30, outputTokens: 9, cachedTokens: 20, reasoningTokens: 5 } })
    for (const how of BOTH) {
      const { usage } = await collected(client, how)
      t.match(usage, { inputTokens: 30, outputTokens: 9, totalTokens: 39, cachedTokens: 20, calls: 1 })
      t.ok(usage.reasoningTokens === 5 || usage.reasoningTokens === undefined) // Anthropic does not say
    }
  })

  t.test(`${name}: an answer says why it ended`, async (t) => {
    const { server, client } = await opened(t)
    for (const how of BOTH)
      for (const finishReason of ['length', 'content_filter'] as const) {
        server.answer({ text: 'Fo', finishReason })
        t.equal((await collected(client, how)).finishReason, finishReason)
      }
  })

  t.test(`${name}: each refusal has its reason, and is worth another try or not`, async (t) => {
    const { server, client } = await opened(t)
    const refusals: [status: number, reason: ModelFailureReason, retryable: boolean][] = [
      [400, 'rejected', false],
      [401, 'auth', false],
      [403, 'auth', false],
      [404, 'not_found', false],
      [413, 'too_long', false],
      [429, 'rate_limit', true],
      [500, 'server', true],
      [503, 'server', true],
      [529, 'server', true],
    ]
    for (const how of BOTH)
      for (const [status, reason, retryable] of refusals) {
        server.answer({ status, headers: status === 429 ? { 'retry-after': '7' } : {} })
        const { modelFailure } = await errorOf(client, how)
        t.match(modelFailure, { reason, status, retryable, model: 'small' }, `${status}`)
        if (status === 429) t.equal(modelFailure?.retryAfterMs, 7_000)
      }
    server.answer({ status: 400, body: subject.tooLong })
    t.match((await errorOf(client)).modelFailure, { reason: 'too_long', retryable: false })
  })

  t.test(`${name}: headers of an answer and of a refusal are passed on, for the limits in them`, async (t) => {
    const { server, client } = await opened(t)
    const headers = { 'x-ratelimit-remaining-requests': '0' }
    server.answer({ text: 'Four.', headers }, { status: 429, headers })
    const seen: (string | null)[] = []
    const onHeaders = (given: Headers) => void seen.push(given.get('x-ratelimit-remaining-requests'))
    await collected(client, { onHeaders })
    await errorOf(client, { onHeaders })
    t.same(seen, ['0', '0'])
  })

  t.test(`${name}: a server that cannot be reached can be asked again`, async (t) => {
    const { server, client } = await opened(t)
    await server.close()
    for (const how of BOTH) {
      const error = await errorOf(client, how)
      t.match(error.message, 'refuses the connection (ECONNREFUSED)')
      t.match(error.modelFailure, { reason: 'unreachable', retryable: true })
    }
  })

  t.test(`${name}: an answer that breaks off can be asked for again`, async (t) => {
    const { server, client } = await opened(t)
    for (const how of BOTH) {
      const breaks: Answer[] = [{ hangUp: 'at once' }, { text: 'Fo', hangUp: 'in the body' }]
      for (const answer of breaks) {
        server.answer(answer)
        t.match((await errorOf(client, how)).modelFailure, { retryable: true })
      }
    }
    server.answer({ text: ['Fo', 'ur', '.'], hangUp: 2 })
    t.match((await errorOf(client, { stream: true })).modelFailure, { reason: 'unreachable', retryable: true })
  })

  t.test(`${name}: a stream that ends in the middle is no answer`, async (t) => {
    const { server, client } = await opened(t)
    const all = wire.events({ number: 1, path: '', body: { model: 'small' } }, { text: ['Fo', 'ur'] })
    const ends = all.findIndex((text) => text.includes('ur'))
    server.answer({ events: all.slice(0, ends + 1) })
    if (subject.endsAnyhow) t.equal((await collected(client, { stream: true })).text, 'Four')
    else t.match((await errorOf(client, { stream: true })).modelFailure, { reason: 'unreachable', retryable: true })
    server.answer({ events: [] })
    t.match((await errorOf(client, { stream: true })).modelFailure, { retryable: true })
  })

  t.test(`${name}: an error in the middle of a stream is the provider's failure`, async (t) => {
    const { server, client } = await opened(t)
    const all = wire.events({ number: 1, path: '', body: { model: 'small' } }, { text: ['Fo', 'ur'] })
    server.answer({ events: [...all.slice(0, -2), subject.errorEvent] })
    t.match((await errorOf(client, { stream: true })).modelFailure, { reason: 'server', retryable: true })
  })

  t.test(`${name}: an event of an unknown type ends nothing`, async (t) => {
    const { server, client } = await opened(t)
    const all = wire.events({ number: 1, path: '', body: { model: 'small' } }, { text: ['Fo', 'ur'] })
    const at = all.length - 2
    server.answer({ events: [...all.slice(0, at), subject.unknownEvent, ...all.slice(at)] })
    const outcome = await collected(client, { stream: true }).catch((error: ModelError) => error)
    if ('text' in outcome) t.equal(outcome.text, 'Four')
    else t.match(outcome.modelFailure, { reason: 'invalid_answer' })
  })

  t.test(`${name}: half a part, or what is no answer at all, is an error of its own`, async (t) => {
    const { server, client } = await opened(t)
    const bodies = ['{"half":', 'no JSON', '[]', '{}', 'null', '{"candidates":[{"content":{"parts":[{"functionCall":']
    for (const body of bodies) {
      server.answer({ body })
      const { modelFailure } = await errorOf(client)
      t.ok(['invalid_answer', 'unreachable'].includes(modelFailure!.reason), `${body}: ${modelFailure!.reason}`)
      server.answer({ events: [`data: ${body}\n\n`] })
      const { modelFailure: streamed } = await errorOf(client, { stream: true })
      t.ok(['invalid_answer', 'unreachable'].includes(streamed!.reason), `stream of ${body}: ${streamed!.reason}`)
    }
  })

  t.test(`${name}: a call that is withdrawn reaches the socket`, async (t) => {
    const { server, client } = await opened(t)
    for (const how of BOTH) {
      const reason = new Error('nobody wants it')
      const left = new AbortController()
      server.answer({ text: 'Late.', after: new Promise(() => {}) })
      const number = server.calls.length + 1
      const waiting = collected(client, { ...how, signal: left.signal })
      const call = await server.called(number)
      left.abort(reason)
      await t.rejects(waiting, { code: 'CANCELLED' })
      t.equal(await call.ended, 'left')
    }
  })

  t.test(`${name}: a stream that is withdrawn in the middle reaches the socket`, async (t) => {
    const { server, client } = await opened(t)
    const left = new AbortController()
    server.answer({ text: ['One', ' two'], between: new Promise(() => {}) })
    const into = nothingYet()
    const waiting = collect(client, request({ stream: true, signal: left.signal }), into, () => left.abort())
    await t.rejects(waiting, { code: 'CANCELLED' })
    t.equal(await server.calls[0]!.ended, 'left')
  })

  t.test(`${name}: a caller that leaves a stream leaves its socket`, async (t) => {
    const { server, client } = await opened(t)
    server.answer({ text: ['One', ' two'], between: new Promise(() => {}) })
    for await (const { text } of client.complete(request({ stream: true }))) if (text) break
    t.equal(await server.calls[0]!.ended, 'left')
  })

  t.test(`${name}: neither the key nor the prompt is in an error`, async (t) => {
    const { server, client } = await opened(t)
    const prompt = 'Our secret plan is to paint the harbour blue on Tuesday.'
    const messages: ModelMessage[] = [{ role: 'user', content: prompt }]
    const echoes = [`I do not understand "${prompt}".`, `{"messages":[{"content":"${prompt}"}]}`]
    for (const how of BOTH)
      for (const echo of echoes)
        for (const answer of [
          { status: 400, body: wire.error(400, echo) },
          { body: wire.error(400, echo) },
          { body: echo },
        ]) {
          server.answer(answer)
          const error = await errorOf(client, { ...how, messages })
          const all = `${error.stack} ${JSON.stringify(error)} ${error.cause}`
          t.notOk(all.includes('harbour'), echo)
          t.notOk(all.includes(subject.key))
        }
  })
}
