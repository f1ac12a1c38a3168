/**
 * Runs of agents that call models at random, under a virtual clock, in accounts that are told of all of it a second time: a
 * book that adds up every entry from the beginning whenever it is asked.
 */
import { Ledger } from '../../../src/runtime/verbs/accounts.ts'
import { virtualClock } from '../../../src/testing.ts'
import { Dice } from '../../dice.ts'
import { reserve, settled, TokenAccount } from './accounts.ts'

interface Entry {
  agent: string
  tokens: number
  /** undefined: under way. */
  cost?: number
  paidAt?: number
}

/** An account, and the book of it. */
class Audited {
  readonly account: TokenAccount
  readonly entries: Entry[] = []
  readonly total: number
  readonly perAgent: number
  readonly windowMs: number
  readonly #now: () => number
  /** What newcomers are promised, as far as they may still count on it. */
  readonly #promised = new Map<string, number>()
  readonly #seen = new Set<string>()

  constructor(dice: Dice, now: () => number, windowMs: number) {
    this.total = 500 + dice.upTo(5_000)
    this.perAgent = dice.chance(0.3) ? 200 + dice.upTo(3_000) : Number.POSITIVE_INFINITY
    this.windowMs = windowMs
    this.#now = now
    this.account = new TokenAccount({
      total: this.total,
      ...(this.perAgent < Number.POSITIVE_INFINITY && { perAgent: this.perAgent }),
      ...(windowMs < Number.POSITIVE_INFINITY && { windowMs }),
      now,
    })
  }

  /** `of`: one agent, or all. */
  used(of?: string): number {
    const since = this.#now() - this.windowMs
    return sum(this.entries, ({ agent, cost = 0, paidAt = since }) =>
      (of === undefined || agent === of) && paidAt > since ? cost : 0,
    )
  }

  held(of?: string): number {
    return sum(this.entries, ({ agent, tokens, cost }) =>
      (of === undefined || agent === of) && cost === undefined ? tokens : 0,
    )
  }

