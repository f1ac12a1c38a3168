/** A thread belongs to the caller that began it: nobody else goes on with it, reads it, or learns that it is there. */

import type { Test } from 'tap'
import t from 'tap'
import { textOf } from '../../../src/actors/definition/content.ts'
import { type ConversationStore, createTeam, type StateManagement } from '../../../src/index.ts'
import type { ModelClient } from '../../../src/models.ts'
import { compactLog } from '../../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { type Operation, routes } from '../../../src/service/http/routes.ts'
import { folderOf } from '../../durability/log-folders.ts'
import { silent } from '../../kit/team.ts'
import { callerOf, type Sent, send } from './stage.ts'

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
