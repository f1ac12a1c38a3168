/** Teams by the Model Context Protocol: over HTTP, over pipes, and in a service that is killed. */
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Transport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import t, { type Test } from 'tap'
import { defineAgent } from '../../../src/index.ts'
import { mcpTools } from '../../../src/mcp/index.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { serve } from '../../../src/service/commands/serve.ts'
import type { TaskQuestion } from '../../../src/service/http/schemas.ts'
import { servePipes } from '../../../src/service/mcp/stdio.ts'
import { testTeam } from '../../../src/testing.ts'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { silent } from '../../kit/team.ts'
import { opening, served } from '../chat/desk.ts'
import { ServedShop } from '../chat/served-shop.ts'
import { openShop, type Shop } from '../chat/shop.ts'
import { fakeSurroundings } from '../fake-team.ts'
import { connect, modern, modernHeaders, type Opened, said, sendRaw, speak, taskIn } from './client.ts'

// Teams by the Model Context Protocol: clients of both eras ask, wait, answer and cancel; strangers get nowhere.

const mcp = true
const BOX = '7f1c3c0e-52a4-4f0b-9d4b-6a1c8f0a7d11'
const IMPATIENT = { mcp: { waitMs: 1 } }
const kinds: Record<string, Opened> = {
  'a client of 2025': { era: '2025' },
  'a client of 2026': {},
  'a client of 2026 with forms': { elicits: () => ({ action: 'cancel' }) },
}

for (const [kind, opened] of Object.entries(kinds))
  t.test(`${kind} lists the tools and asks a team`, async (t) => {
    const { url, done } = await served(t, { mcp })
    const { client, call, ask } = await connect(t, url, opened)
    const { tools } = await client.listTools()
    const others = ['task_status', 'answer_question', 'cancel_task']
    t.same(
      tools.map(({ name }) => name),
      ['ask_shop', 'ask_clerk', ...others],
    )
    t.match(tools[0]!.description, /team "shop".*shop/)
    t.equal(said(await ask('say hello world')), 'hello world')
    t.equal(said(await ask('use find lamp')), 'result: {"done":"lamp"}')
    t.match(said(await call('ask_clerk', { query: 'fail' })), /^ERROR [A-Z_]+: .*no ink/)
    t.same(done, ['find lamp'])
    const one = await connect(t, url, { ...opened, path: '/mcp/clerk' })
    t.same(
      (await one.client.listTools()).tools.map(({ name }) => name),
      ['ask_clerk', ...others],
    )
  })

t.test('a client of 2025 reads what a task asks, and answers by a tool', async (t) => {
  const { url, done } = await served(t, { mcp })
  const { call, ask } = await connect(t, url, { era: '2025' })
  const { structuredContent: asked } = await ask('use buy lamp')
  const [{ questionId, digest, kind, text }] = asked.questions
  t.match([kind, text, asked.status], ['approval', /buy.*lamp/, 'waiting'])
  const { taskId } = asked
  t.match(said(await call('answer_question', { taskId, questionId, answer: 'yes' })), /^ERROR CONFIGURATION: digest/)
  t.same(done, [])
  t.match(said(await call('answer_question', { taskId, questionId, digest, answer: 'yes' })), /taken/)
  t.equal(said(await call('task_status', { taskId })), 'result: {"done":"lamp"}')
  t.same(done, ['buy lamp'])
})

t.test('a client of 2026 with forms answers within its call', async (t) => {
  const table: [
    tool: string,
    query: string,
    content: Record<string, string | number | boolean> | undefined,
    said: RegExp,
  ][] = [
    ['shop', 'use buy lamp', { approve: true }, /^result: \{"done":"lamp"\}$/],
    ['shop', 'use buy sofa', { approve: false, reason: 'too dear' }, /did not agree.*too dear/],
    ['shop', 'use buy sofa', undefined, /did not agree/],
    ['shop', 'use ship lamp', { street: 'Main Street' }, /Main Street/],
    ['shop', 'use ship lamp', undefined, /result/],
    ['shop', 'use ship parcel', { answer: 'left', floor: 2 }, /left.*floor.*2/],
    ['shop', 'use ship letter', { answer: `{"box":"${BOX}"}` }, /box.*7f1c3c0e/],
    ['clerk', 'ask', { answer: 'red' }, /^you said red$/],
    ['clerk', 'ask', undefined, /"status":"waiting".*Red or blue/],
  ]
  const { url, done } = await served(t, { mcp })
  for (const [team, query, content, expected] of table) {
    const fields: string[][] = []
    const elicits: Opened['elicits'] = (_message, { properties }) => {
      fields.push(Object.keys(properties))
      return content ? { action: 'accept', content } : { action: 'decline' }
    }
    const { call } = await connect(t, url, { elicits })
    t.match(said(await call(`ask_${team}`, { query })), expected)
    const wanted = { lamp: ['street'], parcel: ['answer', 'floor'] }[query.split(' ')[2] ?? ''] ?? ['answer']
    t.same(fields, [query.startsWith('use buy') ? ['approve', 'reason'] : wanted])
  }
  t.same(done, ['buy lamp'])
})

