/** An idempotency key is one task: whatever team a body names, after restarts, and when its run is forgotten. */

import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { compactLog } from '../../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { folderOf } from '../../durability/log-folders.ts'
import { MemoryDisk, MemoryStore } from '../../durability/memory-store.ts'
import { silent } from '../../kit/team.ts'
import { callerOf, type Sent, send } from './stage.ts'

type State = NonNullable<MultiAgentPatternOptions['stateManagement']>

/** Teams that pay for each query, with their names by the logs that they have. `paid` gets what was paid. */
function service(t: Test, states: Record<string, State | undefined>, paid: string[]) {
  const teams = Object.fromEntries(
    Object.entries(states).map(([name, stateManagement]) => {
      const team = createTeam({
        agents: [{ name: 'bot' }],
        orchestration: {
          strategy: 'custom',
          async run(_desk, query) {
            paid.push(query)
            return `paid by ${name}`
          },
        },
        models: 'rehearsal',
        logger: silent,
        ...(stateManagement && { stateManagement }),
      })
      return [name, team]
    }),
  )
  const api = httpApi({
    teams,
    authorize: callerOf,
    logger: silent,
    limits: { postsPerSecond: 10_000, tasksPerCaller: 1_000 },
  })
  const post = (key: string, body: object): Promise<Sent> =>
    send(api, 'POST', '/api/tasks', { body, headers: { 'idempotency-key': key }, caller: 'ann:run' })
  const close = () => api.close({ teams: true })
  t.teardown(close)
  return { teams, post, close }
}

for (const isDurable of [true, false])
  t.test(`a key is one task in all teams${isDurable ? ', also after a restart' : ''}`, async (t) => {
    const paid: string[] = []
    const disks = { one: new MemoryDisk(), two: new MemoryDisk() }
    const stateOf = (name: keyof typeof disks) => (isDurable ? { store: new MemoryStore(disks[name]) } : undefined)
    const first = service(t, { one: stateOf('one'), two: stateOf('two') }, paid)
    const begun = await Promise.all([
      first.post('k', { query: 'pay', team: 'one', threadId: 'a' }),
      first.post('k', { query: 'pay', team: 'two', threadId: 'a' }),
      first.post('k', { query: 'pay', threadId: 'a' }),
    ])
    t.same(begun.map(({ status }) => status).sort(), [200, 422, 422])
    const { body } = await first.post('d', { query: 'default' })
    t.same(paid, ['pay', 'default'])
    if (isDurable) await first.close()
    // The other team comes first now: a body that names none still means the task of its key.
    const later = isDurable ? service(t, { two: stateOf('two'), one: stateOf('one') }, paid) : first
    for (const team of ['two', 'one', undefined]) {
      const { status } = await later.post('k', { query: 'pay', threadId: 'a', ...(team && { team }) })
      t.equal(status, team === 'one' ? 200 : 422)
    }
    t.match(await later.post('d', { query: 'default' }), { status: 200, body: { id: body.id, team: 'one' } })
    t.match(await later.post('k', { query: 'pay', team: 'none' }), { status: 422 }, 'the key is known')
    t.same(paid, ['pay', 'default'])
  })

t.test('a request that was refused leaves its key free', async (t) => {
  const paid: string[] = []
  const { post } = service(t, { one: undefined }, paid)
  t.equal((await post('k', { query: 'pay', priority: 1 })).status, 403)
  t.equal((await post('k', { query: 'pay', models: { none: 'x' } })).status, 403)
  t.equal((await post('k', { query: 'pay', team: 'none' })).status, 404)
  t.equal((await post('k', { query: 'pay' })).status, 200)
  t.same(paid, ['pay'])
})

for (const [keysMs, status] of [
  [undefined, 409],
  [0, 200],
] as const)
  t.test(`a forgotten key ${status === 409 ? 'does not begin its task again' : 'is free after keysMs'}`, async (t) => {
    const paid: string[] = []
    const folder = folderOf(t)
    const store = () => new FileStore(folder, { segmentBytes: 4_096 })
    const keep = { runs: 1, days: 30, bytes: 2 ** 30, ...(keysMs !== undefined && { keysMs }) }
    const serve = () => service(t, { one: undefined, two: { store: store(), keep } }, paid)
    const first = serve()
    const pays = { query: 'pay', team: 'two' }
    const { id } = (await first.post('k', pays)).body
    for (let nth = 0; nth < 20; nth++) await first.post(`${nth}`, { query: 'x'.repeat(500), team: 'two' })
    await first.close()
    for (let restarts = 0; restarts < 3; restarts++) {
      const log = store()
      await compactLog(log, { keep, logger: silent })
      await log.close()
      const later = serve()
      await later.teams.two!.start()
      t.equal(later.teams.two!.getRun(id), undefined)
      if (keysMs === undefined || restarts === 2) t.equal((await later.post('k', pays)).status, status)
      await later.close()
    }
    t.equal(paid.filter((query) => query === 'pay').length, status === 409 ? 1 : 2)
  })
