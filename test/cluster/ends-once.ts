/** Three processes of a cluster under a nemesis, by seeds, on one engine. */
import t from 'tap'
import { howMany } from '../how-many.ts'
import { engines } from './engines.ts'
import { processFaults, underNemesis } from './nemesis.ts'

/** Tests that what was accepted ends once. `seconds`: how long a seed plays in `npm test`, and in `npm run test:deep`. */
export function endsOnce(name: string, seconds: { plain: number; deep: number }, deepSeeds: number): void {
  const { DRAMATIS_NEMESIS_SECONDS, DRAMATIS_NEMESIS_SEED, DRAMATIS_NEMESIS_ASKING } = process.env
  const { skip, start } = engines.find((engine) => engine.name === name)!
  const seeds = DRAMATIS_NEMESIS_SEED
    ? [Number(DRAMATIS_NEMESIS_SEED)]
    : Array.from({ length: howMany(1, deepSeeds) }, (_, i) => i + 1)
  for (const seed of seeds)
    t.test(`what was accepted ends once on ${name}, seed ${seed}`, { skip, timeout: 0 }, async (t) => {
      const engine = await start('nemesis', 3)
      t.teardown(() => engine.remove())
      const times = { beatMs: 300, suspectMs: 1_000, ttlMs: 3_000 }
      const report = await underNemesis({
        members: engine.urls.map((url) => ({ url, name: 'nemesis', shards: 8, times })),
        seconds: Number(DRAMATIS_NEMESIS_SECONDS ?? howMany(seconds.plain, seconds.deep)),
        rate: 4,
        seed,
        faults: [...processFaults(3_000), ...engine.faults],
        asking: Number(DRAMATIS_NEMESIS_ASKING ?? howMany(1, 2) / 10),
        patienceMs: engine.patienceMs,
      })
      const { ends: _, ...counted } = report
      t.comment(JSON.stringify(counted))
      const { accepted, finished, told, lost, wrong, doubled, missing, forgotten } = report
      t.ok(accepted > 0)
      const none = { lost: [], wrong: [], doubled: [], missing: [], forgotten: [] }
      t.same({ lost, wrong, doubled, missing, forgotten }, none)
      t.equal(finished + (told.OUTCOME_UNKNOWN ?? 0), accepted)
    })
}