t.test('an answer that a form does not take is asked for again, and no error loses a task', async (t) => {
  const { url } = await served(t, { mcp })
  const messages: string[] = []
  const elicits: Opened['elicits'] = (message) => {
    messages.push(message)
    return { action: 'accept', content: { answer: 'left', floor: isRight ? messages.length - 1 : 0 } }
  }
  let isRight = true
  const { ask } = await connect(t, url, { elicits })
  t.match(said(await ask('use ship parcel')), /floor.*1/)
  t.match(messages, [/^Where to\?/, /\. floor: .*\nWhere to\?/])
  isRight = false
  const { isError, _meta: told } = await ask('use ship parcel') // before the client gives up
  t.match([isError, messages.length, told['dramatis/taskId']], [true, 10, String])
  const sent = (more: object) =>
    sendRaw(
      url,
      modern('tools/call', { name: 'ask_shop', arguments: { query: 'use ship lamp' }, ...more }, { elicitation: {} }),
      { headers: modernHeaders('tools/call', 'ask_shop') },
    )
  const { requestState, _meta } = (await sent({})).message.result
  const id: string = _meta['dramatis/taskId']
  const inputResponses = { none: { action: 'accept', content: { answer: 'x' } } }
  const { result } = (await sent({ requestState, inputResponses })).message
  t.match([said(result), result._meta], [new RegExp(`never was.*${id}`, 's'), _meta])
})

t.test('a client of the tasks extension polls, answers and cancels; a task of others is none', async (t) => {
  const gate = opening()
  const { url, done, close } = await served(t, { mcp, pause: (word) => (word === 'slowly' ? gate.promise : undefined) })
  const { ask, send } = await connect(t, url, { tasks: true })
  const bob = await connect(t, url, { tasks: true, caller: 'bob:run' })
  const { taskId, ...begun } = taskIn(await ask('use buy lamp'))
  t.match(begun, { status: 'working', ttlMs: null, pollIntervalMs: 1_000 })
  const at = async (status: string) => {
    for (;;) {
      const task = await send('tasks/get', { taskId })
      if (task.status === status) return task
    }
  }
  const [key] = Object.keys((await at('input_required')).inputRequests)
  const inputResponses = { [key!]: { action: 'accept', content: { approve: true } } }
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    const errors = [{ taskId }, { taskId: 'none' }].map((of) => bob.send(method, { ...of, inputResponses }))
    for (const error of await Promise.all(errors.map((each) => each.catch((failed) => failed))))
      t.match(error, { code: -32_602, message: 'Task not found' })
  }
  t.same(done, [])
  const unknown = send('tasks/update', { taskId, inputResponses: { none: inputResponses[key!] } })
  await t.rejects(unknown, { code: -32_602, message: /NOT_FOUND: questionId.*it never was/ })
  await send('tasks/update', { taskId, inputResponses })
  await send('tasks/update', { taskId, inputResponses }) // it was sent again
  t.equal(said((await at('completed')).result), 'result: {"done":"lamp"}')
  t.same(done, ['buy lamp'])
  const slow = taskIn(await ask('say slowly'))
  await send('tasks/cancel', { taskId: slow.taskId })
  t.equal((await send('tasks/get', { taskId: slow.taskId })).status, 'cancelled')
  await send('tasks/cancel', { taskId: slow.taskId })
  gate.resolve()
  const plain = await connect(t, url)
  await t.rejects(plain.send('tasks/get', { taskId }), { code: -32_021 })
  await close()
})