  /** An agent is about to ask. Returns whether it may count on getting that much, its own limit apart. */
  asks(agent: string, tokens: number): boolean {
    if (!this.#seen.has(agent)) {
      this.#seen.add(agent)
      const fair = Math.floor(Math.max(0, this.total - this.used() - this.held()) / this.#seen.size)
      for (const [other, left] of this.#promised) this.#promised.set(other, Math.min(left, fair))
      this.#promised.set(agent, fair)
    }
    const left = this.#promised.get(agent) ?? 0
    this.#promised.set(agent, tokens <= left ? left - tokens : 0)
    return tokens <= left
  }

  rests(agent: string): void {
    this.#promised.delete(agent)
  }

  /** Only for who asks for the same as before, and has it still: what is too little for that is lent. */
  forget(agent: string, tokens: number): void {
    if ((this.#promised.get(agent) ?? 0) < tokens) this.#promised.delete(agent)
  }
}

function sum(entries: readonly Entry[], tokensOf: (entry: Entry) => number): number {
  return entries.reduce((all, entry) => all + tokensOf(entry), 0)
}

export interface Outcome {
  problems: string[]
  granted: number
  refused: number
  waited: number
  aborted: number
}

/** Plays that many runs of one team side by side. `excess`: calls may cost more than they could. */
export async function playRuns(seed: number, runs: number, excess = false): Promise<Outcome> {
  const play = new Play(seed, excess)
  await play.all(runs)
  return play.outcome
}

class Play {
  readonly outcome: Outcome = { problems: [], granted: 0, refused: 0, waited: 0, aborted: 0 }
  readonly #dice: Dice
  readonly #clock: ReturnType<typeof virtualClock>
  readonly #ledger = new Ledger()
  readonly #excess: boolean
  readonly #waiting = new Map<object, readonly Audited[]>()
  readonly #accounts: Audited[] = []
  #overspent = 0

  constructor(seed: number, excess: boolean) {
    this.#dice = new Dice(seed)
    this.#clock = virtualClock({ seed })
    this.#excess = excess
  }

  async all(runs: number): Promise<void> {
    const team = this.#account(this.#dice.pick([500, 5_000]))
    const playing = Promise.all(Array.from({ length: runs }, () => this.#run(team)))
    let isOver = false
    void playing.then(() => {
      isOver = true
    })
    await this.#clock.runToIdle()
    await settled()
    if (!isOver) this.#problem('a call is left waiting with nothing under way')
    for (const { account } of this.#accounts) if (account.held !== 0) this.#problem(`${account.held} are still held`)
  }

  #account(windowMs: number): Audited {
    const account = new Audited(this.#dice, () => this.#clock.monotonic(), windowMs)
    this.#accounts.push(account)
    return account
  }

  async #run(team: Audited): Promise<void> {
    const own = this.#account(Number.POSITIVE_INFINITY)
    const accounts = this.#dice.chance(0.5) ? [own, team] : [own]
    const count = 1 + this.#dice.upTo(6)
    const usual = 20 + this.#dice.upTo(600)
    const agents = Array.from({ length: count }, (_, i) => this.#agent(`agent${i}`, usual, accounts))
    await Promise.all(agents)
  }

  /** Turns with calls in them, some side by side, and rests between them. */
  async #agent(agent: string, usual: number, accounts: readonly Audited[]): Promise<void> {
    const dice = this.#dice
    const priority = dice.upTo(3)
    for (let turns = 1 + dice.upTo(3); turns > 0; turns--) {
      await this.#clock.sleep(dice.upTo(50))
      for (let calls = dice.upTo(4); calls > 0; calls--) {
        const width = dice.chance(0.2) ? 2 : 1
        const sizes = Array.from({ length: width }, () => (dice.chance(0.3) ? usual : 1 + dice.upTo(2 * usual)))
        await Promise.all(sizes.map((tokens) => this.#call(agent, priority, tokens, accounts)))
      }
      const [own] = accounts
      own!.rests(agent)
      this.#ledger.rest(agent, own!.account.of)
      this.#check()
    }
  }

  async #call(agent: string, priority: number, tokens: number, accounts: readonly Audited[]): Promise<void> {
    const dice = this.#dice
    const controller = new AbortController()
    const abortedAfter = dice.chance(0.1) ? dice.upTo(40) : undefined
    const timer = abortedAfter === undefined ? undefined : this.#clock.timer(abortedAfter, () => controller.abort())
    const [own] = accounts
    const counts = own!.asks(agent, tokens) && accounts.length === 1 && own!.perAgent === Number.POSITIVE_INFINITY
    const claim = {}
    this.#waiting.set(claim, accounts)
    try {
      const { signal } = controller
      const reserved = reserve(this.#ledger, {
        agent,
        priority,
        tokens,
        accounts: accounts.map(({ account }) => account),
        signal,
      })
      own!.forget(agent, tokens)
      const entries = accounts.map((account) => ({ account, entry: { agent, tokens } as Entry }))
      const reservation = await reserved.then((granted) => {
        for (const { account, entry } of entries) account.entries.push(entry)
        this.#waiting.delete(claim)
        this.outcome.granted++
        return granted
      })
      this.#check()
      await this.#clock.sleep(dice.upTo(30))
      const cost = dice.chance(0.2) ? 0 : dice.chance(0.3) ? tokens : dice.upTo(tokens + 1)
      const more = this.#excess && dice.chance(0.1) ? dice.upTo(tokens) : 0
      this.#overspent += Math.max(0, cost + more - tokens)
      for (const { entry } of entries) Object.assign(entry, { cost: cost + more, paidAt: this.#clock.monotonic() })
      reservation.settle(cost + more)
      this.#check()
    } catch (error) {
      this.#waiting.delete(claim)
      if (controller.signal.aborted) this.outcome.aborted++
      else this.#refused(agent, tokens, accounts, counts, error)
    } finally {
      timer?.cancel()
    }
  }

  #refused(agent: string, tokens: number, accounts: readonly Audited[], counts: boolean, error: unknown): void {
    this.outcome.refused++
    if (counts && !this.#excess) this.#problem(`${agent} was entitled to ${tokens}: ${error}`)
    const fits = accounts.every(
      (account) =>
        account.used() + account.held() + tokens <= account.total &&
        account.used(agent) + account.held(agent) + tokens <= account.perAgent,
    )
    if (fits && (error as { details: { kept: number } }).details.kept === 0)
      this.#problem(`${agent} was refused ${tokens} that fit: ${error}`)
  }

  /** Every sum anew. */
  #check(): void {
    for (const audited of this.#accounts) {
      const { account, total, perAgent } = audited
      const [used, held] = [audited.used(), audited.held()]
      if (account.used !== used) this.#problem(`${account.used} are used, by the book ${used}`)
      if (account.held < held) this.#problem(`${account.held} are held, by the book ${held}`)
      if (used + held > total + this.#overspent) this.#problem(`${used} used and ${held} held of ${total}`)
      for (const agent of new Set(audited.entries.map((entry) => entry.agent)))
        if (audited.used(agent) + audited.held(agent) > perAgent + this.#overspent)
          this.#problem(`${agent} used and held more than ${perAgent}`)
    }
    this.outcome.waited = Math.max(this.outcome.waited, this.#waiting.size)
  }

  #problem(text: string): void {
    this.outcome.problems.push(text)
  }
}
