/** A team that is given work at a steady rate through its public API, while its threads die. */
import { setTimeout as pause } from 'node:timers/promises'
import { createTeam, type Team } from '../../src/index.ts'
import { silent } from '../kit/team.ts'
import type { countingClock } from './counting-clock.ts'

const module = (name: string) => new URL(`../fixtures/soak/${name}.js`, import.meta.url)
const WORKERS = ['worker-a', 'worker-b']
const PACE_MS = 50
const DEATHS = ['exit', 'throw', 'loop']
/** One piece of work of so many costs its thread. */
export const DEATH_EVERY = 15
/** Enough for each kind of death, however slow the machine is. */
const LEAST_WORK = 48

export interface Account {
  executed: number
  messages: number
  /** What did not come out as it should have. */
  wrong: string[]
}

export function soakTeam(clock: ReturnType<typeof countingClock>): Team {
  return createTeam({
    agents: [
      ...WORKERS.map((name) => ({ name, module: module('worker') })),
      { name: 'helper', module: module('helper') },
      { name: 'sink', module: module('sink') },
    ],
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const worker = WORKERS[Number(query.split(' ')[1]) % WORKERS.length]!
        return (await script.request(worker, query)).content
      },
    },
    supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 }, watchdogMs: 400 },
    clock,
    logger: silent,
  })
}

/** Until the time is over and each kind of death has come; then what is under way ends. */
export async function steadyLoad(team: Team, ms: number): Promise<Account> {
  const account: Account = { executed: 0, messages: 0, wrong: [] }
  const under = new Set<Promise<void>>()
  const doing = (work: Promise<void>) => {
    const kept = work
      .catch((error: unknown) => void account.wrong.push(String(error)))
      .finally(() => under.delete(kept))
    under.add(kept)
  }
  const until = performance.now() + ms
  for (let n = 1; n <= LEAST_WORK || performance.now() < until; n++) {
    const order = n % DEATH_EVERY === 0 ? DEATHS[(n / DEATH_EVERY) % DEATHS.length]! : 'work'
    doing(execute(team, `${order} ${n}`, account))
    doing(message(team, n, account))
    await pause(PACE_MS)
  }
  while (under.size > 0) await Promise.all(under)
  return account
}

async function execute(team: Team, query: string, account: Account): Promise<void> {
  const result = await team.execute(query)
  account.executed += 1
  const right = `done ${query.split(' ')[1]}`
  if (!result.success) account.wrong.push(`${query}: ${result.error.message}`)
  else if (result.finalOutput !== right) account.wrong.push(`${query}: ${result.finalOutput}`)
}

async function message(team: Team, n: number, account: Account): Promise<void> {
  await team.sendMessage({ recipient: 'sink', content: String(n) })
  account.messages += 1
}
