/** Agents of A2A as roles: their tasks, words and questions, and processes that are killed. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer as createListener } from 'node:net'
import t, { type Test } from 'tap'
import { type AgentRole, createTeam, type MultiAgentPatternOptions, type Run } from '../../src/index.ts'
import { type HttpApi, httpApi } from '../../src/service/api/index.ts'
import { Dice } from '../dice.ts'
import { folderOf } from '../durability/log-folders.ts'
import { howMany } from '../how-many.ts'
import { silent } from '../kit/team.ts'
import { answerOf, rpc, type Sent, stateOf, textMessage } from '../service/a2a/client.ts'
import { opening, served } from '../service/chat/desk.ts'
import { ServedShop } from '../service/chat/served-shop.ts'

type Remote = NonNullable<NonNullable<AgentRole['remote']>['a2a']>

const auth = 'ann'
const authorize = (request: Request) =>
  request.headers.get('authorization') === 'Bearer ann' ? { id: 'ann', may: ['run' as const] } : null

function desk(t: Test, a2a: Remote, options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: [{ name: 'legal', description: 'knows the law', remote: { a2a } }],
    orchestration: { strategy: 'custom', run: async (script, query) => (await script.request('legal', query)).content },
    threads: { warmSpares: 0 },
    logger: silent,
    ...options,
  })
  t.teardown(() => team.close())
  return team
}

let runs = 0
function begun(team: ReturnType<typeof desk>, query: string, options: object = {}): Run<unknown> {
  const runId = `run${runs++}`
  team.execute(query, { ...options, runId }).catch(() => {})
  return team.getRun(runId)!
}

const asked = async (run: Run<unknown>) => {
  while (run.questions.length === 0) await new Promise(setImmediate)
  return run.questions[0]!
}

const cardAt = (url: string) => `${url}/a2a/shop/.well-known/agent-card.json`

t.test('a team elsewhere answers as a role, with its words as they come, its tokens and its memory', async (t) => {
  const { url } = await served(t, { a2a: true, authorize })
  const team = desk(t, { url, auth: async () => auth, session: 'thread' })
  const run = begun(team, 'say hello big world', { stream: true })
  const words: string[] = []
  for await (const event of run.events({ types: ['model.delta'] }))
    if (event.type === 'model.delta' && event.part === 'text') words.push(event.text)
  t.equal(words.join('').trim(), 'hello big world')
  t.ok(words.length > 2)
  const { finalOutput, totalTokenUsage } = await run.result
  t.match([finalOutput?.trim(), totalTokenUsage.totalTokens], ['hello big world', 2])
  t.match((await team.execute('say one', { threadId: 'talk' })).finalOutput, 'one')
  t.match((await team.execute('recall', { threadId: 'talk' })).finalOutput, /say one\|recall/)
  t.notMatch((await team.execute('recall', { threadId: 'other' })).finalOutput, /say one/)
})

t.test('what it asks is asked of people, and each answer is given once', async (t) => {
  const { url, done } = await served(t, { a2a: true, authorize })
  const team = desk(t, { url, auth })
  const table: [query: string, answer: string, said: RegExp][] = [
    ['use buy lamp', 'yes', /^result: \{"done":"lamp"\}$/],
    ['use buy sofa', 'no', /did not agree/],
    ['use ship lamp', '{"street":"Main Street"}', /Main Street/],
  ]
  for (const [query, answer, expected] of table) {
    const run = begun(team, query)
    const { questionId, text } = await asked(run)
    t.match(text, /^The agent behind "legal" \(http:\/\/127.* asks: /)
    await run.answer(questionId, answer)
    t.match((await run.result).finalOutput, expected)
  }
  t.same(done, ['buy lamp'])
  const clerk = desk(t, { url: cardAt(url).replace('shop', 'clerk'), auth })
  const run = begun(clerk, 'ask')
  const { questionId, choices } = await asked(run)
  t.same(choices, ['red', 'blue'])
  await run.answer(questionId, 'red')
  t.equal((await run.result).finalOutput, 'you said red')
  t.match((await clerk.execute('fail')).error, { message: /legal.*has failed its task: .*no ink/s })
})

t.test('a run that is cancelled cancels the task elsewhere; a durable team that is closed does not', async (t) => {
  const gate = opening()
  const { url, team: shop } = await served(t, {
    a2a: true,
    authorize,
    pause: (word) => (word === 'slowly' ? gate.promise : undefined),
  })
  const team = desk(t, { url, auth })
  const durable = desk(t, { url, auth }, { stateManagement: { path: folderOf(t) } })
  const begin = async (of: typeof team) => {
    const known = (await shop.listRuns()).length
    const run = of.launch('say it slowly')
    while ((await shop.listRuns()).length === known) await new Promise(setImmediate)
    for await (const _ of run.events({ types: ['model.delta'] })) break // it has words of the task, so it knows the task
    return { run, there: shop.getRun((await shop.listRuns())[0]!.id)! }
  }
  const { run, there } = await begin(team)
  await run.cancel('enough')
  await there.result
  t.equal(there.status, 'aborted')
  const { there: left } = await begin(durable)
  await durable.close({ drainMs: 0 })
  gate.resolve()
  await left.result
  t.equal(left.status, 'finished')
})

t.test('an agent that refuses, is away or cannot be understood is named, with what to do', async (t) => {
  const { url } = await served(t, { a2a: true, authorize })
  const error = async (a2a: Remote) => (await desk(t, a2a, { communication: { turnRetries: 0 } }).execute('hi')).error
  t.match(await error({ url, auth: 'eve' }), {
    code: 'AGENT_FAILED',
    message: /answers 401.*Give it a token.*remote\.a2a\.auth/s,
  })
  const message = JSON.stringify(await error({ url, auth: 'eve-secret' }))
  t.notMatch(message, /eve-secret/)
  t.match(await error({ url: 'http://127.0.0.1:49999', timeoutMs: 1 }), { message: /cannot be reached/ })
  const { url: odd } = await peer(t, () => ({ supportedInterfaces: [{ protocolBinding: 'GRPC', url: 'http://x' }] }))
  t.match(await error(odd), { message: /without an interface for A2A 1\.0 by JSON-RPC/ })
  const { url: away } = await peer(t, () => ({
    supportedInterfaces: [{ protocolBinding: 'JSONRPC', protocolVersion: '1.0', url: 'http://elsewhere.example/a2a' }],
  }))
  t.match(await error({ url: away, auth }), { message: /leads to http:\/\/elsewhere.*not given the token/ })
  const { url: mute } = await plain(t, () => ({}))
  t.match(await error(mute), { message: /answers with neither a task nor words/ })
  const { url: empty, heard } = await plain(
    t,
    (_method, _params, response) => void response.setHeader('content-type', 'text/event-stream').end(),
    [],
    true,
  )
  t.match(await error(empty), { message: /OutcomeUnknownError.*ended before it began/ })
  t.equal(heard.filter(({ method }) => method === 'SendStreamingMessage').length, 1)
  const wrong = (remote: object) => () => desk(t, 'http://a', { agents: [{ name: 'legal', remote: remote as never }] })
  t.throws(wrong({}), { code: 'CONFIGURATION', message: /remote.*one of acp and a2a/ })
  t.throws(wrong({ a2a: 'file:///x' }), { message: /remote\.a2a/ })
  t.throws(wrong({ a2a: { url: 'http://x', auth: 7 } }), { message: /remote\.a2a\.auth.*no token/ })
  t.throws(wrong({ a2a: 'http://x', acp: { command: 'x', cwd: '/' } }), { message: /2 addresses/ })
})

type Answer = (method: string, params: Fields, response: ServerResponse) => object | undefined
// biome-ignore lint/suspicious/noExplicitAny: tests look into messages of all shapes
type Fields = any

/** An agent of A2A that does what its test says. `answer`: the card for 'card'; undefined: it has answered itself. */
async function peer(t: Test, answer: Answer) {
  const heard: { method: string; params: Fields }[] = []
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { id, method = 'card', params } = text === '' ? {} : JSON.parse(text)
    heard.push({ method, params })
    const result = answer(method, params, response)
    if (!result) return
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(method === 'card' ? result : 'error' in result ? { id, ...result } : { id, result }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard }
}

