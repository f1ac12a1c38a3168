/** Plays the depot: once without a kill, and then with so many, until its runs have come to the same end. */
import type { Test } from 'tap'
import { Dice } from '../dice.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { type Depot, effectsIn, live, momentOf, outcomesOf } from './depot.ts'
import { folderOf } from './log-folders.ts'

interface Played {
  runs: number
  kills: number
  seed: number
  /** The provider answers a key once, and repeats that answer. */
  honours: boolean
  /** Threads that its agents have at the same time. They lose theirs soon when they are idle. Default: no limit. */
  threads?: number
}

async function depotOf(t: Test, { runs, honours, threads }: Pick<Played, 'runs' | 'honours' | 'threads'>) {
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
  const depot = (): Depot => ({ folder: folderOf(t), baseURL: server.baseURL, runs, killer, threads })
  return { server, seen, depot }
}

export async function play(t: Test, { runs, kills, seed, honours, threads }: Played): Promise<void> {
  const { server, seen, depot } = await depotOf(t, { runs, honours, threads })
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
      const incarnation = await live(t, here, moment)
      ended = incarnation.closed
      if (!ended) {
        killed += 1
        const how = `${moment!.at} ${'how' in moment! ? moment.how : ''}`.trim()
        died[how] = (died[how] ?? 0) + 1
      }
      for (const [run, result] of incarnation.results) {
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
