/** Streams of events, and many clients at once. */

import { once } from 'node:events'
import { type ClientRequest, createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { defineAgent, type RuntimeEvent } from '../../../src/index.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { Dice } from '../../dice.ts'
import { pluck } from '../../kit/lists.ts'
import { FakeModel } from '../../models/fake-model.ts'
import { EVERYTHING, echo, type Stage, send, stage } from './stage.ts'

// Streams of events: whole, resumed without a gap, bounded, and harmless.

/** Writes as many entries as it is told, and answers when it is released. */
function writer() {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const agent = defineAgent({
    async receive({ content }, context) {
      for (let n = 1; n <= Number(content); n++) await context.blackboard!.write(`entry.n${n}`, n, 'number')
      await released
      return 'written'
    },
  })
  return { agent, release: () => release() }
}

t.test('a stream has all events with their places in the log, and ends with the run', async (t) => {
  const { send, team } = stage(t)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'hello' } })
  const { headers, body } = await send('GET', `/api/tasks/${task.id}/events`)
  t.equal(headers.get('content-type'), 'text/event-stream; charset=utf-8')
  t.equal(headers.get('cache-control'), 'no-store, no-transform')
  t.equal(headers.get('x-accel-buffering'), 'no')
  t.match(body, /^retry: 1000\n\n/)
  const frames = framesOf(body)
  t.same(
    pluck(frames, 'id'),
    frames.map(({ data }) => `${team.logName}.${data.seq}`),
  )
  t.equal(frames[0]!.event, 'run.started')
  t.match(frames.at(-1), { event: 'run.finished', data: { result: { success: true, finalOutput: 'heard: hello' } } })
  const expected: RuntimeEvent<unknown>[] = []
  for await (const event of team.getRun(task.id)!.events()) expected.push(event)
  t.same(
    frames.map(({ data }) => data.seq),
    pluck(expected, 'seq'),
  )
})

t.test('a stream goes on behind the last event that was seen, and 204 says that there is none', async (t) => {
  const { send } = stage(t)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'hello' } })
  const path = `/api/tasks/${task.id}/events`
  const all = framesOf((await send('GET', path)).body)
  for (const [at, { id }] of all.entries()) {
    const byHeader = await send('GET', path, { headers: { 'last-event-id': id! } })
    const byQuery = await send('GET', `${path}?after=${id}`)
    t.equal(byHeader.status, at === all.length - 1 ? 204 : 200)
    t.same(framesOf(byHeader.body), all.slice(at + 1))
    t.equal(byQuery.body, byHeader.body)
  }
})

t.test('an id of another log begins anew, and says so', async (t) => {
  const { send } = stage(t)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'hello' } })
  const path = `/api/tasks/${task.id}/events`
  const all = framesOf((await send('GET', path)).body)
  const [reset, ...rest] = framesOf((await send('GET', path, { headers: { 'last-event-id': 'other.7' } })).body)
  t.equal(reset!.event, 'reset')
  t.same(rest, all)
})

t.test('a task that is begun with deltas=1 has pieces for those who read it later', async (t) => {
  const model = new FakeModel([[{ text: 'one ' }, { text: 'two' }]])
  const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { model })
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'ann', may: ['run'] }) })
  t.teardown(() => api.close({ teams: true }))
  const headers = { prefer: 'respond-async' }
  const { body } = await send(api, 'POST', '/api/tasks?deltas=1', { body: { query: 'go' }, headers })
  await team.getRun(body.id)!.result
  const told = await send(api, 'GET', `/api/tasks/${body.id}/events?deltas=1&types=model.delta,run.finished`, {})
  t.match(told.body, /"text":"one ".*"text":"two"/s)
})

