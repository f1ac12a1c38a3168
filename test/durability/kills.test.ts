/**
 * A service on real threads that is killed with SIGKILL again and again and started again: while it starts, while it takes
 * up what its log has, in the middle of a write, between an effect and the word of it. Its runs end as those that were
 * never disturbed, and nothing is done a second time whose outcome stood in the log.
 *
 *   npm test: 12 kills      npm run test:deep: 200, and 100 runs at once
 *   DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/kills.test.js
 */
import t, { type Test } from 'tap'
import { Dice } from '../dice.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { type Depot, effectsIn, live, momentOf, outcomesOf } from './depot.ts'
import { folderOf } from './log-folders.ts'

const { DRAMATIS_DEEP, DRAMATIS_KILLS, SEED } = process.env
const kills = Number(DRAMATIS_KILLS ?? (DRAMATIS_DEEP ? 200 : 12))
const some = Math.floor(kills / 6)
const seed = Number(SEED ?? 11)

interface Played {
  runs: number
  kills: number
  seed: number
  /** The provider answers a key once, and repeats that answer. */
  honours: boolean
}

async function depotOf(t: Test, runs: number, honours: boolean) {
  const server = await modelServer(t)
  const killer = { asked: () => {}, answered: () => {} }
  const answers = new Map<string, string>()
  const seen = { generated: 0, again: 0 }
  server.always(({ prompt, headers, ended }) => {
    const key = String(headers['idempotency-key'])
    if (answers.has(key)) seen.again += 1
    if (!honours || !answers.has(key)) seen.generated += 1
    const answer = answers.get(key) ?? `You said ${prompt}`
    answers.set(key, answer)
    killer.asked()
    void ended.then(() => killer.answered())
    return answer
  })
  const depot = (): Depot => ({ folder: folderOf(t), baseURL: server.baseURL, runs, killer })
  return { server, seen, depot }
}

async function play(t: Test, { runs, kills, seed, honours }: Played): Promise<void> {
  const { server, seen, depot } = await depotOf(t, runs, honours)
  const { results: undisturbed } = await live(t, depot(), undefined)
  t.equal(undisturbed.size, runs)
  for (const { success, error } of undisturbed.values()) t.ok(success, error ?? 'a run succeeds')
  const once = seen.generated

  const dice = new Dice(seed)
  let [killed, lives] = [0, 0]
  const died: Record<string, number> = {}
  for (let rounds = 1; killed < kills; rounds++) {
    const here = depot()
    const results = new Map<string, unknown>()
    const before = seen.generated
    for (let ended = false; !ended; lives++) {
      const settled = await outcomesOf(here.folder)
      const [calls, effects] = [server.calls.length, effectsIn(here.folder).length]
      const moment = killed < kills ? momentOf(dice, runs, effects) : undefined
      const life = await live(t, here, moment)
      ended = life.closed
      if (!ended) {
        killed += 1
        const how = `${moment!.at} ${'how' in moment! ? moment.how : ''}`.trim()
        died[how] = (died[how] ?? 0) + 1
      }
      for (const [run, result] of life.results) {
        if (results.has(run)) t.same(result, results.get(run), 'a result that was given is not another one later')
        results.set(run, result)
      }
      const keys = server.calls.slice(calls).map(({ headers }) => String(headers['idempotency-key']))
      const again = [...keys, ...effectsIn(here.folder).slice(effects)].filter((each) => settled.has(each))
      t.same(again, [], 'nothing is done again whose outcome stood in the log')
    }
    t.same(results, undisturbed, `round ${rounds}: it ends as if nobody had killed it`)
    const paid = effectsIn(here.folder).filter((line) => line.includes('once-'))
    t.equal(paid.length, new Set(paid).size, 'what may be done once is done once')
    if (honours) t.equal(seen.generated - before, once, 'the provider has generated each answer once')
  }
  t.comment(`${killed} kills in ${lives} lives: ${JSON.stringify(died)}; ${seen.again} calls came again`)
}

t.test('a run goes on after each death of its process, as if nobody had killed it', (t) =>
  play(t, { runs: 1, kills: kills - 2 * some, seed, honours: false }),
)

t.test('a provider that honours idempotency keys generates each answer once, however often the service dies', (t) =>
  play(t, { runs: 1, kills: some, seed: seed + 1, honours: true }),
)

t.test('many runs at once go on after each death of their process', (t) =>
  play(t, { runs: DRAMATIS_DEEP ? 100 : 6, kills: some, seed: seed + 2, honours: false }),
)