/** A plain agent that polls: `task` is its answer for each method but the card. */
const plain = (t: Test, task: Answer, extensions: object[] = [], streaming = false) => {
  const made = peer(t, (method, params, response) => {
    if (method !== 'card') return task(method, params, response)
    const interfaces = [
      { protocolBinding: 'JSONRPC', protocolVersion: '1.0', url: `http://${response.req.headers.host}` },
    ]
    return { supportedInterfaces: interfaces, capabilities: { extensions, streaming } }
  })
  return made
}

const taskAs = (state: string, text = '', more: object = {}) => ({
  task: {
    id: 't1',
    contextId: 'c1',
    status: { state: `TASK_STATE_${state}`, ...(text && { message: { messageId: text, parts: [{ text }] } }) },
    ...more,
  },
})

t.test('a plain agent is polled, asked again only where nothing was done, and answered by text', async (t) => {
  let polls = 0
  const { url, heard } = await plain(t, (method, params, response) => {
    if (method === 'GetTask')
      return [taskAs('WORKING', 'looking').task, taskAs('INPUT_REQUIRED', 'Which?').task][polls++]
    if (heard.filter((each) => each.method === 'SendMessage').length === 1) {
      response.writeHead(503, { 'retry-after': '0' }).end()
      return undefined
    }
    if (params.message.taskId)
      return taskAs('COMPLETED', '', { artifacts: [{ artifactId: 'a', parts: [{ data: { is: 1 } }] }] })
    return taskAs('SUBMITTED')
  })
  const run = begun(desk(t, url), 'hi')
  const { questionId, text } = await asked(run)
  t.match(text, / asks: Which\?$/)
  await run.answer(questionId, 'that one')
  t.equal((await run.result).finalOutput, '{"is":1}')
  const sent = heard.filter(({ method }) => method === 'SendMessage').map(({ params }) => params.message)
  t.match(sent, [
    { messageId: String },
    { messageId: sent[0].messageId },
    { taskId: 't1', contextId: 'c1', parts: [{ text: 'that one' }] },
  ])
  t.not(sent[1].messageId, sent[2].messageId)
})

