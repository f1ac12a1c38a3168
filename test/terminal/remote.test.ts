/** A team that is served is watched and talked with by its URL. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { listen } from '../../src/service/api/server.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import type { Screen } from '../../src/service/shared/screen.ts'
import { Chat } from '../../src/service/terminal/chat.ts'
import { remoteSource, remoteSources, type Said } from '../../src/service/terminal/source.ts'
import { pluck } from '../kit/lists.ts'
import { silent as noLines } from '../kit/team.ts'
import { all, echo, stage } from '../team/stage.ts'
import { FakeTerminal } from './fake-terminal.ts'

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => unknown

/** A service that answers as it is told, and what it was asked. */
async function served(t: Test, answers: Record<string, Answer>) {
  const asked: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    asked.push(`${request.method} ${request.url} ${request.headers.authorization ?? ''} ${body}`.trim())
    const answer = answers[`${request.method} ${request.url}`]
    if (!answer) return void response.writeHead(404).end('{"detail":"nothing there"}')
    await answer(request, response, body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/agents`, asked, server }
}

const frame = (event: string, data: unknown) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

t.test('the lines of /api/watch are read below any mount, and again when the service was gone', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  await run.result
  const lines = await all(team.digestOf(run.id))
  let visits = 0
  const { url, asked } = await served(t, {
    'GET /agents/api/watch': (_request, response) => {
      visits += 1
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('retry: 1000\n\n: hb\n\n')
      for (const line of lines) response.write(frame('digest', line))
      if (visits === 1)
        response.write('\n', () => response.destroy()) // as if the process was killed
      else response.end()
    },
  })
  const fold = new DigestFold()
  const stop = new AbortController()
  for await (const line of remoteSource(url, 'secret').watch(stop.signal)) {
    fold.read(line)
    if (visits === 2) stop.abort()
  }
  t.match(fold.runs.get(run.id), { status: 'finished' })
  t.equal(asked[0], 'GET /agents/api/watch Bearer secret')
  t.equal(visits, 2)
})

/** Says what teams there are as the dashboard asks, or as clients of OpenAI do. */
const saying: Record<string, Record<string, Answer>> = {
  'the dashboard': {
    'GET /agents/session': (_request, response) =>
      response.end(JSON.stringify({ teams: [{ name: 'desk' }, { name: 'lab 2' }] })),
  },
  '/v1/models': {
    'GET /agents/v1/models': (_request, response) =>
      response.end(JSON.stringify({ data: ['desk', 'desk/writer', 'lab 2', 'lab 2/x'].map((id) => ({ id })) })),
  },
}

for (const [who, answers] of Object.entries(saying))
  t.test(`several teams are chosen from by the URL, as ${who} names them`, async (t) => {
    const { url, asked } = await served(t, answers)
    const named = async (target: string) => (await remoteSources(target, 'secret')).map(({ team }) => team)
    t.same(await named(url), ['desk', 'lab 2'])
    t.same(await named(`${url}/lab%202`), ['lab 2', 'desk'])
    await t.rejects(named(`${url}/none`), {
      message: /no team "none" at .*\/agents\/. There are .*\/agents\/desk, .*lab%202/,
    })
    const [lab] = await remoteSources(`${url}/lab%202/`, 'secret')
    asked.length = 0
    await t.rejects(all(lab.watch(new AbortController().signal)))
    await t.rejects(lab.restart('x'))
    await t.rejects(all(lab.say('hi', 'thread').said))
    t.same(asked, [
      'GET /agents/api/watch?team=lab%202 Bearer secret',
      'POST /agents/api/agents/x/restart?team=lab%202 Bearer secret',
      'POST /agents/api/tasks?deltas=1 Bearer secret {"query":"hi","threadId":"thread","team":"lab 2"}',
    ])
  })

t.test('a service that says nothing of its teams is left as soon as somebody leaves', async (t) => {
  const { url, asked } = await served(t, { 'GET /agents/session': () => {}, 'GET /agents/v1/models': () => {} })
  const leaves = new AbortController()
  const sources = remoteSources(url, undefined, leaves.signal)
  while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve))
  leaves.abort(new Error('left'))
  await t.rejects(sources, { message: 'left' })
})

t.test('a service that names no teams, or has one, is asked without a name', async (t) => {
  const silent = await served(t, {})
  t.same(pluck(await remoteSources(silent.url, undefined), 'team'), [undefined])
  const one = await served(t, {
    'GET /agents/session': (_request, response) => response.end(JSON.stringify({ teams: [{ name: 'desk' }] })),
  })
  for (const target of [one.url, `${one.url}/desk`])
    t.same(pluck(await remoteSources(target, undefined), 'team'), [undefined])
})

t.test('a message is a task of the thread, and its answer comes in pieces; stop cancels it', async (t) => {
  const { url, asked } = await served(t, {
    'POST /agents/api/tasks?deltas=1': (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(frame('task', { id: 'one' }))
      response.write(frame('output.delta', { agent: 'a', chunk: 'not this', final: false }))
      response.write(frame('output.delta', { agent: '$orchestrator', chunk: 'He', final: true }))
      response.write(frame('output.delta', { agent: '$orchestrator', chunk: 'llo\n', final: true }))
      response.end(frame('run.finished', { result: { success: true, finalOutput: 'Hello\n' } }))
    },
    'DELETE /agents/api/tasks/one': (_request, response) => response.writeHead(202).end('{}'),
    'POST /agents/api/tasks/one/answers': (_request, response) => response.writeHead(204).end(),
    'POST /agents/api/agents/a%2Fb/restart': (_request, response) => response.writeHead(202).end('{}'),
  })
  const source = remoteSource(url, undefined)
  const talk = source.say('hi', 'thread 1')
  const said: Said[] = await all(talk.said)
  t.same(said, [{ text: 'He' }, { text: 'llo\n' }, { end: 'answer', text: 'Hello\n' }])
  await talk.stop()
  const question = { runId: 'one', questionId: 'q1', agent: 'a', text: 'Which?', askedAt: 0 }
  await source.answer(question, 'red')
  const approval = { digest: 'd1', by: 'others', groups: [], quorum: 1, agreed: [] }
  await source.answer({ ...question, approval }, 'yes')
  await source.restart('a/b')
  t.same(asked, [
    'POST /agents/api/tasks?deltas=1  {"query":"hi","threadId":"thread 1"}',
    'DELETE /agents/api/tasks/one',
    'POST /agents/api/tasks/one/answers  {"questionId":"q1","answer":"red"}',
    'POST /agents/api/tasks/one/answers  {"questionId":"q1","answer":"yes","digest":"d1"}',
    'POST /agents/api/agents/a%2Fb/restart',
  ])
})

t.test('contexts and progress of agents are asked for while somebody looks, once at a time', async (t) => {
  const context = { messages: 4, tokens: 300, maxTokens: 8_000, summarizeAt: 6_400 }
  const progress = { runId: 'r', taskId: 't', subtask: '1 of 2: dig', subtasks: [], round: 3, maxRounds: 12 }
  let isHeard = () => {}
  const heard = new Promise<void>((resolve) => {
    isHeard = resolve
  })
  const { url, asked } = await served(t, {
    'GET /agents/api/agents?context=1&progress=1&team=lab%202': async (_request, response) => {
      isHeard()
      response.end(
        JSON.stringify({
          agents: [
            { name: 'a', context, progress },
            { name: 'b', context: null },
          ],
        }),
      )
    },
  })
  const source = remoteSource(url, 'secret', 'lab 2')
  t.same([source.context('a'), source.progress('a'), source.progress('b')], [undefined, undefined, undefined])
  await heard
  while (!source.context('a')) await new Promise((resolve) => setImmediate(resolve))
  t.same([source.context('a'), source.progress('a'), source.context('b')], [context, progress, undefined])
  t.same(asked, ['GET /agents/api/agents?context=1&progress=1&team=lab%202 Bearer secret'])
  await source.close()
})

t.test('what the service refuses is said with its words', async (t) => {
  const { url } = await served(t, {})
  const source = remoteSource(url, undefined)
  await t.rejects(all(source.watch(new AbortController().signal)), /GET .*\/agents\/api\/watch: 404 nothing there/)
  await t.rejects(source.restart('a'), /404 nothing there/)
})

t.test('an answer that the end of a service cuts off is gone on with, and nothing of it comes twice', async (t) => {
  const result = { success: true, finalOutput: 'Hello world' }
  let visits = 0
  const { url, asked } = await served(t, {
    'POST /agents/api/tasks?deltas=1': (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(frame('task', { id: 'one' }))
      response.write(frame('output.delta', { chunk: 'Hello', final: true }), () => response.destroy())
    },
    'GET /agents/api/tasks/one/events': (_request, response) => {
      visits += 1
      if (visits === 1) return response.destroy() // it is not there again
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(frame('output.delta', { chunk: 'Hello', final: true }))
      response.end(visits === 2 ? undefined : frame('run.finished', { result }))
    },
  })
  const talk = remoteSource(url, undefined).say('hi', 'thread 1')
  t.same(await all(talk.said), [{ text: 'Hello' }, { text: ' world' }, { end: 'answer', text: 'Hello world' }])
  t.equal(asked.filter((line) => line.startsWith('POST')).length, 1, 'it is asked once')
})

t.test('what a restarted service does not know is said; who stops does not wait for it', async (t) => {
  const { url } = await served(t, {
    'POST /agents/api/tasks?deltas=1': (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(frame('task', { id: 'one' }) + frame('output.delta', { chunk: 'Hel', final: true }))
    },
  })
  await t.rejects(all(remoteSource(url, undefined).say('hi', 'thread 1').said), /tasks\/one\/events: 404 nothing there/)
  const stopped = remoteSource(url, undefined).say('hi', 'thread 1')
  const said = stopped.said[Symbol.asyncIterator]()
  t.same((await said.next()).value, { text: 'Hel' })
  const rest = said.next()
  rest.catch(() => {})
  await t.rejects(stopped.stop(), /404 nothing there/)
  await t.rejects(rest)
})

t.test('a service that does not answer is named, once, with what to do', async (t) => {
  const { url, server } = await served(t, {})
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  const terminal = new FakeTerminal()
  const chat = new Chat({
    source: remoteSource(url, undefined),
    screen: terminal.screen as Screen,
    input: Readable.from([]),
    tell: async () => {},
    isTerminal: false,
    signal: new AbortController().signal,
  })
  t.equal(await chat.talk('hi'), false)
  t.match(terminal.text, /^error: http:\/\/127\.0\.0\.1:\d+\/agents\/ does not answer: .*ECONNREFUSED.*dramatis serve/)
  t.equal(terminal.text.trim().split('\n').length, 1)
})

t.test('who may not watch has a conversation all the same, with the questions of the own tasks', async (t) => {
  const asks = defineAgent({
    receive: async (_message, context) => `It is ${await context.ask('Which one?', { choices: ['red', 'green'] })}.`,
  })
  const team = stage(t, { a: asks })
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'ann', may: ['run'] }), logger: noLines })
  const server = await listen(api, { port: 0, host: '127.0.0.1' })
  t.teardown(() => server.close(0))
  const terminal = new FakeTerminal()
  const talking = new Chat({
    source: remoteSource(server.url, 'ann'),
    screen: terminal.screen as Screen,
    input: terminal.keys,
    tell: async () => {},
    isTerminal: true,
    signal: new AbortController().signal,
  }).talk('choose')
  await terminal.shows('? a asks: Which one?  1 red  2 green')
  terminal.press('2\r')
  await terminal.shows(/You, to a: green[\s\S]*It is green\./)
  terminal.press('\u0004')
  t.equal(await talking, true)
})
