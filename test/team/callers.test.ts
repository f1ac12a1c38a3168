/** Whom a run is for: its caller and its tenant, in the run, in lists, in the log and for its agents. */
import t from 'tap'
import { createTeam, defineAgent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { entriesIn } from '../durability/log-entries.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'

t.test('agents see the caller and the tenant of a run, and lists select by them', async (t) => {
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent },
    { modules: { ann: defineAgent({ receive: (_message, context) => JSON.stringify(context.run) }) } },
  )
  t.teardown(() => team.close())
  const told = async (options: object) => JSON.parse((await team.execute('go', options)).finalOutput ?? '')
  t.same(await told({ runId: 'a', caller: 'ann', tenant: 'acme', metadata: { plan: 'pro' } }), {
    metadata: { plan: 'pro', caller: 'ann' },
    caller: 'ann',
    tenant: 'acme',
  })
  t.same(await told({ runId: 'b', metadata: { caller: 'bob' } }), { metadata: { caller: 'bob' }, caller: 'bob' })
  t.same(await told({ runId: 'c', tenant: 'zeta' }), { metadata: {}, tenant: 'zeta' })
  const listed = (await team.listRuns()).map(({ id, caller, tenant }) => [id, caller, tenant])
  t.same(listed, [
    ['c', null, 'zeta'],
    ['b', 'bob', null],
    ['a', 'ann', 'acme'],
  ])
  const ids = async (filter: object) => (await team.listRuns(filter)).map(({ id }) => id)
  t.same(await ids({ tenant: 'acme' }), ['a'])
  t.same(await ids({ tenant: 'acme', caller: 'bob' }), [])
  t.equal(team.getRun('a', { tenant: 'acme' })?.tenant, 'acme')
  t.equal(team.getRun('a', { tenant: 'zeta' }), undefined)
  t.equal(team.getRun('b', { tenant: 'acme' }), undefined)
  t.equal(team.getRun('b')?.tenant, null)
})

t.test('a caller or a tenant that is none is refused', async (t) => {
  const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { modules: {} })
  t.teardown(() => team.close())
  for (const wrong of [{ caller: '' }, { caller: 1 }, { tenant: 'x'.repeat(257) }, { tenant: null }])
    await t.rejects(team.execute('go', wrong as object), {
      code: 'CONFIGURATION',
      details: { path: Object.keys(wrong)[0] },
    })
  const two = { caller: 'ann', metadata: { caller: 'bob' } }
  await t.rejects(team.execute('go', two), { code: 'CONFIGURATION', details: { path: 'metadata.caller' } })
})

t.test('the log has them, and so have later processes', async (t) => {
  const disk = new MemoryDisk()
  const teamOn = () => {
    const team = createTeam({
      agents: [{ name: 'ann' }],
      orchestration: { strategy: 'sequential' },
      models: { default: Object.assign(new FakeModel(() => 'hello'), { offline: true }) },
      stateManagement: { store: new MemoryStore(disk) },
      logger: silent,
    })
    t.teardown(() => team.close())
    return team
  }
  const first = teamOn()
  await first.execute('go', { runId: 'a', caller: 'ann', tenant: 'acme' })
  await first.close()
  const [launched] = entriesIn(disk.blocks).flatMap((entry) => (entry.kind === 'run.launched' ? [entry] : []))
  t.match(launched, { caller: 'ann', tenant: 'acme', metadata: { caller: 'ann' } })
  const later = teamOn()
  t.match(await later.listRuns({ tenant: 'acme' }), [{ id: 'a', caller: 'ann', tenant: 'acme' }])
  t.same(await later.listRuns({ tenant: 'zeta' }), [])
  t.equal(later.getRun('a', { tenant: 'zeta' }), undefined)
  const found = later.getRun('a', { tenant: 'acme', caller: 'ann' })!
  t.match(await found.result, { success: true })
  t.equal(found.tenant, 'acme')
})
