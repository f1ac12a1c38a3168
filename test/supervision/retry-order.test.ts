/** Rules 0 and 16: a message that is tried again comes before all that its sender sent after it, whatever else happens. */
import t from 'tap'
import { Dice } from '../dice.ts'
import { leftovers, watchAccounts } from './accounts.ts'
import { openTeam, type Receive } from './teams.ts'

const MESSAGES = 12
const SENDERS = ['ann', 'bob']

interface Told {
  sender: string
  number: number
  fails: number
}

/** Two senders tell a worker that fails on some of it; in which order it succeeded, or gave up, by sender and priority. */
async function play(test: Parameters<typeof openTeam>[0], seed: number, onHandlerError: 'retry' | 'restart') {
  const dice = new Dice(seed)
  const ended = new Map<string, number[]>()
  const note = (line: string, number: number) => ended.set(line, [...(ended.get(line) ?? []), number])
  const sends: Receive = async (_message, context) => {
    const { name: sender } = context.role
    const asked: Promise<unknown>[] = []
    for (let number = 0; number < MESSAGES; number++) {
      const structuredData: Told = { sender, number, fails: dice.chance(0.4) ? 1 + dice.upTo(2) : 0 }
      const options = { structuredData, priority: dice.pick([0, 0, 1, 5, -1]) }
      const content = 'x'.repeat(dice.pick([1, 40_000]))
      if (dice.chance(0.2)) asked.push(context.request('worker', content, options))
      else await context.send('worker', content, options)
      if (dice.chance(0.3)) await context.sleep(dice.upTo(4))
    }
    await Promise.all(asked)
  }
  const team = openTeam(
    test,
    {
      ann: sends,
      bob: sends,
      async worker({ structuredData, priority }, context) {
        const { sender, number, fails } = structuredData as Told
        await context.sleep(dice.upTo(3))
        if (context.attempt <= fails) throw new Error(`${sender} ${number} fails in attempt ${context.attempt}`)
        note(`${sender} at ${priority}`, number)
      },
    },
    {
      seed,
      maxConcurrentAgents: 1 + dice.upTo(3),
      communication: dice.chance(0.3) ? { mailboxCapacity: 3 } : {},
      orchestration: {
        strategy: 'custom',
        run: async (script) =>
          (await script.requestAll(SENDERS, 'go'))
            .map((outcome) => (outcome.ok ? 'told' : outcome.error.message))
            .join(),
      },
      roles: {
        worker: {
          supervision: {
            onHandlerError,
            maxRestarts: 1_000,
            backoff: { baseMs: 1, capMs: 2 },
          },
        },
      },
    },
  )
  const accounts = watchAccounts(team.host)
  const runs = [team.execute('first'), ...(dice.chance(0.5) ? [team.execute('second')] : [])]
  await team.clock.runToIdle()
  const results = await Promise.all(runs)
  return { ended, runs: results, problems: [...accounts, ...leftovers(team.host)] }
}

for (const onHandlerError of ['retry', 'restart'] as const) {
  t.test(`rule 16: with '${onHandlerError}' each sender's messages of one priority keep their order`, async (t) => {
    for (let seed = 1; seed <= 25; seed++) {
      const { ended, runs, problems } = await play(t, seed, onHandlerError)
      t.same(problems, [], `seed ${seed}`)
      t.same(new Set(runs.map(({ finalOutput }) => finalOutput)), new Set(['told,told']), `seed ${seed}`)
      if (runs.length > 1) continue // the same numbers come in both runs
      for (const [line, numbers] of ended)
        t.same(
          numbers,
          [...numbers].sort((a, b) => a - b),
          `seed ${seed}: ${line}`,
        )
      t.equal([...ended.values()].flat().length, SENDERS.length * MESSAGES, `seed ${seed}: none is lost`)
    }
  })
}