t.test('types= selects events; pieces of answers come only with deltas=1', async (t) => {
  const emitting = defineAgent({
    receive(_message, context) {
      for (const word of ['one ', 'two']) context.emit(word)
      return 'one two'
    },
  })
  const { send } = stage(t, emitting)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'count', stream: true } })
  const path = `/api/tasks/${task.id}/events`
  const types = async (query: string) => framesOf((await send('GET', path + query)).body).map(({ event }) => event)
  t.same(await types('?types=run.started,run.finished'), ['run.started', 'run.finished'])
  t.notOk((await types('')).includes('output.delta'))
  t.notOk((await types('?types=output.delta')).includes('output.delta'))
  const refused = await send('GET', `${path}?types=run.started,run.finish`)
  t.match(refused, { status: 422, body: { code: 'CONFIGURATION', details: { path: 'types' } } })
  t.match(refused.body.detail, /^types: got "run\.finish"; accepted: run\.started, .* Did you mean "run\.finished"\?$/)
  t.ok((await types('?deltas=1')).includes('output.delta'))
})

t.test('as NDJSON each line is an event with its id', async (t) => {
  const { send } = stage(t)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'hello' } })
  const headers = { accept: 'application/x-ndjson' }
  const { body } = await send('GET', `/api/tasks/${task.id}/events`, { headers })
  const lines = body
    .trim()
    .split('\n')
    .map((line: string) => JSON.parse(line))
  t.equal(lines[0].type, 'run.started')
  t.match(lines.at(-1), { id: `${lines.at(-1).id.split('.')[0]}.${lines.at(-1).seq}`, type: 'run.finished' })
})

t.test('a posted task can be streamed; with its key the same stream is gone on with by posting again', async (t) => {
  const { send } = stage(t)
  const accept = 'text/event-stream'
  const request = { body: { query: 'hello' }, headers: { accept, 'idempotency-key': 'k' } }
  const all = framesOf((await send('POST', '/api/tasks', request)).body)
  t.match(all[0], { event: 'task', id: undefined, data: { query: 'hello' } })
  const seen = all[2]!.id!
  const again = { ...request, headers: { ...request.headers, 'last-event-id': seen } }
  const rest = framesOf((await send('POST', '/api/tasks', again)).body)
  t.match(rest[0], { event: 'task', data: { id: all[0]!.data.id, status: 'finished' } })
  t.same(rest.slice(1), all.slice(3))
})

t.test('a connection that is cut at any event misses none and gets none twice', async (t) => {
  const { agent, release } = writer()
  const { send, api } = stage(t, agent, { limits: { streams: 10_000, streamsPerCaller: 10_000 } })
  const { body: task } = await send('POST', '/api/tasks', {
    body: { query: '40' },
    headers: { prefer: 'respond-async' },
  })
  const path = `/api/tasks/${task.id}/events`
  let random = 7
  const dice = (sides: number) => {
    random = (random * 48_271) % 2_147_483_647
    return random % sides
  }
  const client = async () => {
    const seen: string[] = []
    for (;;) {
      const { ids, isOver } = await readSome(api, path, seen.at(-1), 1 + dice(6))
      seen.push(...ids)
      if (isOver) return seen
    }
  }
  const clients = Array.from({ length: 20 }, client)
  release()
  const expected = framesOf((await send('GET', path)).body).map(({ id }) => id)
  t.ok(expected.length > 80)
  for (const seen of await Promise.all(clients)) t.same(seen, expected)
})

t.test('a silent stream sends comments; a caller has so many streams', async (t) => {
  const { agent } = writer()
  const { send, api } = stage(t, agent, { limits: { heartbeatMs: 1, streamsPerCaller: 1 } })
  const { body: task } = await send('POST', '/api/tasks', {
    body: { query: '1' },
    headers: { prefer: 'respond-async' },
  })
  const path = `/api/tasks/${task.id}/events`
  const reader = await open(api, path)
  let text = ''
  while (!text.includes(': hb\n\n')) text += await read(reader)
  t.match(await send('GET', path), { status: 429, body: { detail: /limits.streamsPerCaller/ } })
  await reader.cancel()
  await (await open(api, path)).cancel()
})

t.test('a client that reads nothing is cut, and its place is free', async (t) => {
  const { agent } = writer()
  const { send, api } = stage(t, agent, { limits: { unreadMs: 1, streamsPerCaller: 1 } })
  const { body: task } = await send('POST', '/api/tasks', {
    body: { query: '1' },
    headers: { prefer: 'respond-async' },
  })
  const reader = await open(api, `/api/tasks/${task.id}/events`)
  await t.rejects(reader.closed, /The client has read nothing for 1 ms/)
  t.match((await send('GET', '/metrics')).body, /http_streams 0$/m)
})

