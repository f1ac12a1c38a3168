/** Calls of MCP tools in rounds: what their servers ask is a question to a person, over restarts too; and tasks. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import type { ToolContext } from '../../src/actors/definition/tool.ts'
import type { McpServer } from '../../src/mcp/index.ts'
import { block } from '../busy.ts'
import { howMany } from '../how-many.ts'
import { type Call, ledger, watchThreads } from '../toolbox/desk.ts'
import { answering, called, outcomeOf } from './calling.ts'
import { connected } from './connected.ts'
import { modernHttp } from './modern-http-server.ts'
import { plainHttp, type Refusal } from './plain-http-server.ts'

const modern = fileURLToPath(new URL('../fixtures/mcp/modern.js', import.meta.url))
const held = fileURLToPath(new URL('../fixtures/mcp/held-team.js', import.meta.url))

const served: [over: string, era: '2025' | '2026', server: (t: Test, file: string) => Promise<McpServer>][] = [
  ['stdio', '2026', async (_t, file) => ({ command: process.execPath, args: [modern, file], era: '2026' })],
  ['stdio', '2025', async (_t, file) => ({ command: process.execPath, args: [modern, file], era: '2025' })],
  ['HTTP', '2026', async (t, file) => ({ url: await modernHttp(t, file), era: '2026' })],
]

for (const [over, era, server] of served)
  t.test(`over ${over} in ${era}: what a server asks is a question to a person`, async (t) => {
    for (const [answers, output, effects] of [
      [['{"sure":true}', '{"sure":true}'], 'deployed to here', 1],
      [['{"sure":true}', 'no'], 'not deployed', 0],
    ] as [string[], string, number][]) {
      const { file, runs } = ledger(t)
      const { run } = await called(t, await server(t, file), 'deploy', { to: 'here' })
      const texts = await answering(run, answers)
      t.match(texts.sort(), [/^the MCP server .* asks: Deploy to here\? Answer "no", or in JSON/, /asks: Really\?/])
      t.match(await outcomeOf(run), { output })
      t.equal(runs(), effects)
    }
  })

t.test(
  'an address that a person is to open is shown whole; a no is a decline, and other addresses are refused',
  async (t) => {
    const { file } = ledger(t)
    const url = await modernHttp(t, file)
    for (const [address, answers, outcome] of [
      ['https://login.example/?a=1', ['done'], { output: '{"login":{"action":"accept"}}' }],
      ['https://login.example/?a=1', ['declined'], { output: '{"login":{"action":"decline"}}' }],
      ['file:///etc/passwd', [], { code: 'TOOL_FAILED', message: /which is no address of the web/ }],
    ] as [string, string[], Call][]) {
      const { run } = await called(t, { url }, 'open', { url: address })
      const texts = await answering(run, answers)
      t.match(texts, answers.length > 0 ? [/asks: Log in\. Open https:\/\/login\.example\/\?a=1$/] : [])
      t.match(await outcomeOf(run), outcome)
    }
  },
)

t.test('a field that a person leaves out has its default', async (t) => {
  const server = await plainHttp(t)
  const properties = { to: { type: 'string' }, dry: { type: 'boolean', default: false } }
  const params = { message: 'Where?', requestedSchema: { type: 'object', properties } }
  let answer: unknown
  server.said = (_method, { inputResponses }: { inputResponses?: unknown }) => {
    answer = inputResponses
    if (answer) return { content: [] }
    return { resultType: 'input_required', inputRequests: { q: { method: 'elicitation/create', params } } }
  }
  const { call } = await connected(t, { url: server.url })
  await call('echo', {}, { ask: async () => '{"to":"here"}' })
  t.same(answer, { q: { action: 'accept', content: { to: 'here', dry: false } } })
})

t.test('a server that never has enough is given up', async (t) => {
  const { file } = ledger(t)
  const { run } = await called(t, { url: await modernHttp(t, file) }, 'endless', {})
  t.match(await outcomeOf(run), { code: 'TOOL_FAILED', message: /it asked for more in each of 10 rounds/ })
})

t.test('a task is waited for to its end, and what it asks is asked once', async (t) => {
  const { file, keys } = ledger(t)
  const { run } = await called(t, { url: await modernHttp(t, file) }, 'slow', {})
  t.match(await answering(run, ['{"sure":true}']), [/asks: Go on\?/])
  t.match(await outcomeOf(run), { output: 'done {"q":{"action":"accept","content":{"sure":true}}}' })
  t.same(keys(), ['begun', 'update {"q":{"action":"accept","content":{"sure":true}}}'])
})

t.test('the server is told that nobody waits for a task any more', async (t) => {
  const { file, keys } = ledger(t)
  const { run } = await called(t, { url: await modernHttp(t, file) }, 'slow', {})
  for await (const event of run.events({ types: ['question'] }))
    if (event.type === 'question') await run.cancel('enough')
  await run.result
  while (keys().length < 2) await new Promise((resolve) => setImmediate(resolve))
  t.match(keys(), ['begun', /^cancel t/])
})

const task = { resultType: 'task', taskId: 't', pollIntervalMs: 1 }
const working = { status: 'working', pollIntervalMs: 1 }
const completed = { status: 'completed', result: { content: [{ type: 'text', text: 'done' }] } }

for (const [taskTimeoutMs, busyMs, end] of [
  [
    50,
    0,
    { code: 'OUTCOME_UNKNOWN', message: /no more of its task \(it did not end within 50 ms \(taskTimeoutMs\)\)/ },
  ],
  [2_000, 2_000, { output: 'done' }],
] as [number, number, Call][])
  t.test(`a task has ${taskTimeoutMs} ms, and the time in which a person is asked is not its own`, async (t) => {
    const server = await plainHttp(t)
    const inputRequests = { q: { method: 'elicitation/create', params: { message: 'Sure?' } } }
    let isAnswered = false
    server.said = (method) => {
      if (method === 'tools/call') return task
      if (method === 'tasks/update') isAnswered = true
      if (!isAnswered) return { ...working, status: 'input_required', inputRequests }
      return busyMs > 0 ? completed : working
    }
    const { run } = await called(t, { url: server.url }, 'echo', {}, { taskTimeoutMs })
    for await (const event of run.events({ types: ['question'] })) {
      if (event.type !== 'question') continue
      block(busyMs)
      await run.answer(event.questionId, 'yes')
    }
    t.match(await outcomeOf(run), end)
    while (!('output' in end || server.asked.includes('tasks/cancel'))) await new Promise(setImmediate)
    t.equal(server.asked.includes('tasks/cancel'), !('output' in end))
  })

t.test('a thread that dies while a task runs has its next turn go on with it', async (t) => {
  const threads = watchThreads(t)
  const server = await plainHttp(t)
  let polls = 0
  server.said = async (method) => {
    if (method === 'tools/call') return task
    polls += 1
    if (polls === 1) await Promise.all([...threads].map((thread) => thread.terminate()))
    return polls < 3 ? working : completed
  }
  const { run } = await called(t, { url: server.url }, 'echo', {})
  t.match(await outcomeOf(run), { output: 'done' })
  t.same(
    server.asked.filter((method) => /tools\/call|cancel/.test(method)),
    ['tools/call'],
  )
})

t.test('a team that is closed leaves a task to the next process, which makes no call of its own', async (t) => {
  const server = await plainHttp(t)
  const path = mkdtempSync(join(tmpdir(), 'dramatis-held-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  let status: object = working
  let polled = () => {}
  const isPolled = new Promise<void>((resolve) => {
    polled = resolve
  })
  server.said = (method) => {
    if (method === 'tasks/get') polled()
    return method === 'tools/call' ? task : status
  }
  const { team } = await called(t, { url: server.url }, 'echo', {}, { path })
  await isPolled
  await team.close()
  status = completed
  const { run } = await called(t, { url: server.url }, 'echo', {}, { path })
  t.match(await outcomeOf(run), { output: 'done' })
  t.equal(server.asked.filter((method) => method === 'tools/call').length, 1)
  t.notOk(server.asked.includes('tasks/cancel'), server.asked.join())
})

const rpc = (code: number) => ({ status: 200, body: JSON.stringify({ error: { code, message: 'so' } }) })

/** How a server refuses to say how far a task is, how often, and what comes of the call. */
const troubles: [how: Refusal | undefined, times: number, outcome: object][] = [
  [{ status: 0 }, 5, { content: [{ text: 'done' }] }],
  [{ status: 500 }, 1, { content: [{ text: 'done' }] }],
  [{ status: 404 }, 3, { content: [{ text: 'done' }] }],
  [rpc(-32_603), 1, { content: [{ text: 'done' }] }],
  [
    rpc(-32_602),
    1,
    { code: 'OUTCOME_UNKNOWN', message: /said no more of its task \(.*-32602.* while its tool "echo"/ },
  ],
  [{ status: 401 }, 1, { code: 'OUTCOME_UNKNOWN', message: /it answered 401 Unauthorized/ }],
  [undefined, 0, { code: 'TOOL_FAILED', message: /its task failed: too hot/ }],
]

for (const [how, times, outcome] of troubles)
  t.test(`a server that says ${JSON.stringify(how)} ${times} times of a task that it works on`, async (t) => {
    const server = await plainHttp(t)
    const { call } = await connected(t, { url: server.url })
    const failed = { status: 'failed', statusMessage: 'too hot' }
    let left = times
    server.said = (method) => (method === 'tools/call' ? task : how ? completed : failed)
    server.refuses = (method) => (method === 'tasks/get' && left-- > 0 ? how : undefined)
    t.match(await call('echo').catch((error: unknown) => error), outcome)
  })

t.test('questions about a task cost none of the time of its tool', async (t) => {
  const server = await plainHttp(t)
  const timeoutMs = 2_000
  server.said = async (method) => {
    if (method === 'tools/call') return task
    await new Promise((resolve) => setTimeout(resolve, timeoutMs + 500))
    return completed
  }
  const { run } = await called(t, { url: server.url }, 'echo', {}, { timeoutMs })
  t.match(await outcomeOf(run), { output: 'done' })
})

t.test('a state of the server with a granted key in it comes back as it was, after a restart too', async (t) => {
  process.env.MCP_TEST_KEY = 'key-abcdef-123456'
  t.teardown(() => delete process.env.MCP_TEST_KEY)
  const server = await plainHttp(t)
  const path = mkdtempSync(join(tmpdir(), 'dramatis-held-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  const inputRequests = { a: { method: 'elicitation/create', params: { message: 'Sure?' } } }
  server.said = (_method, { requestState, arguments: given }) =>
    requestState === undefined
      ? { resultType: 'input_required', requestState: `of ${String(given?.token)}`, inputRequests }
      : { content: [{ type: 'text', text: String(requestState === `of ${String(given?.token)}`) }] }
  const more = { path, env: ['MCP_TEST_KEY'] }
  const first = await called(t, { url: server.url }, 'echo', { token: process.env.MCP_TEST_KEY }, more)
  for await (const event of first.run.events({ types: ['question'] })) if (event.type === 'question') break
  await first.team.close()
  const { team, run } = await called(t, { url: server.url }, 'echo', {}, more)
  while (team.questions('one').length === 0) await new Promise((resolve) => setImmediate(resolve))
  await run.answer(team.questions('one')[0]!.questionId, 'yes')
  t.match(await outcomeOf(run), { output: 'true' })
})

/** A server of 2025 over stdio that asks in its connection: `ask` has it ask for a call that it does not answer then. */
const ASKER = `
  const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
  const text = (said) => ({ content: [{ type: 'text', text: JSON.stringify(said) }] })
  const results = {
    initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } },
    'tools/list': { tools: ['keep', 'ask', 'answer', 'twice', 'stop', 'helper'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
  }
  let kept, asked
  const answers = []
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params, result, error } = JSON.parse(line)
    const question = (of) => say({ id: of, method: 'elicitation/create', params: { message: 'Pay?', requestedSchema: { type: 'object', properties: {} } } })
    if (results[method]) say({ id, result: results[method] })
    else if (method === 'tools/call' && params.name === 'keep') kept = id
    else if (method === 'tools/call' && params.name === 'answer') {
      say({ id: kept, result: text('late') })
      say({ id, result: text('answered') })
    } else if (method === 'tools/call' && params.name === 'stop') process.kill(process.pid, 'SIGSTOP')
    else if (method === 'tools/call' && params.name === 'twice')
      for (const of of [id, id, id + 1_000]) say({ id: of, result: text('x'.repeat(300_000)) })
    else if (method === 'tools/call' && params.name === 'helper') {
      const lives = 'process.stdout.on("error", () => process.exit()); setInterval(() => console.log(), 100)'
      require('node:child_process').spawn(process.execPath, ['-e', lives], { stdio: ['ignore', 'inherit', 'ignore'], detached: true })
      process.exit()
    } else if (method === 'tools/call') {
      asked = { id, count: params.arguments.count ?? 1 }
      answers.length = 0
      for (let at = 0; at < asked.count; at += 1) question('q' + at)
    } else if (method === undefined) {
      answers.push(result ? result.action : error)
      const isEnough = answers.length === asked.count || answers[0] === 'cancel'
      if (isEnough) say({ id: asked.id, result: text(answers[0]) })
    } else if (method && id !== undefined) say({ id, error: { code: -32601, message: 'no such method' } })
  })`

async function asker(t: Test) {
  const server: McpServer = { command: process.execPath, args: ['-e', ASKER], era: '2025' }
  const { call } = await connected(t, server)
  return async (tool: string, input: object, more: Partial<ToolContext>) =>
    ((await call(tool, input, more)).content as { text: string }[])[0]!.text
}

t.test('a server of 2025 that may still work for a call that was given up asks nobody of another run', async (t) => {
  const call = await asker(t)
  const late = new AbortController()
  const given = call('keep', {}, { runId: 'ann', signal: late.signal })
  late.abort(new Error('too late'))
  await t.rejects(given)
  const bob = { runId: 'bob', ask: async () => 'yes' }
  t.equal(await call('ask', {}, bob), '"cancel"')
  t.equal(await call('answer', {}, bob), '"answered"')
  t.equal(await call('ask', {}, bob), '"accept"', 'its late answer has come')
})

t.test('answers that came before, or that nobody waits for, do no harm', async (t) => {
  const call = await asker(t)
  t.equal((await call('twice', {}, {})).length, 300_002)
  t.equal((await call('twice', {}, {})).length, 300_002)
})

t.test('a server that does not read what is sent to it is given up at 16 MiB', async (t) => {
  const call = await asker(t)
  const input = { text: 'x'.repeat(2 ** 20) }
  const calls = Array.from({ length: 20 }, (_, at) => call(at === 0 ? 'stop' : 'ask', input, {}))
  for (const each of calls) await t.rejects(each, { message: /it does not read the 16 MiB sent to it/ })
})

t.test('a server that is gone is noticed, though what it started has its pipes', async (t) => {
  const call = await asker(t)
  await t.rejects(call('helper', {}, {}), { code: 'OUTCOME_UNKNOWN' })
})

t.test('a server puts at most 20 questions to people at once', async (t) => {
  const call = await asker(t)
  let asked = 0
  const ask = () => {
    asked += 1
    return new Promise<string>(() => {})
  }
  t.equal(await call('ask', { count: 21 }, { runId: 'one', ask }), '"cancel"')
  t.equal(asked, 20)
  const server = await plainHttp(t)
  const request = { method: 'elicitation/create', params: { message: 'Sure?' } }
  const inputRequests = Object.fromEntries(Array.from({ length: 21 }, (_, at) => [`q${at}`, request]))
  server.said = { resultType: 'input_required', inputRequests }
  const http = await connected(t, { url: server.url })
  await t.rejects(http.call('echo', {}, { ask }), {
    code: 'TOOL_FAILED',
    message: /it asks 21 questions at once; at most 20/,
  })
  t.equal(asked, 20)
})

/** Where the service dies, and whether the outcome may be unknown then; and the effects of each tool. */
const deaths: [tool: string, input: object, effect: RegExp, points: [die: string, mayBeUnknown: boolean][]][] = [
  [
    'deploy',
    { to: 'here' },
    /^deployed/,
    [
      ['before 1', true],
      ['after 1', true],
      ['asked', false],
      ['answered', false],
      ['before 2', true],
      ['after 2', true],
    ],
  ],
  [
    'slow',
    {},
    /^begun/,
    [
      ['after 1', true],
      ['asked', false],
      ['answered', false],
      ['before 2', false],
      ['after 2', false],
    ],
  ],
]

/** Lives that a service has, one after the other, in one folder: what it said, and what the server did. */
async function lived(
  t: Test,
  serverFor: (file: string) => McpServer | Promise<McpServer>,
  tool: string,
  input: object,
) {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-held-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const { file, keys } = ledger(t)
  const server = await serverFor(file)
  const life = async (death: string) => {
    const args = [held, join(folder, 'log'), JSON.stringify(server), tool, JSON.stringify(input), death]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
    const said = child.stdout.toArray()
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
    return { code, signal, said: (await said).join('') }
  }
  return { life, keys }
}

/** Kills the first life, and has the second one end. */
async function killed(t: Test, { life, keys }: Awaited<ReturnType<typeof lived>>, die: string, effect: RegExp) {
  t.match(await life(die), { signal: 'SIGKILL' })
  const { said, code } = await life('')
  t.equal(code, 0)
  const { outcomes } = JSON.parse(said) as { outcomes: Call[] }
  const isUnknown = outcomes[0]?.code === 'OUTCOME_UNKNOWN'
  return { said, isUnknown, effects: keys().filter((line) => effect.test(line)).length }
}

/** Every third point is played by `npm test`. */
const every = howMany(3, 1)

for (const [tool, input, effect, points] of deaths)
  for (const [die, mayBeUnknown] of points.filter((_, at) => at % every === 0))
    t.test(`${tool}: a service that is killed (${die}) goes on, and does nothing twice`, async (t) => {
      const lives = await lived(t, async (file) => ({ url: await modernHttp(t, file) }), tool, input)
      const { said, isUnknown, effects } = await killed(t, lives, die, effect)
      t.equal(isUnknown, mayBeUnknown, said)
      t.ok(isUnknown ? effects <= 1 : effects === 1, lives.keys().join())
    })

for (const [era, die, mayBeUnknown] of (
  [
    ['2026', 'asked', false],
    ['2026', 'answered', false],
    ['2025', 'asked', true],
    ['2025', 'answered', true],
  ] as const
).filter((_, at) => at % every === 0))
  t.test(`over stdio in ${era}: a service that is killed (${die}) does nothing twice`, async (t) => {
    const server = (file: string): McpServer => ({ command: process.execPath, args: [modern, file], era })
    const lives = await lived(t, server, 'deploy', { to: 'here' })
    const { said, isUnknown, effects } = await killed(t, lives, die, /^deployed/)
    t.equal(isUnknown, mayBeUnknown, said)
    t.equal(effects, mayBeUnknown ? 0 : 1, lives.keys().join())
  })