t.test('a message whose outcome is not known is sent again only where it is begun once', async (t) => {
  const table: [extensions: object[], more: object, unknown: RegExp | undefined][] = [
    [[], {}, /OutcomeUnknownError/],
    [[], { idempotent: true }, undefined],
    [[{ uri: 'urn:dramatis:once' }], {}, undefined],
  ]
  for (const [extensions, more, unknown] of table) {
    let sent = 0
    const { url, heard } = await plain(
      t,
      (_method, _params, response) => {
        sent += 1
        if (sent > 1) return { message: { role: 'ROLE_AGENT', parts: [{ text: 'done' }] } }
        response.destroy()
        return undefined
      },
      extensions,
    )
    const { error, finalOutput } = await desk(t, { url, ...more }, { communication: { turnRetries: 0 } }).execute('hi')
    t.match(unknown ? error : finalOutput, unknown ? { message: unknown } : 'done')
    const ids = heard.flatMap(({ params }) => params?.message.messageId ?? [])
    t.match([new Set(ids).size, ids.length], [1, unknown ? 1 : 2])
  }
})

t.test(
  'an agent that asks for a login waits for a person; one that forgets a task has an unknown outcome',
  async (t) => {
    let isIn = false
    const first = await plain(t, (method) => {
      if (method === 'SendMessage') return taskAs('AUTH_REQUIRED', 'https://login.example/x')
      return isIn ? taskAs('COMPLETED', 'in').task : taskAs('AUTH_REQUIRED', 'https://login.example/x').task
    })
    const run = begun(desk(t, first.url), 'hi')
    const { questionId, text, choices } = await asked(run)
    t.match([text, choices], [/asks for a login: https:\/\/login\.example\/x/, ['done', 'declined']])
    isIn = true
    await run.answer(questionId, 'done')
    t.equal((await run.result).finalOutput, 'in')
    const lost = await plain(t, (method) =>
      method === 'SendMessage' ? taskAs('WORKING') : { error: { code: -32_001, message: 'no such task' } },
    )
    t.match((await desk(t, lost.url, { communication: { turnRetries: 0 } }).execute('hi')).error, {
      message: /OutcomeUnknownError.*does not know its task any more/,
    })
  },
)

