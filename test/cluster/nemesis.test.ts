/** Three processes of a cluster, killed, frozen, ended, with a database that restarts: nothing is lost or done twice. */
import t from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { howMany } from '../how-many.ts'
import { processFaults, underNemesis } from './nemesis.ts'

const bin = postgresFolder()
const { DRAMATIS_NEMESIS_SECONDS, DRAMATIS_NEMESIS_SEED } = process.env
const seconds = Number(DRAMATIS_NEMESIS_SECONDS ?? howMany(60, 36))
const seeds = DRAMATIS_NEMESIS_SEED
  ? [Number(DRAMATIS_NEMESIS_SEED)]
  : Array.from({ length: howMany(1, 50) }, (_, i) => i + 1)

for (const seed of seeds)
  t.test(
    `what was accepted ends once, seed ${seed}`,
    { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 },
    async (t) => {
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
    },
  )
