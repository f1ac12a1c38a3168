/** `dramatis chat`, and teams that are watched and talked with by their URL. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { type AgentDefinition, type AgentRole, defineAgent, defineTool } from '../../src/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { listen } from '../../src/service/api/server.ts'
import { chat, top } from '../../src/service/commands/screens.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import type { Screen } from '../../src/service/shared/screen.ts'
import { Chat } from '../../src/service/terminal/chat.ts'
import { localSource, remoteSource, remoteSources, type Said } from '../../src/service/terminal/source.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { gate, silent as noLines, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { fakeScreen, fakeSurroundings } from '../service/fake-team.ts'
import { all, echo, stage, throws } from '../team/stage.ts'
import { FakeTerminal } from './fake-terminal.ts'

const alive = systemClock.hold()
t.teardown(() => alive.cancel())

const never = new AbortController().signal

/** A conversation over pipes: the lines that go in, and what comes out. */
async function piped(t: Test, agent: AgentDefinition, lines: readonly string[], message?: string) {
  const team = stage(t, { a: agent })
  await team.start()
  const terminal = new FakeTerminal()
  let answers = ''
  const chat = new Chat({
    source: localSource(team),
    screen: terminal.screen as Screen,
    input: Readable.from(lines.map((line) => `${line}\n`)),
    tell: async (text) => {
      answers += text
    },
    isTerminal: false,
    signal: never,
  })
  const isWell = await chat.talk(message)
  return { isWell, answers, said: terminal.text, team }
}

t.test('each line of a pipe is a message, and each answer comes on stdout', async (t) => {
  const { isWell, answers, team } = await piped(t, echo, ['one', '', 'two', '//three'], 'zero')
  t.equal(isWell, true)
  t.same(answers.split('\n').filter(Boolean), ['a: zero', 'a: one', 'a: two', 'a: /three'])
  const threads = new Set((await team.listRuns()).map(({ threadId }) => threadId))
  t.equal(threads.size, 1, 'it is one conversation')
})

/** Asks for a colour if it is told to choose. */
const chooses = defineAgent({
  async receive({ content }, context) {
    if (content !== 'choose') return `a: ${content}`
    return `It is ${await context.ask('Which one?', { choices: ['red', 'green'] })}.`
  },
})

t.test('a line of a pipe that was not sent yet answers a question', async (t) => {
  const { isWell, answers, said } = await piped(t, chooses, ['choose', 'blue', '2', 'thanks'])
  t.match(said, /\? a asks: Which one\?[\s\S]*You, to a: green/)
  t.same(answers.split('\n').filter(Boolean), ['It is green.', 'a: thanks'])
  t.equal(isWell, true)
})

t.test('a question after the last line of a pipe stops the answer, and says why', async (t) => {
  const { isWell, answers, said, team } = await piped(t, chooses, ['one', 'choose'])
  t.match(said, /error: a asks a question, and the input has ended: nobody can answer/)
  t.same([isWell, answers.trim()], [false, 'a: one'])
  t.match(await team.listRuns(), [{ status: 'aborted' }, { status: 'finished' }])
})

t.test('Ctrl-C while the team file is loaded leaves, and nothing is asked', async (t) => {
  const file = fileURLToPath(new URL('../fixtures/cli/echo-team.js', import.meta.url))
  const talking = fakeSurroundings()
  const shown = fakeScreen({ columns: 80, rows: 24 })
  const codes = [
    chat(file, 'hello', {}, talking.surroundings),
    top(file, 'hello', {}, { ...fakeSurroundings().surroundings, stderr: shown.screen }),
  ]
  process.emit('SIGINT')
  t.same(await Promise.all(codes), [130, 130])
  t.same([talking.stdout(), shown.text()], ['', ''])
})

t.test('/thread begins another conversation; a command that is none is refused', async (t) => {
  const { said, team } = await piped(t, echo, ['one', '/nonsense', '/help', '/cost', '/who'])
  t.match(said, /There is no command \/nonsense/)
  t.match(said, /\/stop +stops/)
  t.match(said, /no model was called/)
  t.match(said, /a: idle/)
  t.equal((await team.listRuns()).length, 1)
})

t.test('a query without an answer is said, and the exit says so', async (t) => {
  const { isWell, said, answers } = await piped(t, throws('broken'), ['one'])
  t.equal(isWell, false)
  t.match(said, /error: .*broken/)
  t.equal(answers, '')
})

/** A conversation at a terminal. */
function atTerminal(t: Test, agent: AgentDefinition, tools: AgentRole['tools'] = []) {
  const team = stage(t, { a: { code: agent, tools } })
  const terminal = new FakeTerminal({ columns: 100, rows: 30 })
  const chat = new Chat({
    source: localSource(team),
    screen: terminal.screen,
    input: terminal.keys,
    tell: async () => {},
    isTerminal: true,
    signal: never,
  })
  const talking = chat.talk(undefined)
  return { team, terminal, talking }
}

t.test('at a terminal the line is edited, Ctrl-T shows the team, and Ctrl-D leaves', async (t) => {
  const { terminal, talking } = atTerminal(t, echo)
  await terminal.shows('A line is a message')
  terminal.press('helo')
  await terminal.shows('> helo')
  terminal.press('\u007f')
  terminal.press('lo\r')
  await terminal.shows(/You: hello[\s\S]*a: hello/)
  terminal.press('\u001b[A') // the line before
  await terminal.shows('> hello')
  terminal.press('\u0015\u0014') // no line, and the panel
  await terminal.shows('-- team')
  terminal.press('\u0004')
  t.equal(await talking, true)
})