t.test('polls at the pace that the server names stay within half of what a caller may send', async (t) => {
  const { url } = await served(t, { mcp, limits: { postsPerSecond: 2, burst: 100 } })
  const { ask, send } = await connect(t, url, { tasks: true })
  const begun = [taskIn(await ask('use buy a')), taskIn(await ask('use buy b')), taskIn(await ask('use buy c'))]
  t.match(begun, [{ pollIntervalMs: 1_000 }, { pollIntervalMs: 2_000 }, { pollIntervalMs: 3_000 }])
  t.match(await send('tasks/get', begun[0]), { pollIntervalMs: 3_000 })
  await send('tasks/cancel', begun[1])
  t.match(await send('tasks/get', begun[0]), { pollIntervalMs: 2_000 })
})

t.test('without a token a client of `dramatis serve --mcp` approves its own calls only by --approve-own', async (t) => {
  process.env.EFFECTS = t.testdir()
  const file = fileURLToPath(new URL('../../fixtures/mcp/shop-team.js', import.meta.url))
  for (const approveOwn of [false, true]) {
    const { surroundings, stderr } = fakeSurroundings()
    const closing = opening()
    const flags = { port: 0, host: '127.0.0.1', mcp: true, drain: 0, approveOwn }
    const over = serve([`shop=${file}`], flags, surroundings, { begun: closing.promise, stop() {} })
    while (!/By MCP.*\n.*approve.*\n/.test(stderr())) await new Promise(setImmediate)
    t.equal(stderr().includes('by MCP it may not'), !approveOwn)
    const url = /serves shop at (\S+)/.exec(stderr())![1]!
    const { ask, call, send } = await connect(t, url, { tasks: true })
    const { taskId } = taskIn(await ask('use pay rent'))
    const asked = async (): Promise<TaskQuestion> => {
      const task = (await (await fetch(`${url}/api/tasks/${taskId}`)).json()) as { questions: TaskQuestion[] }
      return task.questions[0] ?? asked()
    }
    const { questionId, digest, refusal } = await asked()
    t.equal(refusal, null, 'the person at the dashboard may')
    t.equal((await send('tasks/get', { taskId })).status, approveOwn ? 'input_required' : 'working')
    const answered = await call('answer_question', { taskId, questionId, digest, answer: 'yes' })
    t.match(said(answered), approveOwn ? /taken/ : /^ERROR ANSWER_REFUSED: "mcp" may not do that/)
    closing.resolve()
    await over
  }
})

t.test('who has asked approves nothing that others have to, by whatever request', async (t) => {
  const { url, team, done } = await served(t, { mcp: { waitMs: 1 } })
  const forms: string[] = []
  const elicits: Opened['elicits'] = (message) => {
    forms.push(message)
    return { action: 'accept', content: { approve: true } }
  }
  const ann = await connect(t, url, { era: '2025' })
  const taskId: string = (await ann.ask('use pay rent'))._meta['dramatis/taskId']
  while (team.questions(taskId).length === 0) await new Promise(setImmediate)
  const { questionId, digest } = team.questions(taskId)[0]!
  t.match((await ann.call('task_status', { taskId })).structuredContent, { questions: [], waitsFor: /people other/ })
  const form = await connect(t, url, { elicits })
  t.match(said(await form.ask('use pay rent')), /"questions":\[\]/)
  const inTasks = await connect(t, url, { tasks: true })
  t.match(await inTasks.send('tasks/get', { taskId }), { status: 'working', statusMessage: /people other/ })
  const inputResponses = { [`${questionId}.${digest}`]: { action: 'accept', content: { approve: true } } }
  const by = { name: 'ask_shop', arguments: { query: 'use pay rent' }, requestState: taskId, inputResponses }
  const tasks = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
  for (const id of ['ann', 'bob'])
    for (const rights of ['run', 'run,approve', 'run,watch,operate,approve']) {
      if (id === 'bob' && rights !== 'run') continue
      const caller = `${id}:${rights}`
      const why = id === 'ann' ? /cannot approve it|right approve/ : /no task|not found/i
      const tool = await connect(t, url, { caller })
      t.match(said(await tool.call('answer_question', { taskId, questionId, digest, answer: 'yes' })), why)
      t.match(said(await tool.call('answer_question', { taskId, questionId, digest, answer: 'no' })), why)
      const again = await sendRaw(url, modern('tools/call', by), {
        caller,
        headers: modernHeaders('tools/call', 'ask_shop'),
      })
      t.match(said(again.message.result), why)
      const update = await sendRaw(url, modern('tasks/update', { taskId, inputResponses }, tasks), {
        caller,
        headers: modernHeaders('tasks/update', taskId),
      })
      t.match(update.message.error.message, why)
    }
  t.same([forms, done], [[], []], 'nothing was offered, nothing was done')
  const bob = await connect(t, url, { caller: 'bob:approve' })
  t.match((await bob.client.listTools()).tools.map(({ name }) => name)[0], 'task_status')
  t.match(said(await bob.call('answer_question', { taskId, questionId, digest, answer: 'yes' })), /taken/)
  while (done.length === 0) await new Promise(setImmediate)
  t.same(done, ['pay rent'])
})