t.test(
  'watching changes nothing: a run with fifty readers has the records and the verdict of one without',
  async (t) => {
    const waiting = defineAgent({
      async receive({ content }, context) {
        await context.blackboard!.write('seen', content, 'text')
        await context.blackboard!.waitFor('never')
        return 'never'
      },
    })
    const played = async (readers: number) => {
      const { send, team } = stage(t, waiting, { limits: { streams: 100, streamsPerCaller: 100 } })
      const { body: task } = await send('POST', '/api/tasks', {
        body: { query: 'q' },
        headers: { prefer: 'respond-async' },
      })
      const path = `/api/tasks/${task.id}`
      const reading = Array.from({ length: readers }, () => send('GET', `${path}/events?deltas=1`))
      if (readers > 0) await Promise.all(['/blackboard', '/messages', '/trace', ''].map((at) => send('GET', path + at)))
      await team.clock.runToIdle()
      const { body: end } = await send('GET', `${path}?wait=30`)
      await Promise.all(reading)
      const { body } = await send('GET', `${path}/events`)
      return { error: end.error.detail, types: framesOf(body).map(({ event }) => event) }
    }
    const alone = await played(0)
    t.match(alone.error, /StallError/)
    t.same((await played(50)).types, alone.types)
  },
)

/** Reads the events of a task that does not end by itself. */
async function endless(t: Test) {
  const { api, send } = stage(
    t,
    echo(() => new Promise(() => {})),
  )
  const request = { body: { query: 'q' }, headers: { prefer: 'respond-async' } }
  const { body: task } = await send('POST', '/api/tasks', request)
  const reading = send('GET', `/api/tasks/${task.id}/events`)
  while (!/http_streams 1$/m.test((await send('GET', '/metrics')).body)) await new Promise(setImmediate)
  return { api, reading }
}

t.test('close ends streams with their last event, when it closes the teams', async (t) => {
  const { api, reading } = await endless(t)
  await api.close({ teams: true })
  t.match(framesOf((await reading).body).at(-1), { event: 'run.finished', data: { result: { success: false } } })
})

t.test('close ends streams at once where the teams stay', async (t) => {
  const { api, reading } = await endless(t)
  await api.close()
  t.notMatch((await reading).body, /run.finished/)
})

t.test('what is no id of an event is refused before a stream begins', async (t) => {
  const { agent } = writer()
  const { send } = stage(t, agent)
  const { body: task } = await send('POST', '/api/tasks', {
    body: { query: '1' },
    headers: { prefer: 'respond-async' },
  })
  const wrong = { headers: { 'last-event-id': 'no id' } }
  t.match(await send('GET', `/api/tasks/${task.id}/events`, wrong), { status: 422, body: { code: 'CONFIGURATION' } })
})

t.test('HEAD of a stream opens none', async (t) => {
  const { send, api } = stage(t)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'q' } })
  const headers = { 'x-caller': EVERYTHING }
  const request = new Request(`http://localhost/api/tasks/${task.id}/events`, { method: 'HEAD', headers })
  t.equal((await api.fetch(request)).status, 200)
  t.match((await send('GET', '/metrics')).body, /http_streams 0$/m)
})

interface Frame {
  id: string | undefined
  event: string
  // biome-ignore lint/suspicious/noExplicitAny: events of all types
  data: any
}

function framesOf(text: string): Frame[] {
  return text.split('\n\n').flatMap((frame) => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(frame)?.[1]
    const data = field('data')
    return data === undefined ? [] : [{ id: field('id'), event: field('event')!, data: JSON.parse(data) }]
  })
}

type Reader = ReadableStreamDefaultReader<Uint8Array>

async function open(api: Stage['api'], path: string, last?: string): Promise<Reader> {
  const headers = { 'x-caller': EVERYTHING, ...(last && { 'last-event-id': last }) }
  const response = await api.fetch(new Request(`http://localhost${path}`, { headers }))
  return (response.body ?? new ReadableStream({ start: (controller) => controller.close() })).getReader()
}

const read = async (reader: Reader): Promise<string> => new TextDecoder().decode((await reader.read()).value)

