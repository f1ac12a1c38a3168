/**
 * A service whose tenants pay for calls of models, killed with SIGKILL in calls and while they are booked, and started
 * again. The provider bills each key once: what the accounts have is never less than that with what they hold, never
 * more without it, and the same in the end.
 *
 *   npm test: 2 kills      npm run test:deep: 60
 *   DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/paid-kills.test.js
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { Dice } from '../dice.ts'
import { type ModelServer, modelServer, type SeenCall } from '../fixtures/model-server.ts'
import { howMany } from '../how-many.ts'
import { folderOf } from './log-folders.ts'

const { DRAMATIS_KILLS, SEED } = process.env
const KILLS = Number(DRAMATIS_KILLS ?? howMany(2, 60))

const program = fileURLToPath(new URL('../fixtures/durability/spender.js', import.meta.url))
const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href

const LOOKS = 2
const TENANTS = ['acme', 'other']
/** Two agents answer each tenant, with two rounds of tools. */
const CALLS = TENANTS.length * 2 * (LOOKS + 1)

const BILLION = 1_000_000_000
const inBillionths = (amount: number) => Math.round(amount * BILLION)

interface Account {
  tenant: string | null
  used: number
  held: number
}

interface Told {
  at: 'begin' | 'end'
  accounts: Account[]
  runs: { tenant: string; success: boolean; amount: number }[]
}

/** What a life of the service dies of: a write, a call that comes, or a while after an answer has left. */
type Death = { write: string } | { call: number } | { answer: number; waits: number }

function deathOf(dice: Dice): Death {
  const kind = dice.upTo(3)
  if (kind === 0) return { write: `${1 + dice.upTo(20)} ${dice.pick(['before', 'within', 'after'] as const)}` }
  if (kind === 1) return { call: 1 + dice.upTo(6) }
  return { answer: 1 + dice.upTo(5), waits: dice.upTo(12) }
}

interface Bill {
  readonly tenant: string
  readonly inputTokens: number
  readonly outputTokens: number
}

/** Billionths of EUR, by the prices of the service. */
const amountIn = ({ inputTokens, outputTokens }: Bill) => 10_000_000 + inputTokens * 10_000 + outputTokens * 10_000_000

class Play {
  /** What the provider has billed, by the keys of the calls. */
  readonly #bills = new Map<string, Bill>()
  #child: ReturnType<typeof spawn> | undefined
  #death: Death | undefined
  #calls = 0
  #answers = 0

  constructor(dice: Dice, server: ModelServer) {
    server.always((call) => {
      const usage = this.#bill(dice, call)
      if (this.#death && 'call' in this.#death && this.#death.call === ++this.#calls) this.#kill()
      void call.ended.then(() => this.#answered())
      const looks = call.body.messages.filter(({ role }) => role === 'tool').length
      return looks < LOOKS ? { toolCalls: [{ name: 'look', input: {} }], usage } : { text: 'done', usage }
    })
  }

  get calls(): number {
    return this.#bills.size
  }

  /** Returns what is billed to a tenant, or to all, in billionths. */
  billed(of: string | null): number {
    let sum = 0
    for (const bill of this.#bills.values()) if (of === null || of === bill.tenant) sum += amountIn(bill)
    return sum
  }

  #bill(dice: Dice, { headers, body }: SeenCall): Bill {
    const key = String(headers['idempotency-key'])
    const tenant = TENANTS.find((name) => body.messages.some(({ content }) => content?.includes(`for ${name}.`)))!
    const bill = this.#bills.get(key) ?? { tenant, inputTokens: 1 + dice.upTo(20), outputTokens: dice.upTo(51) }
    this.#bills.set(key, bill)
    return bill
  }

  /** Lets the service live until it dies or its runs end; returns what it tells at its begin and at its end. */
  async live(t: Test, folder: string, baseURL: string, death: Death | undefined): Promise<Told[]> {
    this.#death = death
    this.#calls = 0
    this.#answers = 0
    const env = { ...process.env, ...(death && 'write' in death && { DIES_AT_WRITE: death.write }) }
    const args = ['--import', preload, program, join(folder, 'log'), baseURL]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env })
    t.teardown(() => child.kill('SIGKILL'))
    this.#child = child
    const exited = once(child, 'exit')
    const told: Told[] = []
    for await (const line of createInterface(child.stdout)) told.push(JSON.parse(line) as Told)
    const [code, signal] = await exited
    if (signal !== 'SIGKILL' && code !== 0) throw new Error(`the service ended with ${code ?? signal}`)
    return told
  }

  #answered(): void {
    if (this.#death && 'answer' in this.#death && this.#death.answer === ++this.#answers) this.#dieIn(this.#death.waits)
  }

  #dieIn(turns: number): void {
    if (turns === 0) this.#kill()
    else setImmediate(() => this.#dieIn(turns - 1))
  }

  #kill(): void {
    this.#child?.kill('SIGKILL')
  }
}

t.test('the accounts have what the provider has billed, whenever the service dies', async (t) => {
  const dice = new Dice(Number(SEED ?? 5))
  let [kills, held] = [0, 0]
  while (kills < KILLS) {
    const folder = folderOf(t)
    const server = await modelServer(t)
    const play = new Play(dice, server)
    const faults: string[] = []
    let ended: Told | undefined
    while (!ended) {
      const billed = new Map([...TENANTS, null].map((tenant) => [tenant, play.billed(tenant)]))
      const death = kills === 0 ? { call: 2 } : kills < KILLS ? deathOf(dice) : undefined
      const told = await play.live(t, folder, server.baseURL, death)
      ended = told.find(({ at }) => at === 'end')
      if (!ended) kills += 1
      for (const { tenant, ...amounts } of told.find(({ at }) => at === 'begin')?.accounts ?? []) {
        const [used, most] = [inBillionths(amounts.used), inBillionths(amounts.used + amounts.held)]
        const bills = billed.get(tenant) ?? 0
        if (used > bills || most < bills) faults.push(`${tenant}: ${used} to ${most} of ${bills}`)
        if (most > used) held += 1
      }
    }
    t.same(faults, [])
    const sums = TENANTS.map((tenant) => ({ tenant, used: play.billed(tenant) / BILLION, held: 0 }))
    t.same(
      ended.accounts.sort((one, other) => `${one.tenant}`.localeCompare(`${other.tenant}`)),
      [sums[0], { tenant: null, used: play.billed(null) / BILLION, held: 0 }, sums[1]],
    )
    t.same(
      ended.runs,
      sums.map(({ tenant, used: amount }) => ({ tenant, success: true, amount })),
    )
    t.equal(play.calls, CALLS, 'no call has got another key')
    await server.close()
  }
  t.ok(held > 0, 'services have died in calls')
})