t.test('a call with a key is one task, whoever sends it again', async (t) => {
  const { url, done, team } = await served(t, { mcp })
  const meta = { 'dramatis/idempotencyKey': 'k1' }
  const one = await connect(t, url, { meta })
  const other = await connect(t, url, { meta, era: '2025' })
  const answers = await Promise.all([one.ask('use find lamp'), other.ask('use find lamp'), one.ask('use find lamp')])
  t.same(new Set(answers.map(said)), new Set(['result: {"done":"lamp"}']))
  t.same([done, (await team.listRuns()).length], [['find lamp'], 1])
  t.match(said(await one.ask('use find sofa')), /^ERROR MESSAGE_REJECTED: .*another body/)
  const bob = await connect(t, url, { meta, caller: 'bob:run' })
  t.equal(said(await bob.ask('use find sofa')), 'result: {"done":"sofa"}', 'keys are of their caller')
})

t.test('a task goes on behind its call, and is cancelled where nobody could come back to it', async (t) => {
  const gate = opening()
  const pause = (word: string) => (word === 'slowly' ? gate.promise : undefined)
  const { url, team } = await served(t, { ...IMPATIENT, pause, limits: { disconnectGraceMs: 1 } })
  const { ask, call } = await connect(t, url)
  const { structuredContent } = await ask('say slowly')
  t.match(structuredContent, { status: /queued|running/, questions: [] })
  const { taskId } = structuredContent
  t.match(said(await call('cancel_task', { taskId })), /^ERROR [A-Z_]+: .*cancelled by "ann"/)
  const patient = await served(t, { mcp, pause, limits: { disconnectGraceMs: 1 } })
  const gone = await connect(t, patient.url)
  const leaving = new AbortController()
  const left = gone.ask('say slowly', { signal: leaving.signal })
  while ((await patient.team.listRuns()).length === 0) await new Promise(setImmediate)
  leaving.abort()
  await t.rejects(left)
  while ((await patient.team.listRuns())[0]!.status !== 'aborted') await new Promise(setImmediate)
  gate.resolve()
  t.equal((await team.listRuns())[0]!.status, 'aborted')
})