/** Reads so many chunks, then leaves. */
async function readSome(api: Stage['api'], path: string, last: string | undefined, chunks: number) {
  const reader = await open(api, path, last)
  let text = ''
  for (let n = 0; n <= chunks; n++) {
    const { value, done } = await reader.read()
    if (done) return { ids: idsIn(text), isOver: true }
    text += new TextDecoder().decode(value)
  }
  await reader.cancel()
  return { ids: idsIn(text), isOver: false }
}

const idsIn = (text: string) => framesOf(text).map(({ id }) => id!)

// Many clients at once, over real connections: 50 tasks, and 1,000 connections that are cut at random.

const LIMITS = { tasksPerCaller: 100, streamsPerCaller: 2_000, streams: 2_000 }

t.test('50 tasks at once: each has its own answer', async (t) => {
  const agent = defineAgent({
    async receive({ content }, context) {
      await context.sleep(0)
      return `heard: ${content}`
    },
  })
  const { url } = await listening(t, stage(t, agent, { limits: LIMITS }, { concurrency: 50 }))
  const answers = Array.from({ length: 50 }, async (_, n) => {
    const headers = { 'x-caller': EVERYTHING, 'content-type': 'application/json' }
    const body = JSON.stringify({ query: `task ${n}` })
    const response = await fetch(`${url}/api/tasks`, { method: 'POST', headers, body })
    return ((await response.json()) as { answer: string }).answer
  })
  t.same(
    await Promise.all(answers),
    answers.map((_, n) => `heard: task ${n}`),
  )
})

t.test('1,000 connections cut at random while a task runs: no event is missed, none comes twice', async (t) => {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const agent = defineAgent({
    async receive(_message, context) {
      for (let n = 1; n <= 30; n++) await context.blackboard!.write(`entry.n${n}`, n, 'number')
      await released
      for (let n = 31; n <= 60; n++) await context.blackboard!.write(`entry.n${n}`, n, 'number')
      return 'done'
    },
  })
  const { url, send } = await listening(t, stage(t, agent, { limits: LIMITS }))
  const { body: task } = await send('POST', '/api/tasks', {
    body: { query: 'q' },
    headers: { prefer: 'respond-async' },
  })
  const path = `${url}/api/tasks/${task.id}/events`
  const dice = new Dice(7)
  let cuts = 0
  const client = async (): Promise<string[]> => {
    const seen: string[] = []
    for (;;) {
      const isLast = cuts >= 1_000
      cuts += 1
      const isOver = await reading(path, seen, isLast ? Number.POSITIVE_INFINITY : 1 + dice.upTo(2_000))
      if (cuts > 500) release()
      if (isOver) return seen
    }
  }
  const clients = await Promise.all(Array.from({ length: 20 }, client))
  t.ok(cuts >= 1_000, `${cuts} connections`)
  const whole: string[] = []
  await reading(path, whole, Number.POSITIVE_INFINITY)
  t.ok(whole.length > 120)
  for (const seen of clients) t.same(seen, whole)
})

/** Reads so many bytes of a stream, wherever in a frame they end, then cuts the connection. Resolves to true at its end. */
function reading(url: string, seen: string[], most: number): Promise<boolean> {
  const last = seen.at(-1)
  const headers = { 'x-caller': EVERYTHING, ...(last !== undefined && { 'last-event-id': last }) }
  return new Promise((resolve, reject) => {
    let text = ''
    const asked: ClientRequest = httpRequest(url, { headers }, (response) => {
      const whole = () => [...text.matchAll(/^id: (.+)\nevent: .+\ndata: .+\n\n/gm)].map(([, id]) => id!)
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
        if (text.length < most) return
        text = text.slice(0, most)
        seen.push(...whole())
        asked.destroy()
        response.removeAllListeners()
        response.on('error', () => {})
        resolve(false)
      })
      response.on('end', () => {
        seen.push(...whole())
        resolve(true)
      })
      response.on('error', reject)
    })
    asked.on('error', (error) => (text.length < most ? reject(error) : undefined))
    asked.end()
  })
}

async function listening(t: Test, given: Stage): Promise<Stage & { url: string }> {
  const server = createServer(given.api.node).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { ...given, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
