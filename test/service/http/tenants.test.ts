/** Tenants over HTTP: they come from `authorize` alone, and a caller who has one sees tasks of others of that one only. */
import t from 'tap'
import { httpApi } from '../../../src/service/api/index.ts'
import { DigestFold } from '../../../src/service/digest/digest-fold.ts'
import { testTeam } from '../../../src/testing.ts'
import { gate, silent } from '../../kit/team.ts'
import { FakeModel } from '../../models/fake-model.ts'
import { callerOf, type Stage, send as sendTo, stage } from './stage.ts'

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