t.test('what no client sends is refused by its name', async (t) => {
  const { url, team } = await served(t, { mcp, limits: { bodyBytes: 2_000 } })
  const call = (name: string, given: object, _meta = {}) => ({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name, arguments: given, _meta },
  })
  type Sent = Parameters<typeof sendRaw>[2]
  const table: [what: unknown, sent: Sent, answered: RegExp][] = [
    ['{', {}, /400.*BAD_REQUEST/],
    ['[', { headers: { 'content-type': 'text/plain' } }, /415/],
    ['"text"', {}, /422.*CONFIGURATION/],
    [Array(21).fill({}), {}, /422/],
    [call('ask_shop', { query: 'x'.repeat(3_000) }), {}, /413/],
    [call('ask_shop', { query: 'say hi' }), { caller: '' }, /401/],
    [call('ask_shop', { query: 'say hi' }), { caller: 'ann:watch' }, /403/],
    [call('ask_shop', { query: 'say hi' }), { headers: { origin: 'https://evil.example' } }, /403/],
    [call('ask_shop', { query: 'say hi' }), { path: '/mcp/nobody' }, /404.*no team/],
    [call('ask_shop', { query: 'say hi' }), { caller: 'bob:approve' }, /not found/],
    [call('ask_shop', {}), {}, /query/],
    [call('ask_shop', { query: '' }), {}, /query/],
    [call('ask_shop', { query: 'say hi', output: { type: 7 } }), {}, /output: It is no JSON Schema/],
    [call('ask_shop', { query: 'say hi' }, { 'dramatis/idempotencyKey': 'x'.repeat(256) }), {}, /BAD_REQUEST/],
    [call('ask_shop', { query: 'say hi' }, { 'dramatis/idempotencyKey': 7 }), {}, /BAD_REQUEST/],
    [call('task_status', { taskId: '../x' }), {}, /NOT_FOUND: There is no task/],
    [call('answer_question', { taskId: 'x', questionId: 'y', answer: 'yes' }), {}, /NOT_FOUND/],
    [call('cancel_task', { taskId: 'x' }), {}, /NOT_FOUND/],
    [{ jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { taskId: 'x' } }, {}, /-32601/],
    [
      modern('tools/call', { name: 'ask_shop', arguments: { query: 'say hi' }, requestState: 'forged' }),
      { headers: modernHeaders('tools/call', 'ask_shop') },
      /NOT_FOUND: There is no task/,
    ],
    [
      modern('subscriptions/listen', { notifications: { toolsListChanged: true } }),
      { headers: modernHeaders('subscriptions/listen') },
      /limit reached/,
    ],
  ]
  for (const [what, sent, answered] of table) {
    const { status, message } = await sendRaw(url, what, sent)
    t.match(`${status} ${JSON.stringify(message)}`, answered)
  }
  t.same(await team.listRuns(), [], 'none of it has begun a task')
})

t.test('options that cannot work are refused', async (t) => {
  const { team } = await served(t)
  const api =
    (mcp: object | true, teams: object = { shop: team }) =>
    () =>
      httpApi({ teams: teams as { shop: typeof team }, authorize: () => ({ id: 'ann', may: ['run'] }), mcp })
  t.throws(api({ teams: ['nobody'] }), { code: 'CONFIGURATION', message: /mcp\.teams.*nobody.*accepted.*shop/ })
  t.throws(api({ tools: ['all'] }), { message: /mcp\.tools/ })
  t.throws(api({ waitMs: -1 }), { message: /mcp\.waitMs/ })
  t.throws(api({ oauth: { resource: 'x', authorizationServers: [] } }), { message: /mcp\.oauth\.resource/ })
  t.throws(api({ key: 'x' }), { message: /mcp\.key/ })
  const long = 'x'.repeat(63)
  const { fetch } = api({ tools: ['ask', 'agents'] }, { [`${long}a`]: team, [`${long}b`]: team })()
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const { message } = await sendRaw('http://localhost', list, { fetch: (to, init) => fetch(new Request(to, init)) })
  const names: string[] = message.result.tools.map(({ name }: { name: string }) => name)
  t.same(
    names.filter((name) => !/^ask_x{51}_[\da-f]{8}$/.test(name)),
    ['task_status', 'answer_question', 'cancel_task'],
    'clients take names of 64 characters',
  )
  t.throws(api(true, { 'a.b': team, a_b: team }), { message: /two tools would have the name "ask_a_b"/ })
})

t.test('a team calls another one as a tool', async (t) => {
  const { url, done } = await served(t, { mcp })
  const shop = await mcpTools({ url: `${url}/mcp`, headers: { 'x-caller': 'ann:run' } })
  const team = testTeam(
    { agents: [{ name: 'desk', tools: shop.tools }], orchestration: { strategy: 'sequential' } },
    {
      modules: {
        desk: defineAgent({
          receive: async ({ content }, context) => `${await context.tool('ask_shop', { query: content })}`,
        }),
      },
    },
  )
  t.teardown(async () => {
    await team.close()
    await shop.close()
  })
  t.equal((await team.execute('use find lamp')).finalOutput, 'result: {"done":"lamp"}')
  t.same(done, ['find lamp'])
})

t.test('a client without a token is told which servers give one', async (t) => {
  const oauth = { resource: 'https://a.example/agents/mcp', authorizationServers: ['https://login.example'] }
  const { url } = await served(t, { mcp: { oauth } })
  const refused = await fetch(`${url}/mcp`, { method: 'POST' })
  const at = 'https://a.example/.well-known/oauth-protected-resource/agents/mcp'
  t.equal(refused.headers.get('www-authenticate'), `Bearer resource_metadata="${at}"`)
  const found = await fetch(url + new URL(at).pathname)
  t.match(await found.json(), { resource: oauth.resource, authorization_servers: oauth.authorizationServers })
  t.equal((await fetch(`${url}/api/tasks`)).headers.get('www-authenticate'), 'Bearer')
  const plain = await served(t, { mcp })
  t.equal((await fetch(plain.url + new URL(at).pathname)).status, 404)
})