t.test('what is pasted is one message', async (t) => {
  const { team, terminal, talking } = atTerminal(t, echo)
  await terminal.shows('A line is a message')
  terminal.press('first\rsecond\r')
  await terminal.shows('second')
  while ((await team.listRuns({ status: 'finished' })).length === 0)
    await new Promise((resolve) => setImmediate(resolve))
  t.match(await team.listRuns(), [{ query: 'first\nsecond' }])
  terminal.press('/quit\r')
  await talking
})

t.test('a question is answered in between, by its number', async (t) => {
  const asks = defineAgent({
    receive: async (_message, context) => `It is ${await context.ask('Which one?', { choices: ['red', 'green'] })}.`,
  })
  const { terminal, talking } = atTerminal(t, asks)
  await terminal.shows('A line is a message')
  terminal.press('choose\r')
  await terminal.shows('? a asks: Which one?  1 red  2 green')
  terminal.press('2\r')
  await terminal.shows(/You, to a: green[\s\S]*It is green\./)
  terminal.press('\u0004')
  t.equal(await talking, true)
})

t.test('an approval says what it takes, and is answered as the person at the terminal', async (t) => {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number(), note: z.string() }),
    approval: { quorum: 2 },
    answerWithinMs: 7_200_000,
    run: ({ cents }) => `paid ${cents}`,
  })
  const pays = defineAgent({
    receive: async ({ content }, context) =>
      String(await context.tool('pay', { cents: 5, note: 'x'.repeat(Number(content)) })),
  })
  const { team, terminal, talking } = atTerminal(t, pays, [pay])
  await terminal.shows('A line is a message')
  terminal.press('3\r')
  await terminal.shows(/a asks: May agent[\s\S]*2\s+have\s+to\s+agree/)
  terminal.press('1\r')
  await terminal.shows(/You, to a: yes[\s\S]*cli:\S+@\S+\s+has/)
  terminal.press('1\r')
  await terminal.shows(/cli:\S+@\S+\s+has\s+agreed\s+already/)
  const { questionId } = team.questions()[0]!
  await team.answer(questionId, 'yes', { by: { id: 'eve' } })
  await terminal.shows('paid 5')
  terminal.press('3000\r')
  await terminal.shows('a asks: May agent "a"')
  terminal.press('1\r')
  await terminal.shows('It is too long for a line')
  t.match(team.questions(), [{ agreed: [] }])
  terminal.press('\u0004')
  await talking
})

t.test('a line answers no question of another task; /answer does, by its number', async (t) => {
  const { team, terminal, talking } = atTerminal(t, chooses)
  await terminal.shows('A line is a message')
  const other = team.launch('choose')
  await terminal.shows('? a asks in another task (/answer 1 ...): Which one?  1 red  2 green')
  terminal.press('1\r')
  await terminal.shows('You: 1')
  t.notMatch(terminal.text, 'You, to a', 'it is a message')
  terminal.press('/answer 7 1\r')
  await terminal.shows('/answer takes the number of a question of another task')
  terminal.press('/answer 1 2\r')
  await terminal.shows('You, to a: green')
  t.match(await other.result, { finalOutput: 'It is green.' })
  await terminal.shows('a: 1')
  terminal.press('\u0004')
  await talking
})

t.test('Ctrl-C stops the answer that is being made; twice without one leaves', async (t) => {
  const waits = defineAgent({ receive: async (_message, context) => String(await context.sleep(60_000)) })
  const { team, terminal, talking } = atTerminal(t, waits)
  await terminal.shows('A line is a message')
  terminal.press('go\r')
  await terminal.shows('You: go')
  while ((await team.listRuns({ status: 'running' })).length === 0)
    await new Promise((resolve) => setImmediate(resolve))
  terminal.press('\u0003')
  await terminal.shows(/error: The run was aborted/)
  terminal.press('\u0003')
  await terminal.shows('Ctrl-C again leaves.')
  terminal.press('\u0003')
  await talking
  t.match(await team.listRuns(), [{ status: 'aborted' }])
})

t.test(
  'a line that is typed while a model works is said to it, Alt-Enter interrupts, and a tick says who has read it',
  async (t) => {
    const held = [gate(), gate()]
    const asked = gate()
    const model = new FakeModel(async ({ messages }, nth) => {
      asked.open()
      await held[nth]?.opened
      return `after ${messages.filter(({ role }) => role === 'user').map(({ content }) => content)}`
    })
    const team = testTeam(
      { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent },
      { model },
    )
    t.teardown(() => team.close())
    const terminal = new FakeTerminal()
    const source = localSource(team)
    const chat = new Chat({
      source,
      screen: terminal.screen as Screen,
      input: terminal.keys,
      tell: async () => {},
      isTerminal: true,
      signal: never,
    })
    const talked = chat.talk('How long?')
    await terminal.shows('You: How long?')
    await asked.opened
    terminal.press('In metres.\r')
    await terminal.shows('You: In metres.')
    terminal.press('Now!\x1b\r')
    await terminal.shows('You, interrupting: Now!')
    await terminal.shows('✓ ann has read: In metres.')
    await terminal.shows('✓ ann has read: Now!')
    held[1]!.open()
    await terminal.shows('after How long?,In metres.,Now!')
    t.equal(model.requests.length, 2)
    terminal.press('/quit\r')
    t.equal(await talked, true)
    held[0]!.open()
  },
)

// A team that is served is watched and talked with by its URL.

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
