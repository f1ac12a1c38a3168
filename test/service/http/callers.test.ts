/** What belongs to callers: a thread to the one that began it, a task to the tenant that authorize names. */
import t, { type Test } from 'tap'
import { textOf } from '../../../src/actors/definition/content.ts'
import { type ConversationStore, createTeam, type StateManagement } from '../../../src/index.ts'
import type { ModelClient } from '../../../src/models.ts'
import { compactLog } from '../../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { DigestFold } from '../../../src/service/digest/digest-fold.ts'
import { type Operation, routes } from '../../../src/service/http/routes.ts'
import { testTeam } from '../../../src/testing.ts'
import { folderOf } from '../../durability/log-folders.ts'
import { gate, silent } from '../../kit/team.ts'
import { FakeModel } from '../../models/fake-model.ts'
import { callerOf, type Sent, type Stage, send, send as sendTo, stage } from './stage.ts'

// A thread belongs to the caller that began it: nobody else goes on with it, reads it, or learns that it is there.

const SECRET = 'the code is 4711'
const ANN = 'ann:run'
/** Callers that are strangers to the threads of ann. To see everything is no right to go on with it. */
const STRANGERS = ['bob:run', 'bob:run,watch']

interface Given {
  api?: Partial<HttpApiOptions>
  state?: StateManagement
  conversations?: ConversationStore
}