t.test('without the option there is no route', async (t: Test) => {
  const { url } = await served(t)
  t.equal((await sendRaw(url, {})).status, 404)
})

// Teams by the Model Context Protocol over pipes: forms in both eras, signs of life, and nothing else on stdout.

const cli = fileURLToPath(new URL('../../../src/service/cli.js', import.meta.url))
const file = fileURLToPath(new URL('../../fixtures/mcp/shop-team.js', import.meta.url))

/** Serves a shop over pipes. Resolves to the client's end of them. */
async function piped(t: Test, shop: Partial<Shop> = {}, mcp = {}) {
  const done: string[] = []
  const team = openShop({ does: (what) => done.push(what), ...shop })
  const stdin = new PassThrough()
  const transport: Transport = {
    start: async () => {},
    send: async (message) => void stdin.write(`${JSON.stringify(message)}\n`),
    close: async () => void stdin.end(),
  }
  const write = async (text: string) => {
    for (const line of text.split('\n')) if (line !== '') transport.onmessage?.(JSON.parse(line))
  }
  const options = { teams: { shop: team }, mcp, logger: silent, limits: { disconnectGraceMs: 1 } }
  const caller = { id: 'local', may: ['run', 'watch', 'operate', 'approve'] as const }
  const { over, close } = await servePipes(options, caller, { stdin, answer: { write } })
  t.teardown(async () => {
    await close()
    await team.close()
  })
  return { team, done, transport, over }
}

for (const era of ['2025', '2026'] as const)
  t.test(`a program of ${era} is asked by a form within its call, and a person says yes or no`, async (t) => {
    const { transport, done } = await piped(t, {}, { waitMs: 1_000 })
    let isAgreed = true
    const elicits: Opened['elicits'] = () => ({ action: 'accept', content: { approve: isAgreed } })
    const { ask } = await speak(t, transport, { era, elicits })
    t.equal(said(await ask('use buy lamp')), 'result: {"done":"lamp"}')
    isAgreed = false
    t.match(said(await ask('use buy sofa')), /did not agree/)
    t.match(said(await ask('use pay rent')), /"questions":\[\]/, 'who has asked is not offered what others approve')
    t.same(done, ['buy lamp'])
  })

t.test('a program is told that its task works, and waits for it', async (t) => {
  const gate = opening()
  const { transport } = await piped(
    t,
    { pause: (word) => (word === 'slowly' ? gate.promise : undefined) },
    { waitMs: 1 },
  )
  const { ask } = await speak(t, transport, { era: '2025' })
  const told: unknown[] = []
  const onprogress = (progress: unknown) => {
    told.push(progress)
    gate.resolve()
  }
  t.equal(said(await ask('say slowly', { onprogress })), 'slowly')
  t.match(told, [{ progress: 1, message: 'shop works' }])
})

t.test('a call that its program gives up ends its task', async (t) => {
  const gate = opening()
  const { transport, team } = await piped(t, { pause: () => gate.promise })
  const { ask } = await speak(t, transport, { era: '2025' })
  const leaving = new AbortController()
  const left = ask('say slowly', { signal: leaving.signal })
  while ((await team.listRuns()).length === 0) await new Promise(setImmediate)
  leaving.abort()
  await t.rejects(left)
  while ((await team.listRuns())[0]!.status !== 'aborted') await new Promise(setImmediate)
  gate.resolve()
})

