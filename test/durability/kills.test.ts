/**
 * Services that are killed at random moments, also in paid calls and around words to a run, and agents that end their
 * process.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Dice } from '../dice.ts'
import { type ModelServer, modelServer, type SeenCall } from '../fixtures/model-server.ts'
import { howMany, onlyDeep } from '../how-many.ts'
import { play } from './killed-depot.ts'
import { folderOf } from './log-folders.ts'

// A service on real threads that is killed with SIGKILL again and again and started again: while it starts, while it
// takes up what its log has, in the middle of a write, between an effect and the word of it. Its runs end as those that
// were never disturbed, and nothing is done a second time whose outcome stood in the log.
//
// npm test: 2 kills      npm run test:deep: 200, and 100 runs at once
// DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/kills.test.js

const { DRAMATIS_KILLS, SEED } = process.env
const kills = Number(DRAMATIS_KILLS ?? howMany(2, 200))
const some = Math.max(1, Math.floor(kills / 6))
const seed = Number(SEED ?? 11)

t.test('a run goes on after each death of its process, as if nobody had killed it', (t) =>
  play(t, { runs: 1, kills: Math.max(1, kills - 2 * some), seed, honours: false }),
)

t.test('a provider that honours idempotency keys generates each answer once, however often the service dies', (t) =>
  play(t, { runs: howMany(2, 1), kills: some, seed: seed + 1, honours: true }),
)

t.test('many runs at once go on after each death of their process', onlyDeep, (t) =>
  play(t, { runs: 100, kills: some, seed: seed + 2, honours: false }),
)

// A service whose agents share a few threads, and lose theirs when they are idle, killed with SIGKILL again and again.
//
// npm test: a kill      npm run test:deep: 60

const passivatedKills = Number(DRAMATIS_KILLS ?? howMany(1, 60))
const passivatedKillsSeed = Number(SEED ?? 21)

t.test('runs go on after each death of their process, though agents have no thread most of the time', (t) =>
  play(t, { runs: 1, kills: passivatedKills, seed: passivatedKillsSeed, honours: false, threads: 2 }),
)

// Services on real threads whose process an agent ends natively, each time its turn is tried.

const program = fileURLToPath(new URL('../fixtures/durability/crash-service.js', import.meta.url))

interface Line {
  run?: string
  success?: boolean
  finalOutput?: string
  error?: string
  letters?: string[]
}

/** A life of the service. `died`: a signal has ended it. */
async function live(t: Test, folder: string, how: string, queries: readonly string[]) {
  // A core that is dumped stays in the folder.
  const child = spawn(process.execPath, [program, join(folder, 'log'), how, ...queries], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  const lines: Line[] = []
  for await (const line of createInterface(child.stdout)) lines.push(JSON.parse(line))
  const [code, signal] = await exited
  return { lines, code, died: signal !== null || code === 134 || code === 139 }
}

async function untilAlive(t: Test, queries: readonly string[]) {
  const folder = folderOf(t)
  for (let deaths = 0; deaths < 10; deaths++) {
    const { lines, died } = await live(t, folder, 'ends', queries)
    if (!died) return { lines, deaths }
  }
  throw new Error('the service dies again and again')
}

t.test(
  'a turn that ends the process each time becomes a dead letter, and those beside it come to their end',
  async (t) => {
    const { lines, deaths } = await untilAlive(t, ['one work', 'two ask', 'bad crash', 'three sleep', 'four work'])
    t.ok(deaths >= 3 && deaths <= 6, `${deaths} deaths`)
    t.match(lines, [
      { run: 'one work', finalOutput: 'worked' },
      { run: 'two ask', finalOutput: 'yes' },
      { run: 'bad crash', success: false, error: /died \d times in a row while agent "bad" worked on this message/ },
      { run: 'three sleep', finalOutput: 'slept' },
      { run: 'four work', finalOutput: 'worked' },
      { letters: ['poison'] },
    ])
  },
)

t.test('a turn whose tool ends the process each time becomes a dead letter', async (t) => {
  const { lines, deaths } = await untilAlive(t, ['bad tool'])
  t.ok(deaths === 3 || deaths === 4, `${deaths} deaths`)
  t.match(lines, [{ run: 'bad tool', success: false }, { letters: ['poison'] }])
})

t.test('a service that ends by itself, however often, costs no turn', async (t) => {
  const folder = folderOf(t)
  for (const how of ['exits', 'throws', 'exits', 'throws'].slice(0, howMany(2, 4)))
    t.equal((await live(t, folder, how, ['one work'])).code, 1, how)
  const { lines } = await live(t, folder, 'ends', ['one work'])
  t.match(lines, [{ run: 'one work', finalOutput: 'worked' }, { letters: [] }])
})

// A service whose tenants pay for calls of models, killed with SIGKILL in calls and while they are booked, and
// started again. The provider bills each key once: what the accounts have is never less than that with what they
// hold, never more without it, and the same in the end.
//
// npm test: 2 kills      npm run test:deep: 60
// DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/kills.test.js

const PAID_KILLS = Number(DRAMATIS_KILLS ?? howMany(2, 60))

const spender = fileURLToPath(new URL('../fixtures/durability/spender.js', import.meta.url))
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
type DeathInCall = { write: string } | { call: number } | { answer: number; waits: number }

function deathInCall(dice: Dice): DeathInCall {
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

class Payments {
  /** What the provider has billed, by the keys of the calls. */
  readonly #bills = new Map<string, Bill>()
  #child: ReturnType<typeof spawn> | undefined
  #death: DeathInCall | undefined
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
  async live(t: Test, folder: string, baseURL: string, death: DeathInCall | undefined): Promise<Told[]> {
    this.#death = death
    this.#calls = 0
    this.#answers = 0
    const env = { ...process.env, ...(death && 'write' in death && { DIES_AT_WRITE: death.write }) }
    const args = ['--import', preload, spender, join(folder, 'log'), baseURL]
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
  while (kills < PAID_KILLS) {
    const folder = folderOf(t)
    const server = await modelServer(t)
    const play = new Payments(dice, server)
    const faults: string[] = []
    let ended: Told | undefined
    while (!ended) {
      const billed = new Map([...TENANTS, null].map((tenant) => [tenant, play.billed(tenant)]))
      const death = kills === 0 ? { call: 2 } : kills < PAID_KILLS ? deathInCall(dice) : undefined
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

// A service on real threads whose run people steer, killed with SIGKILL again and again around that and started
// again. A model server that keeps what it is asked sees the words last in the next call of each agent, and once in
// each prompt after it.
//
// npm test: 3 kills      npm run test:deep: 200
// DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/kills.test.js

const STEERED_KILLS = Number(DRAMATIS_KILLS ?? howMany(3, 200))

const steered = fileURLToPath(new URL('../fixtures/durability/steered.js', import.meta.url))
/** Words that are said while a call of that agent is under way, the one behind so many calls of its tool. */
interface Said {
  readonly id: string
  readonly agent: string
  readonly looks: number
  readonly when: 'next' | 'interrupt'
}

const messagesOf = ({ body }: SeenCall) => body.messages.map(({ role, content }) => `${role}: ${content}`)
const agentOf = ({ body }: SeenCall) => /^You are (\w+)/.exec(body.messages[0]!.content ?? '')?.[1] ?? ''
const looksOf = ({ body }: SeenCall) => body.messages.filter(({ role }) => role === 'tool').length
const isIn = (call: SeenCall, { id }: Said) => messagesOf(call).filter((message) => message === `user: ${id}`).length

type Child = ReturnType<typeof spawn>

/** What a life of the service dies of: a write, a call that comes, or a while after words were sent to it. */
type DeathAroundWords = { write: string } | { call: number } | { sent: number; waits: number }

function deathAroundWords(dice: Dice): DeathAroundWords {
  const kind = dice.upTo(3)
  if (kind === 0) return { write: `${1 + dice.upTo(14)} ${dice.pick(['before', 'within', 'after'] as const)}` }
  if (kind === 1) return { call: 1 + dice.upTo(4) }
  return { sent: 1 + dice.upTo(2), waits: dice.upTo(12) }
}

class Steering {
  readonly taken = new Set<string>()
  readonly #said: readonly Said[]
  readonly #waiting = new Map<string, () => void>()
  #child: Child | undefined
  #death: DeathAroundWords | undefined
  #calls = 0
  #sent = 0

  constructor(said: readonly Said[], server: ModelServer, seen: (call: SeenCall) => void) {
    this.#said = said
    server.always((call) => {
      seen(call)
      this.#calls += 1
      if (this.#death && 'call' in this.#death && this.#death.call === this.#calls) this.#kill()
      const looks = looksOf(call)
      const due = said.find(
        ({ id, agent, looks }) => !this.taken.has(id) && agent === agentOf(call) && looks <= looksOf(call),
      )
      const after = due ? this.#send(due) : undefined
      return looks < LOOKS
        ? { toolCalls: [{ name: 'look', input: {} }], after }
        : { text: `by ${agentOf(call)}`, after }
    })
  }

  /** Lets the service live until it dies or its run ends; returns how the run has ended. */
  async live(
    t: Test,
    folder: string,
    baseURL: string,
    death: DeathAroundWords | undefined,
  ): Promise<Ended | undefined> {
    this.#death = death
    this.#calls = 0
    this.#sent = 0
    const env = { ...process.env, ...(death && 'write' in death && { DIES_AT_WRITE: death.write }) }
    const args = ['--import', preload, steered, join(folder, 'log'), baseURL]
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'], env })
    t.teardown(() => child.kill('SIGKILL'))
    child.stdin.on('error', () => {}) // it may be dead
    this.#child = child
    const exited = once(child, 'exit')
    let ended: Ended | undefined
    for await (const line of createInterface(child.stdout)) {
      const said = JSON.parse(line) as { taken?: string; refused?: string } & Partial<Ended>
      if (said.refused) throw new Error(`words were refused: ${said.refused}`)
      if (said.taken === undefined) ended = said as Ended
      else this.#takes(said.taken)
    }
    const [code, signal] = await exited
    if (signal !== 'SIGKILL' && code !== 0) throw new Error(`the service ended with ${code ?? signal}`)
    for (const goesOn of this.#waiting.values()) goesOn()
    this.#waiting.clear()
    return signal === 'SIGKILL' ? undefined : ended
  }

  #takes(id: string): void {
    this.taken.add(id)
    this.#waiting.get(id)?.()
    this.#waiting.delete(id)
  }

  /** Sends the words, and waits until they are taken or the service is dead: the call has no answer before. */
  #send({ id, when }: Said): Promise<void> {
    this.#sent += 1
    this.#child!.stdin!.write(`${JSON.stringify({ words: id, id, when, to: undefined })}\n`)
    const death = this.#death
    if (death && 'sent' in death && death.sent === this.#sent) this.#dieIn(death.waits)
    return new Promise((resolve) => {
      const before = this.#waiting.get(id)
      this.#waiting.set(id, () => {
        before?.()
        resolve()
      })
    })
  }

  #dieIn(turns: number): void {
    if (turns === 0) this.#kill()
    else setImmediate(() => this.#dieIn(turns - 1))
  }

  #kill(): void {
    this.#child?.kill('SIGKILL')
  }

  isTaken(said: Said): boolean {
    return this.taken.has(said.id)
  }

  get all(): readonly Said[] {
    return this.#said
  }
}

interface Ended {
  success: boolean
  finalOutput: string
  steers: { id: string; settled: string; readBy: string[] }[]
}

t.test('words that are taken stand in each prompt from the next call on, whenever the service dies', async (t) => {
  const dice = new Dice(Number(SEED ?? 5))
  for (let kills = 0; kills < STEERED_KILLS; ) {
    const folder = folderOf(t)
    const server = await modelServer(t)
    const said: Said[] = ['ann', 'bob', 'bob'].map((agent, n) => ({
      id: `words ${n}`,
      agent,
      looks: dice.upTo(LOOKS + 1),
      when: dice.pick(['next', 'interrupt'] as const),
    }))
    const first = new Set<string>()
    const faults: string[] = []
    const play: Steering = new Steering(said, server, (call) => {
      const agent = agentOf(call)
      const messages = messagesOf(call)
      const words = new Set(said.map(({ id }) => `user: ${id}`))
      for (const each of said) {
        const count = isIn(call, each)
        const key = `${agent} ${each.id}`
        const mustBe = first.has(key) || play.isTaken(each)
        if (count > 1 || (mustBe && count === 0)) faults.push(`${key} ${count} times in ${messages.join(' | ')}`)
        if (count === 0 || first.has(key)) continue
        first.add(key)
        const behind = messages.slice(messages.indexOf(`user: ${each.id}`))
        if (!behind.every((message) => words.has(message))) faults.push(`${key} is not last: ${messages.join(' | ')}`)
      }
    })
    let ended: Ended | undefined
    while (!ended) {
      const death = kills < STEERED_KILLS ? deathAroundWords(dice) : undefined
      ended = await play.live(t, folder, server.baseURL, death)
      if (!ended) kills += 1
    }
    t.same(faults, [])
    t.match(ended, { success: true, finalOutput: 'by bob' })
    t.same(
      ended.steers.map(({ id, settled }) => `${id} ${settled}`).sort(),
      said.map(({ id }) => `${id} read`),
    )
    t.ok(ended.steers.every(({ readBy }) => readBy.includes('bob')))
    await server.close()
  }
})
