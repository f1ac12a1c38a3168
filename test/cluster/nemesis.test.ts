/** Three processes of a cluster, killed, frozen, ended, cut off, with an engine that restarts: nothing is lost or done twice. */
import t from 'tap'
import { howMany } from '../how-many.ts'
import { engines } from './engines.ts'
import { processFaults, underNemesis } from './nemesis.ts'

const { DRAMATIS_NEMESIS_SECONDS, DRAMATIS_NEMESIS_SEED, DRAMATIS_NEMESIS_ENGINE } = process.env
const seeds = DRAMATIS_NEMESIS_SEED
  ? [Number(DRAMATIS_NEMESIS_SEED)]
  : Array.from({ length: howMany(1, 50) }, (_, i) => i + 1)
/** The second engine has a part of the time of `npm test`; both have the same of that of `test:deep`. */
const secondsOf = (engine: number) => Number(DRAMATIS_NEMESIS_SECONDS ?? howMany(engine === 0 ? 60 : 24, 36))

for (const [n, { name, skip, start }] of engines.entries())
  for (const seed of seeds) {
    if (DRAMATIS_NEMESIS_ENGINE && name !== DRAMATIS_NEMESIS_ENGINE) continue
    t.test(`what was accepted ends once on ${name}, seed ${seed}`, { skip, timeout: 0 }, async (t) => {
      const engine = await start('nemesis', 3)
      t.teardown(() => engine.remove())
      const times = { beatMs: 300, suspectMs: 1_000, ttlMs: 3_000 }
      const report = await underNemesis({
        members: engine.urls.map((url) => ({ url, name: 'nemesis', shards: 8, times })),
        seconds: secondsOf(n),
        rate: 4,
        seed,
        faults: [...processFaults(3_000), ...engine.faults],
        patienceMs: engine.patienceMs,
      })
      const { ends: _, ...counted } = report
      t.comment(JSON.stringify(counted))
      const { accepted, finished, told, lost, wrong, doubled, missing } = report
      t.ok(accepted > 0)
      t.same({ lost, wrong, doubled, missing }, { lost: [], wrong: [], doubled: [], missing: [] })
      t.equal(finished + (told.OUTCOME_UNKNOWN ?? 0), accepted)
    })
  }