t.test('dramatis mcp speaks nothing but the protocol on stdout, and ends when its program leaves', async (t) => {
  const effects = join(t.testdir(), 'effects')
  mkdirSync(effects)
  const env = { EFFECTS: effects }
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [cli, 'mcp', `shop=${file}`, '--agents'],
    env,
    stderr: 'pipe',
  })
  const errors: unknown[] = []
  let printed = ''
  transport.stderr?.on('data', (text) => {
    printed += text
  })
  const { client, ask, call } = await speak(t, transport, {
    elicits: () => ({ action: 'accept', content: { approve: true } }),
  })
  client.onerror = (error) => errors.push(error)
  const { tools } = await client.listTools()
  t.same(tools.map(({ name }) => name).slice(0, 2), ['ask_shop', 'ask_shop_shop'])
  t.equal(said(await ask('use buy lamp')), 'result: {"done":"lamp"}')
  t.equal(said(await call('ask_shop_shop', { query: 'say hello' })), 'hello')
  const [name] = readdirSync(effects)
  t.equal(readFileSync(join(effects, name!), 'utf8'), 'buy lamp')
  const stderr = transport.stderr!
  const ended = once(stderr, 'end')
  await client.close()
  await ended
  t.match(printed, /"jsonrpc"[\s\S]*serves shop by MCP[\s\S]*a tool prints/)
  t.same(errors, [])
})

// The service is killed between any two requests of a client: each task is one, and what it does is done once.

const SHOP = 'http://shop'

/** Tries until it works: nobody knows what has become of a request whose connection broke. */
async function again<T>(act: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (/^ERROR|Task not found/.test(String(error))) throw error
      await new Promise(setImmediate)
    }
  }
}

/** Plays a task to its end, as a client of its kind does. Resolves to the ids that it was told, and the answer. */
type Play = (t: Test, shop: ServedShop, key: string, kill: () => void) => Promise<{ ids: string[]; answer: string }>

const meta = (key: string) => ({ 'dramatis/idempotencyKey': key })
const AGREED = { action: 'accept', content: { approve: true } } as const

const plays: Record<string, Play> = {
  async tasks(t, { fetch }, key, kill) {
    const { ask, send } = await connect(t, SHOP, { fetch, tasks: true, meta: meta(key) })
    kill()
    const ids: string[] = []
    for (;;) {
      const { taskId } = taskIn(await again(() => ask('use buy lamp'))) // it may be sent again at any time
      ids.push(taskId)
      const task = await again(() => send('tasks/get', { taskId }))
      if (task.status === 'completed') return { ids, answer: said(task.result) }
      const inputResponses = Object.fromEntries(Object.keys(task.inputRequests ?? {}).map((each) => [each, AGREED]))
      if (task.inputRequests) await again(() => send('tasks/update', { taskId, inputResponses }))
    }
  },
  async forms(t, { fetch }, key, kill) {
    const { ask } = await connect(t, SHOP, { fetch, elicits: () => AGREED, meta: meta(key) })
    kill()
    const ids: string[] = []
    for (;;) {
      const result = await again(() => ask('use buy lamp'))
      ids.push(result._meta['dramatis/taskId'])
      if (result._meta['dramatis/status'] === 'finished') return { ids, answer: said(result) }
    }
  },
  async 'tools of 2025'(_t, { fetch }, key, kill) {
    const call = async (name: string, given: object) => {
      const params = { name, arguments: given, _meta: meta(key) }
      const send = () => sendRaw(SHOP, { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, { fetch })
      return (await again(send)).message.result
    }
    kill()
    const begun = await call('ask_shop', { query: 'use buy lamp' })
    const taskId: string = begun._meta['dramatis/taskId']
    const ids = [taskId, (await call('ask_shop', { query: 'use buy lamp' }))._meta['dramatis/taskId']]
    for (let result = begun; ; result = await call('task_status', { taskId })) {
      if (result._meta['dramatis/status'] === 'finished') return { ids, answer: said(result) }
      for (const { questionId, digest } of result.structuredContent.questions)
        await call('answer_question', { taskId, questionId, digest, answer: 'yes' })
    }
  },
}

t.test('the service is killed at random moments', async (t) => {
  const shop = new ServedShop(t)
  for (let seed = 1; seed <= howMany(3, 200); seed++) {
    const dice = new Dice(seed)
    const kind = dice.pick(Object.keys(plays))
    let killed: Promise<void> | undefined
    const { ids, answer } = await plays[kind]!(t, shop, `k${seed}`, () => {
      killed = shop.killBehind(dice.upTo(250))
    })
    await killed
    t.equal(new Set(ids).size, 1, `${kind}, seed ${seed}: it is one task`)
    t.equal(answer, 'result: {"done":"lamp"}')
    t.equal(shop.effects.length, seed, 'it was bought once')
  }
})
