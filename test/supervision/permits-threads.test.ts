/**
 * Rule 19 on real threads: agents that are cancelled, time out, give up by a signal of their own, lose to who is faster, wait for
 * each other in chains and have messages ahead of them are never at work with more than the limit of turns of one run.
 */
import t from 'tap'
import { type AgentRole, createTeam } from '../../src/index.ts'
import { Dice } from '../dice.ts'
import type { Act } from '../fixtures/supervision/works-and-waits.ts'
import { howMany } from '../how-many.ts'
import { AtWork } from './at-work.ts'
import { silent } from './teams.ts'

const module = new URL('../fixtures/supervision/works-and-waits.js', import.meta.url)
const NAMES = ['ann', 'bob', 'cleo', 'dan']
const ROLES: Omit<AgentRole, 'name'>[] = [
  { reentrancy: 'chain' },
  { reentrancy: 'chain', concurrency: 3 },
  { instances: 2, priority: 1 },
  {},
]
const RUNS = howMany(12, 60)

/** Each asks those after it, and now and then one before it, which takes that within the turn that waits. */
function actsOf(dice: Dice, self: number, depth: number): Act[] {
  return Array.from({ length: 1 + dice.upTo(4) }, (): Act => {
    const later = NAMES.slice(self + 1)
    if (depth === 0 || later.length === 0 || dice.chance(0.15)) return { do: 'sleep', ms: dice.upTo(3) }
    if (self > 0 && dice.chance(0.2))
      return { do: 'request', to: NAMES[dice.upTo(Math.min(self, 2))]!, acts: [], own: 30 }
    const to = dice.upTo(later.length)
    const acts = actsOf(dice, self + 1 + to, depth - 1)
    const own = dice.chance(0.4) ? { own: 1 + dice.upTo(6) } : {}
    if (dice.chance(0.2)) return { do: 'send', to: later[to]!, acts }
    if (dice.chance(0.4)) return { do: dice.pick(['requestAny', 'requestAll'] as const), to: later, acts: [], ...own }
    const limit = dice.chance(0.3) ? { timeoutMs: 1 + dice.upTo(6) } : {}
    return { do: 'request', to: later[to]!, acts, ...own, ...limit, beside: dice.chance(0.3) }
  })
}

for (const limit of [1, 2])
  t.test(`rule 19: of one run at most ${limit} of the turns are at work, whatever ends their waits`, async (t) => {
    const atWork = new AtWork()
    atWork.share()
    const team = createTeam({
      agents: NAMES.map((name, i) => ({ ...ROLES[i], name, module })),
      maxConcurrentAgents: limit,
      threads: { warmSpares: 0 },
      logger: silent,
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const acts = JSON.parse(query) as Act[][]
          const asked = acts.map((each) => script.request('ann', JSON.stringify(each), { timeoutMs: 30_000 }))
          return `${(await Promise.allSettled(asked)).length}`
        },
      },
    })
    t.teardown(() => team.close())
    const dice = new Dice(limit)
    const play = async (run: number) => {
      const acts = Array.from({ length: 4 }, () => actsOf(dice, 0, 3))
      const { success, error } = await team.execute(JSON.stringify(acts), { runId: `run${run}` })
      t.ok(success, error?.message ?? `run${run}`)
    }
    for (let run = 0; run < RUNS; run += 2) await Promise.all([play(run), play(run + 1)])
    for (let run = 0; run < RUNS; run++) t.ok(atWork.mostOf(run) <= limit, `${atWork.mostOf(run)} of run${run}`)
  })