t.test('a wait for an agent elsewhere is seen', async (t) => {
  const gate = opening()
  const { url } = await served(t, { a2a: true, authorize, pause: () => gate.promise })
  const team = desk(t, { url, auth })
  const run = begun(team, 'say slowly')
  const seen = () => team.waits().find(({ kind }) => kind === 'remote')
  while (!seen()) await new Promise(setImmediate)
  t.match(seen(), { agent: 'legal', for: [url], runId: run.id })
  while (!team.turns().some(({ sentence }) => sentence.includes(`waits for the agent at ${url}`)))
    await new Promise(setImmediate)
  gate.resolve()
  t.match((await run.result).finalOutput, 'slowly')
})

t.test('teams that wait for each other are told so at once, over any number of others', async (t) => {
  /** An address, and what puts a team behind it whose one agent is at another address. */
  const place = async () => {
    const apis: HttpApi[] = []
    const server = createServer((request, response) => apis[0]!.node(request, response)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const open = (to: string) => {
      const team = desk(t, to, { communication: { turnRetries: 0 } })
      const authorize = () => ({ id: 'ann', may: ['run' as const] })
      apis.push(httpApi({ teams: { desk: team }, authorize, a2a: true, logger: silent }))
      return team
    }
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, open }
  }
  for (const [count, over] of [
    [1, /over nobody else/],
    [2, /over [\da-f]{8}, for this/],
    [3, /over [\da-f]{8}, [\da-f]{8}, for this/],
  ] as const) {
    const places: Awaited<ReturnType<typeof place>>[] = []
    for (let at = 0; at < count; at++) places.push(await place())
    const [first] = places.map(({ open }, at) => open(places[(at + 1) % count]!.url))
    const { error } = await first!.execute('hi')
    t.match(
      error?.message,
      /DEADLOCK: a circle of agents: agent "legal" of this team waits in run \S+ for the agent at http/,
    )
    t.match(error?.message, over)
  }
  const { url } = await served(t, { a2a: true })
  const path = Array.from({ length: 33 }, (_, at) => `mark${at}`)
  const { error } = await rpc(url, 'SendMessage', textMessage('hi', { metadata: { 'dramatis/path': path } }))
  t.match(error.message, /^CONFIGURATION: metadata\["dramatis\/path"\]/)
})

// A desk asks a shop by A2A, and either of the two processes is killed: one task there, its effect once.

/** An address that stays, in front of a service that has another one after each start. */
async function addressOf(t: Test, service: ServedShop): Promise<string> {
  const server = createListener(async (socket) => {
    const on = connect(Number(new URL(await service.url).port), '127.0.0.1')
    for (const [one, other] of [
      [socket, on],
      [on, socket],
    ] as const) {
      one.on('error', () => {})
      one.on('close', () => other.destroy())
      one.pipe(other)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('either process is killed at random moments, also while one waits for a person', async (t) => {
  const shop = new ServedShop(t)
  const desk = new ServedShop(t, 'remote/a2a-desk', await addressOf(t, shop))
  const send = async (method: string, params: object): Promise<Sent> => {
    for (;;) {
      const sent = await rpc('http://desk', method, params, { team: 'desk', fetch: desk.fetch }).catch(() => undefined)
      if (sent?.error) throw new Error(JSON.stringify(sent.error))
      if (sent && sent.results.length > 0) return sent
      await new Promise(setImmediate)
    }
  }
  for (let seed = 1; seed <= howMany(3, 50); seed++) {
    const dice = new Dice(seed)
    const message = textMessage('use buy lamp')
    const killed = dice.pick([shop, desk]).killBehind(dice.upTo(600))
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
    let task: any
    do {
      const { id } = (await send('SendMessage', message)).results[0].task
      task = (await send('GetTask', { id })).results[0]
      if (stateOf(task) === 'INPUT_REQUIRED') {
        const { questionId } = task.status.message.metadata
        await send('SendMessage', textMessage('yes', { taskId: id, metadata: { questionId } }))
      }
    } while (!/COMPLETED|FAILED/.test(stateOf(task)))
    await killed
    t.equal(answerOf(task), 'result: {"done":"lamp"}', JSON.stringify(task.status))
    t.equal(shop.effects.length, seed, `seed ${seed}: it was bought once`)
  }
})
