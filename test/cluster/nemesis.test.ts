/** Three processes of a cluster, killed, frozen, ended, with a database that restarts: nothing is lost or done twice. */
import t from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { processFaults, underNemesis } from './nemesis.ts'

const bin = postgresFolder()
const seconds = Number(process.env.DRAMATIS_NEMESIS_SECONDS ?? 20)
const seed = Number(process.env.DRAMATIS_NEMESIS_SEED ?? 1)

t.test('what was accepted ends once', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())
  const restart = {
    name: 'database',
    async act() {
      await server.kill()
      await server.run()
    },
  }
  const times = { beatMs: 300, suspectMs: 1_000, ttlMs: 3_000 }
  const member = { url: server.url, name: 'nemesis', shards: 8, times }
  const report = await underNemesis({
    members: [member, member, member],
    seconds,
    rate: 4,
    seed,
    faults: [...processFaults(3_000), restart],
    patienceMs: 60_000,
  })
  const { ends: _, ...counted } = report
  t.comment(JSON.stringify(counted))
  const { accepted, finished, told, lost, wrong, doubled, missing } = report
  t.ok(accepted > 0)
  t.same({ lost, wrong, doubled, missing }, { lost: [], wrong: [], doubled: [], missing: [] })
  t.equal(finished + (told.OUTCOME_UNKNOWN ?? 0), accepted)
})