/** A service of one model agent that answers with all that it is shown. */
function service(t: Test, { api: options, ...given }: Given = {}) {
  const model: ModelClient = {
    offline: true,
    async *complete({ messages }) {
      yield { text: messages.flatMap(({ role, content }) => (role === 'user' ? [textOf(content)] : [])).join(' | ') }
    },
  }
  const { state, conversations } = given
  const team = createTeam({
    agents: [{ name: 'bot', systemPrompt: 'Repeat.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: model },
    logger: silent,
    ...(state && { stateManagement: state }),
    ...(conversations && { conversations }),
  })
  const api = httpApi({
    teams: { desk: team },
    authorize: callerOf,
    logger: silent,
    ...options,
    limits: { postsPerSecond: 10_000 },
  })
  const close = async () => {
    await api.close()
    await team.close()
  }
  t.teardown(close)
  const ask = (method: string, path: string, asked: Parameters<typeof send>[3]) => send(api, method, path, asked)
  const say = (caller: string, query: string, threadId = 'talk') =>
    ask('POST', '/api/tasks', { caller, body: { query, threadId } })
  return { team, api, ask, say, close }
}

/** All ways to say something in a thread over HTTP. */
const DOORS: Record<string, (ask: ReturnType<typeof service>['ask'], caller: string) => Promise<Sent>> = {
  task: (ask, caller) => ask('POST', '/api/tasks', { caller, body: { query: 'go', threadId: 'talk' } }),
  'task with its other name': (ask, caller) =>
    ask('POST', '/api/process-multi-agent-task', { caller, body: { query: 'go', threadId: 'talk', team: 'desk' } }),
  'task as a stream': (ask, caller) =>
    ask('POST', '/api/tasks?deltas=1', {
      caller,
      headers: { accept: 'text/event-stream' },
      body: { query: 'go', threadId: 'talk' },
    }),
  'task with a key': (ask, caller) =>
    ask('POST', '/api/tasks', {
      caller,
      headers: { 'idempotency-key': 'k' },
      body: { query: 'go', threadId: 'talk' },
    }),
  'task to come back to': (ask, caller) =>
    ask('POST', '/api/tasks', {
      caller,
      headers: { prefer: 'respond-async' },
      body: { query: 'go', threadId: 'talk' },
    }),
  chat: (ask, caller) =>
    ask('POST', '/v1/chat/completions', {
      caller,
      headers: { 'x-dramatis-thread': 'talk' },
      body: { model: 'desk', messages: [{ role: 'user', content: 'go' }] },
    }),
  'chat with one agent': (ask, caller) =>
    ask('POST', '/v1/chat/completions', {
      caller,
      headers: { 'x-dramatis-thread': 'talk' },
      body: { model: 'desk/bot', messages: [{ role: 'user', content: 'go' }], stream: true },
    }),
  response: (ask, caller) =>
    ask('POST', '/v1/responses', {
      caller,
      headers: { 'x-dramatis-thread': 'talk' },
      body: { model: 'desk', input: 'go' },
    }),
}

t.test('only its caller goes on with a thread, and who operates the service', async (t) => {
  for (const [door, go] of Object.entries(DOORS)) {
    const { ask, say, team } = service(t)
    await say(ANN, SECRET)
    for (const caller of STRANGERS) {
      const refused = await go(ask, caller)
      t.equal(refused.status, 404, `${door}, ${caller}`)
      t.notMatch(JSON.stringify(refused.body), /4711|ann/)
    }
    t.equal((await team.listRuns()).length, 1, `${door}: nothing was begun`)
    for (const caller of [ANN, 'root:run,operate']) {
      const { status, body } = await go(ask, caller)
      t.equal(status, door === 'task to come back to' ? 202 : 200, `${door}, ${caller}`)
      if (status === 202) await ask('GET', `/api/tasks/${body.id}?wait=60`, { caller })
    }
    const last = await say(ANN, 'and?')
    t.equal(last.body.answer, `${SECRET} | go | go | and?`, door)
  }
})

t.test('a thread of nobody is nobody’s over HTTP', async (t) => {
  const { team, say } = service(t)
  await team.execute(SECRET, { threadId: 'talk' })
  await team.sendMessage({ recipient: 'bot', content: SECRET, requiresResponse: true, threadId: 'posted' })
  await team.execute(SECRET, { threadId: 'hers', metadata: { caller: 'ann' } })
  for (const threadId of ['talk', 'posted']) {
    for (const caller of [ANN, ...STRANGERS]) t.equal((await say(caller, 'go', threadId)).status, 404)
    t.match((await say('root:run,operate', 'go', threadId)).body, { answer: `${SECRET} | go` })
    t.equal((await say('root:run', 'go', threadId)).status, 404, 'to go on with it makes it nobody’s own')
  }
  t.match((await say(ANN, 'go', 'hers')).body, { answer: `${SECRET} | go` }, 'the program may say for whom it asks')
  t.equal((await say('bob:run', 'go', 'hers')).status, 404)
  t.match(await team.execute('on', { threadId: 'hers' }), { success: true }, 'the program itself is not bound')
})

t.test('of two callers who begin a thread at once, one owns it', async (t) => {
  const { say } = service(t)
  for (let nth = 0; nth < 10; nth += 1) {
    const sent = await Promise.all(['ann', 'bob', 'cid'].map((id) => say(`${id}:run`, `of ${id}`, `talk ${nth}`)))
    t.same(sent.map(({ status }) => status).sort(), [200, 404, 404])
    t.notMatch(sent.find(({ status }) => status === 200)?.body.answer, /\|/)
  }
})

t.test('threads are shared where the service says so', async (t) => {
  const { say } = service(t, { api: { sharedThreads: true } })
  await say(ANN, 'one')
  t.match((await say('bob:run', 'two')).body, { answer: 'one | two' })
})

t.test('a thread keeps its owner when its runs are forgotten, and over restarts and compactions', async (t) => {
  const folder = folderOf(t)
  const keep = { runs: 1 }
  const stateOf = () => ({ store: new FileStore(folder, { segmentBytes: 4_096 }), keep })
  const first = service(t, { state: stateOf() })
  await first.team.execute(SECRET, { threadId: 'of the program' })
  await first.say(ANN, SECRET)
  for (let nth = 0; nth < 30; nth += 1) await first.say('cid:run', 'x'.repeat(500), `other ${nth}`)
  await first.close()
  for (const compacts of [false, true, true]) {
    if (compacts) {
      const store = new FileStore(folder, { segmentBytes: 4_096 })
      await compactLog(store, { keep: { runs: 1, days: 30, bytes: 2 ** 30 }, logger: silent })
      await store.close()
    }
    const later = service(t, { state: stateOf() })
    for (const caller of [...STRANGERS, 'cid:run']) t.equal((await later.say(caller, 'go')).status, 404)
    t.equal((await later.say(ANN, 'go', 'of the program')).status, 404)
    t.match((await later.say(ANN, 'go')).body.answer, new RegExp(`^${SECRET} \\| go`))
    for (let nth = 0; nth < 30; nth += 1) await later.say('cid:run', 'x'.repeat(500), `other ${nth}`)
    t.notMatch(
      (await later.team.listRuns()).map(({ query }) => query),
      [SECRET],
    )
    await later.close()
  }
})

t.test('processes that share conversations share their owners', async (t) => {
  const rows = new Map<string, string>()
  const conversations: ConversationStore = {
    load: async (threadId) =>
      [...rows].flatMap(([key, row]) => (key.startsWith(`${threadId} `) ? [JSON.parse(row)] : [])),
    async save(threadId, stored) {
      const key = `${threadId} ${stored.agent}`
      const isNext = (rows.has(key) ? JSON.parse(rows.get(key)!).version : 0) === stored.version - 1
      if (isNext) rows.set(key, JSON.stringify(stored))
      return isNext
    },
  }
  const [one, other] = [service(t, { conversations }), service(t, { conversations })]
  await one.say(ANN, SECRET)
  t.match(JSON.parse(rows.get('talk $thread')!), { agent: '$thread', version: 1, conversation: { owner: 'ann' } })
  t.equal((await other.say('bob:run', 'go')).status, 404)
  t.match((await other.say(ANN, 'go')).body, { answer: `${SECRET} | go` })
  await one.team.execute(SECRET, { threadId: 'of the program' })
  t.equal((await other.say(ANN, 'go', 'of the program')).status, 404)
  rows.delete('talk $thread')
  t.equal((await other.say(ANN, 'go')).status, 404, 'one of which no owner is known is nobody’s')
  for (let nth = 0; nth < 10; nth += 1) {
    const sent = await Promise.all([one.say(ANN, 'a', `new ${nth}`), other.say('bob:run', 'b', `new ${nth}`)])
    t.same(sent.map(({ status }) => status).sort(), [200, 404])
  }
})

t.test('a task of somebody else is answered as one that there is not', async (t) => {
  const { ask, say } = service(t)
  const { body } = await say(ANN, SECRET)
  const none = body.id.replace(/^./, body.id.startsWith('0') ? '1' : '0')
  const paths = new Map<Operation, string>()
  for (const [name, { path }] of Object.entries(routes) as [Operation, { path: string }][])
    if (/\/(?:tasks|responses)\/:id/.test(path))
      paths.set(name, path.replace('/v1/responses/:id', '/v1/responses/resp_:id').replace(/:(?!id)\w+/g, 'x'))
  t.ok(paths.size >= 12)
  const answer = { questionId: 'q', answer: 'yes' }
  for (const [name, path] of paths) {
    const { method } = routes[name]
    const of = async (id: string) => {
      const given = name === 'answerQuestion' ? { body: answer } : {}
      const sent = await ask(method, path.replace(':id', id), { caller: 'bob:run', ...given })
      return { status: sent.status, body: JSON.stringify(sent.body).replaceAll(id, 'ID') }
    }
    t.same(await of(body.id), await of(none), name)
    t.equal((await of(body.id)).status, 404, name)
  }
  const lists = async (query: string) => {
    const { status, body: sent } = await ask('GET', `/api/tasks?${query}`, { caller: 'bob:run' })
    return { status, body: JSON.stringify(sent).replaceAll(body.id, none) }
  }
  t.same(await lists(`before=${body.id}`), await lists(`before=${none}`))
  t.same(await lists('threadId=talk'), await lists('threadId=none'))
  const goesOn = async (id: string, caller: string) => {
    const given = { model: 'desk', input: 'go', previous_response_id: `resp_${id}` }
    const { status, body: sent } = await ask('POST', '/v1/responses', { caller, body: given })
    return { status, body: JSON.stringify(sent).replaceAll(id, 'ID') }
  }
  for (const caller of STRANGERS) t.same(await goesOn(body.id, caller), await goesOn(none, caller))
  t.match(await goesOn(body.id, 'root:run,operate'), { status: 200, body: /4711/ })
})

t.test('an id that no thread can have begins none', async (t) => {
  const { ask, team } = service(t)
  for (const threadId of ['', 'x'.repeat(257)]) {
    const task = await ask('POST', '/api/tasks', { caller: ANN, body: { query: 'go', threadId } })
    t.equal(task.status, 422)
    const chat = await ask('POST', '/v1/chat/completions', {
      caller: ANN,
      headers: { 'x-dramatis-thread': threadId },
      body: { model: 'desk', messages: [{ role: 'user', content: 'go' }] },
    })
    t.equal(chat.status, 400)
  }
  t.same(await team.listRuns(), [])
  await t.rejects(team.beginThread('', 'ann'), { code: 'CONFIGURATION', message: /^threadId: / })
})

// Tenants over HTTP: they come from `authorize` alone, and a caller who has one sees tasks of others of that one
// only.

const BODIES: [path: string, body: object][] = [
  ['/api/tasks', { query: 'go' }],
  ['/v1/chat/completions', { model: 'desk', messages: [{ role: 'user', content: 'go' }] }],
  ['/v1/responses', { model: 'desk', input: 'go' }],
]

t.test('a body with a caller or a tenant is refused, and nothing is begun', async (t) => {
  const { send, team } = stage(t)
  for (const [path, body] of BODIES)
    for (const field of ['tenant', 'caller']) {
      const { status } = await send('POST', path, { body: { ...body, [field]: 'acme' } })
      t.equal(status, 422, `${path} ${field}`)
    }
  t.same(await team.listRuns(), [])
  for (const [path, body] of BODIES) t.equal((await send('POST', path, { body, caller: 'ann:run:acme' })).status, 200)
  const runs = await team.listRuns()
  t.same(
    runs.map(({ caller, tenant }) => [caller, tenant]),
    BODIES.map(() => ['ann', 'acme']),
  )
})

t.test('a caller with a tenant finds and lists the tasks of others of that tenant alone', async (t) => {
  const { send } = stage(t)
  const begin = async (caller: string): Promise<string> =>
    (await send('POST', '/api/tasks', { body: { query: 'go' }, caller })).body.id
  const [acme, zeta, none] = [await begin('ann:run:acme'), await begin('zoe:run:zeta'), await begin('nan:run')]
  const statuses = async (caller: string) => {
    const sent = [acme, zeta, none].map((id) => send('GET', `/api/tasks/${id}`, { caller }))
    return (await Promise.all(sent)).map(({ status }) => status)
  }
  const listed = async (caller: string) =>
    (await send('GET', '/api/tasks', { caller })).body.tasks.map(({ id }: { id: string }) => id)
  t.same(await statuses('bob:watch:acme'), [200, 404, 404])
  t.same(await listed('bob:watch:acme'), [acme])
  t.same(await statuses('ann:run:acme'), [200, 404, 404])
  t.same(await statuses('nan:watch:acme'), [200, 404, 200], 'and its own from before it had one')
  t.same(await statuses('op:watch'), [200, 200, 200])
  t.same((await listed('op:watch')).length, 3)
  t.equal((await send('DELETE', `/api/tasks/${zeta}`, { caller: 'bob:operate:acme' })).status, 404)
})

const OF_ALL: [method: string, path: string][] = [
  ['GET', '/api/waits'],
  ['GET', '/api/turns'],
  ['GET', '/api/dead-letters'],
  ['POST', '/api/dead-letters/none/replay'],
  ['DELETE', '/api/dead-letters/none'],
  ['GET', '/api/agents/worker'],
  ['POST', '/api/agents/worker/restart'],
  ['POST', '/api/agents/worker/messages'],
  ['GET', '/metrics'],
]

t.test('what is about runs of all tenants is refused to a caller who has one', async (t) => {
  const { send } = stage(t)
  for (const [method, path] of OF_ALL) {
    const { status, body } = await send(method, path, {
      caller: 'bob:run,watch,operate,approve:acme',
      ...(method === 'POST' && { body: {} }),
    })
    t.match({ status, body }, { status: 403, body: { detail: /^"bob" has the tenant "acme"/ } }, path)
  }
  t.equal((await send('GET', '/healthz', { caller: 'bob:watch:acme' })).body.teams, undefined)
  t.ok((await send('GET', '/healthz', { caller: 'bob:watch' })).body.teams)
})

/** Begins to watch for a caller. Returns what folds it until a task is over. */
async function watch({ api }: Pick<Stage, 'api'>, caller: string): Promise<(id: string) => Promise<DigestFold>> {
  const gone = new AbortController()
  const headers = { 'x-caller': caller, accept: 'application/x-ndjson' }
  const { body } = await api.fetch(new Request('http://localhost/api/watch', { headers, signal: gone.signal }))
  const pieces = body!.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]()
  let text = (await pieces.next()).value ?? ''
  return async (id) => {
    const fold = new DigestFold()
    for (;;) {
      const lines = text.split('\n')
      text = lines.pop()!
      for (const line of lines.filter(Boolean)) fold.read(JSON.parse(line))
      if (typeof fold.runs.get(id)?.endedAt === 'number') break
      text += (await pieces.next()).value
    }
    gone.abort()
    return fold
  }
}

t.test('a caller with a tenant watches its own runs, and has no thread of another tenant', async (t) => {
  const on = stage(t)
  const { send, team } = on
  const begin = async (caller: string, threadId: string): Promise<string> =>
    (await send('POST', '/api/tasks', { body: { query: 'go', threadId }, caller })).body.id
  await begin('zoe:run:zeta', 'before')
  const watches = await Promise.all([watch(on, 'op:watch'), watch(on, 'bob:watch:acme')])
  const zoes = await begin('zoe:run:zeta', 'of-zoe')
  const id = await begin('ann:run:acme', 'of-ann')
  await team.clock.advance(1_000)
  const [all, own] = await Promise.all(watches.map((fold) => fold(id)))
  t.same([...own!.runs.keys()], [id])
  t.same([own!.names.includes(id), own!.names.includes(zoes)], [true, false])
  t.ok(all!.names.includes(zoes))
  for (const kind of ['messages', 'turns'] as const) {
    t.equal(all![kind].length, 2 * own![kind].length, kind)
    t.ok(own![kind].length > 0)
  }
  t.match([all!.agents.get('worker'), own!.agents.get('worker')], [{ turns: 3 }, { turns: 1 }])
  const threads = async (caller: string) => {
    const sent = ['of-ann', 'of-zoe'].map((thread) => send('GET', `/api/threads/${thread}`, { caller }))
    return (await Promise.all(sent)).map(({ status }) => status)
  }
  t.same(await threads('bob:watch:acme'), [200, 404])
  t.same(await threads('op:watch'), [200, 200])
  const intrude = (caller: string) =>
    send('POST', '/api/tasks', { body: { query: 'go', threadId: 'of-zoe' }, caller }).then(({ status }) => status)
  t.same([await intrude('bob:run,operate:acme'), await intrude('op:run,operate')], [404, 200])
})

t.test('a caller with a tenant reads nothing of what agents do for others', async (t) => {
  const [asked, held] = [gate(), gate()]
  const model = new FakeModel(async ({ messages }) => {
    if (JSON.stringify(messages).includes('secret')) {
      asked.open()
      await held.opened
    }
    return 'done'
  })
  const team = testTeam(
    {
      agents: [{ name: 'worker' }],
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          if (query === 'secret') await script.request(await script.spawn({ name: 'takeover' }), 'go')
          return (await script.request('worker', query)).content
        },
      },
      logger: silent,
    },
    { model },
  )
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent })
  t.teardown(async () => {
    held.open()
    await api.close({ teams: true })
  })
  const begin = async (query: string, of: string): Promise<string> => {
    const headers = { prefer: 'respond-async' }
    return (await sendTo(api, 'POST', '/api/tasks', { body: { query }, caller: `${of}:run:${of}`, headers })).body.id
  }
  const agentsOf = async (caller: string) =>
    (await sendTo(api, 'GET', '/api/agents?progress=1&context=1', { caller })).body.agents
  const watched = await watch({ api }, 'bob:watch:acme')
  const zetas = await begin('secret', 'zeta')
  await asked.opened
  const [seen] = await agentsOf('bob:watch:acme')
  t.match(seen, { name: 'worker', progress: null, context: null })
  for (const field of ['queued', 'inFlight', 'lastBeatMs']) t.notOk(Object.hasOwn(seen, field), field)
  t.match(await agentsOf('zoe:watch:zeta'), [{ progress: { runId: zetas }, context: null }])
  t.match(await agentsOf('op:watch'), [{ progress: { runId: zetas }, queued: 0, context: {} }])
  held.open()
  await team.getRun(zetas)!.result
  const again = await watch({ api }, 'bob:watch:acme')
  const id = await begin('go', 'acme')
  for (const fold of [await watched(id), await again(id)]) {
    t.ok(fold.turns.length > 0)
    t.same([...new Set(fold.names)].sort(), ['$orchestrator', '$user', id, 'default', 'worker'].sort())
    t.match(fold.agents.get('worker'), { queued: 0, inFlight: 0 })
  }
})
