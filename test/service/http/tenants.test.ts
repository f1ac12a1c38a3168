/** Tenants over HTTP: they come from `authorize` alone, and a caller who has one sees tasks of others of that one only. */
import t from 'tap'
import { stage } from './stage.ts'

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
