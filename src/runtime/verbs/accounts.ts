/**
 * Limit that agents share, on tokens or on money: of a run, or of the team or a tenant within a time window or a period
 * of the calendar. The account knows what is used, what calls under way hold, and the agents' shares of what is left.
 * It never waits, and calls nobody but `onLevel`. It counts tokens, or billionths of a currency.
 *
 * "Left" is what is neither used nor held. An agent works from its first call until its last turn there has ended; the
 * other agents are idle. An agent that starts to work gets a fair share: 1/N of what is left then, where N is the
 * number of agents that have called a model there so far. It gets less if the shares of other working agents leave
 * less. A share lasts until it is spent or its agent rests. Only an agent that comes for the first time reduces the
 * shares of others, to the new 1/N.
 *
 * A call is paid from the share of its agent first. It borrows the remainder from what idle agents do not use: all that
 * is left except the shares of other working agents. A share too small for the next call of its own agent is useless to
 * that agent, so it is lent too. What a call did not need returns to the share that it was taken from.
 *
 * A period that begins anew forgets what was used in the last one, and what calls hold that were reserved there: they
 * count where they were reserved.
 */
import type { Calendar } from '../../shared/calendar.ts'
import { BudgetExceededError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { Turns } from '../../shared/turns.ts'
import { amountOf, moneyText } from '../settings/money.ts'

export interface Limit {
  readonly path: string
  readonly most: bigint
}

/** Unit of an account: tokens, or a currency. */
export type Unit = 'tokens' | { readonly currency: string }

export interface AccountOptions {
  readonly total?: Limit
  readonly perAgent?: Limit
  /** Default: tokens. */
  readonly unit?: Unit
  /** Tenant whose limit it is. */
  readonly tenant?: string
  /** True if all runs of the team count in it: what others have used is not told to a run of a tenant. */
  readonly isOfTeam?: boolean
  /** Time after which usage is forgotten, in ms; by default it is never forgotten. */
  readonly windowMs?: number
  /** Calendar at whose boundaries all usage is forgotten. */
  readonly calendar?: Calendar
  /** Returns monotonic ms. */
  readonly now: () => number
  /** Returns epoch ms, for a calendar. */
  readonly wall?: () => number
  /**
   * Called when a limit is nearly reached (80 %) or reached (nothing is left, or a call was refused). Called once for
   * each until the usage is below it again.
   */
  readonly onLevel?: (level: Level) => void
}

/** `agent`: null for the limit of all agents together. */
export interface Level {
  readonly agent: string | null
  readonly used: bigint
  readonly limit: bigint
}

/** Reason why a call cannot be made, even if all calls under way cost nothing. */
export interface Refusal {
  readonly account: Account
  readonly limit: Limit
  readonly used: bigint
  readonly held: bigint
  /** Amount that is kept for other working agents. */
  readonly kept: bigint
  /** Time in ms until enough usage is forgotten; undefined if that never happens. */
  readonly retryAfterMs: number | undefined
}

/** Amount that a call holds, in total and from the share of its agent. */
export interface Held {
  readonly amount: bigint
  readonly ofShare: bigint
  /** Number of the period in which it was reserved. */
  readonly period: number
}

interface Member {
  readonly agent: string
  used: bigint
  held: bigint
  isWorking: boolean
  /** Share of the agent. */
  due: bigint
  /** Part of the share that its calls under way hold. */
  dueHeld: bigint
  asked: bigint
  level: number
  /** Monotonic ms at which the level was reached. */
  levelAt: number
}

type Standing = Pick<Member, 'used' | 'held' | 'level' | 'levelAt'> & { readonly agent: string | null }

/** Use of a limit. `agent`: null for the limit of all agents together. */
export interface Use {
  readonly agent: string | null
  readonly limit: Limit
  readonly used: bigint
  readonly held: bigint
  /** Time until the next part is free again; undefined if nothing will be. */
  readonly freeInMs: number | undefined
  /** Monotonic ms at which nothing was left, or a call was refused; undefined if that is not so now. */
  readonly reachedAt: number | undefined
}

/** Room where nothing is limited. */
const UNLIMITED = 2n ** 200n

const least = (one: bigint, other: bigint): bigint => (one < other ? one : other)
const notBelowZero = (value: bigint): bigint => (value < 0n ? 0n : value)

export class Account {
  readonly #options: AccountOptions
  readonly #members = new Map<string, Member>()
  /** Payments within the window, oldest first. */
  readonly #paid: { at: number; member: Member; amount: bigint }[] = []
  #used = 0n
  #held = 0n
  /** Number of the period, which began when one before it was over. */
  #period = 0
  #periodEnd: number | undefined
  #level = 0
  #levelAt = 0

  constructor(options: AccountOptions) {
    this.#options = options
  }

  get used(): bigint {
    this.#forget()
    return this.#used
  }
  get held(): bigint {
    this.#forget()
    return this.#held
  }

  /** True if nothing counts in it: no usage, and no agent that works or waits. */
  get isEmpty(): boolean {
    this.#forget()
    return this.#members.size === 0
  }

  get unit(): Unit {
    return this.#options.unit ?? 'tokens'
  }

  /** Facts of the account for errors. */
  get facts(): Pick<AccountOptions, 'tenant' | 'isOfTeam' | 'calendar' | 'windowMs'> & { unit: Unit } {
    const { tenant, isOfTeam, calendar, windowMs } = this.#options
    return { unit: this.unit, tenant, isOfTeam, calendar, windowMs }
  }

  /** Returns the epoch ms that is that many ms from now; of a period its end, however late the clock is asked. */
  freeAt(inMs: number | undefined): number | undefined {
    const { wall = Date.now } = this.#options
    return inMs === undefined ? undefined : (this.#periodEnd ?? Math.round(wall() + inMs))
  }

  /** Epoch ms at which the period began whose usage counts; undefined without a calendar. */
  get since(): number | undefined {
    const { calendar, wall } = this.#options
    this.#forget()
    return calendar && wall && calendar.at(this.#periodEnd === undefined ? wall() : this.#periodEnd - 1).start
  }

  /** Limit that the account stands for: of all agents, or of each. */
  get limit(): Limit | undefined {
    return this.#options.total ?? this.#options.perAgent
  }

  /** Yields what is used of each limit: of all agents together, then of each agent that has called a model. */
  *uses(): IterableIterator<Use> {
    this.#forget()
    const { total, perAgent } = this.#options
    const all = { agent: null, used: this.#used, held: this.#held, level: this.#level, levelAt: this.#levelAt }
    if (total) yield this.#useOf(all, total)
    if (perAgent) for (const member of this.#members.values()) yield this.#useOf(member, perAgent, member)
  }

  #useOf({ agent, used, held, level, levelAt }: Standing, limit: Limit, of?: Member): Use {
    const reachedAt = level === REACHED ? levelAt : undefined
    return { agent, limit, used, held, freeInMs: this.#retryAfter(1n, of), reachedAt }
  }

  /** Notes that an agent works, and what its next call asks for. Returns whether others may have more now, or less. */
  begin(agent: string, amount: bigint): boolean {
    this.#forget()
    let member = this.#members.get(agent)
    const before = member && keptFor(member)
    if (!member) {
      const none = { used: 0n, held: 0n, due: 0n, dueHeld: 0n, asked: 0n }
      member = { agent, ...none, isWorking: false, level: 0, levelAt: 0 }
      this.#members.set(agent, member)
      const fair = this.#fair
      for (const other of this.#members.values()) other.due = least(other.due, fair)
    }
    member.asked = amount
    if (!member.isWorking) {
      member.isWorking = true
      const others = this.#sumOfOthers(member, shareOf)
      member.due = notBelowZero(least(this.#fair, this.#left - others))
    }
    return this.#members.size > 1 && keptFor(member) !== before
  }

  /** Ends the agent's share when its last turn has ended: others can borrow it. */
  rest(agent: string): void {
    const member = this.#members.get(agent)
    if (!member) return
    member.isWorking = false
    member.due = 0n
    this.#dropIfForgotten(member)
  }

  /** Checks whether the agent's share covers that much. */
  isDue(agent: string, amount: bigint): boolean {
    return !this.#options.total || amount <= shareOf(this.#memberOf(agent))
  }

  /** Returns what the agent can have now if `promised` is for calls before it. */
  room(agent: string, promised: bigint): bigint {
    this.#forget()
    const member = this.#memberOf(agent)
    const { total, perAgent } = this.#options
    const own = perAgent ? perAgent.most - member.used - member.held : UNLIMITED
    if (!total) return own
    const borrowed = this.#left - promised - this.#keptFrom(member)
    return least(own, borrowed)
  }

  /** Returns what is left of the agent's own limit and of the limit of all agents. Calls under way count as used. */
  left(agent: string): bigint {
    this.#forget()
    const { total, perAgent } = this.#options
    const { used, held } = this.#members.get(agent) ?? { used: 0n, held: 0n }
    const own = perAgent ? notBelowZero(perAgent.most - used - held) : UNLIMITED
    return total ? least(own, this.#left) : own
  }

  /**
   * Returns the reason if the agent can never have that much as things are; undefined if calls under way may leave
   * enough.
   */
  refusal(agent: string, amount: bigint): Refusal | undefined {
    this.#forget()
    const member = this.#memberOf(agent)
    const { total, perAgent } = this.#options
    if (perAgent && member.used + amount > perAgent.most) {
      const retryAfterMs = this.#retryAfter(member.used + amount - perAgent.most, member)
      this.#reached(member, perAgent, REACHED)
      const { used, held } = member
      return { account: this, limit: perAgent, used, held, kept: 0n, retryAfterMs }
    }
    const kept = this.#keptFrom(member)
    if (!total || this.#used + kept + amount <= total.most) return undefined
    return this.#refused(total, amount, kept)
  }

  /** Returns the reason if no agent can have that much, whatever becomes of calls under way. */
  usedUp(amount: bigint): Refusal | undefined {
    this.#forget()
    const { total } = this.#options
    return total && this.#used + amount > total.most ? this.#refused(total, amount, 0n) : undefined
  }

  #refused(limit: Limit, amount: bigint, kept: bigint): Refusal {
    const retryAfterMs = this.#retryAfter(this.#used + kept + amount - limit.most, undefined, kept)
    this.#reached(undefined, limit, REACHED)
    return { account: this, limit, used: this.#used, held: this.#held, kept, retryAfterMs }
  }

  hold(agent: string, amount: bigint): Held {
    this.#forget()
    const member = this.#memberOf(agent)
    const ofShare = least(shareOf(member), amount)
    member.dueHeld += ofShare
    member.held += amount
    this.#held += amount
    return { amount, ofShare, period: this.#period }
  }

  /**
   * Counts what an agent has used in an earlier process, `agoMs` ago: the oldest first. That a limit was nearly reached
   * by it was told there.
   */
  restore(agent: string, amount: bigint, agoMs = 0): void {
    const { total, perAgent, windowMs, now } = this.#options
    this.begin(agent, 0n)
    const member = this.#memberOf(agent)
    member.used += amount
    this.#used += amount
    if (windowMs !== undefined && amount > 0n) this.#paid.push({ at: now() - agoMs, member, amount })
    if (perAgent) Object.assign(member, { level: levelOf(member.used, perAgent), levelAt: now() })
    if (total) this.#level = levelOf(this.#used, total)
    this.#levelAt = now()
    this.rest(agent)
  }

  /** Holds what a call of an earlier process may cost that has no outcome. `pay` gives it back. */
  holdAgain(agent: string, amount: bigint): Held {
    this.begin(agent, 0n)
    const held = this.hold(agent, amount)
    this.rest(agent)
    return held
  }

  /** Checks whether that much is held still: not if it was for a period that is over. */
  holds({ period, amount }: Held, least: bigint): boolean {
    this.#forget()
    return period === this.#period && amount >= least
  }

  /** Pays a call that is over. Its cost can be more than it held. */
  pay(agent: string, { amount, ofShare, period }: Held, cost: bigint): void {
    this.#forget()
    if (period !== this.#period) return // it counts where it was reserved
    const member = this.#memberOf(agent)
    const { total, perAgent, windowMs, now } = this.#options
    member.held -= amount
    this.#held -= amount
    member.used += cost
    this.#used += cost
    member.dueHeld -= ofShare
    member.due = notBelowZero(member.due - least(cost, ofShare))
    if (windowMs !== undefined && cost > 0n) this.#paid.push({ at: now(), member, amount: cost })
    this.#forget()
    if (perAgent) this.#reached(member, perAgent, levelOf(member.used, perAgent))
    if (total) this.#reached(undefined, total, levelOf(this.#used, total))
    this.#dropIfForgotten(member) // it may rest since its call began
  }

  get #left(): bigint {
    const { total } = this.#options
    return notBelowZero((total?.most ?? 0n) - this.#used - this.#held)
  }

  get #fair(): bigint {
    return this.#left / BigInt(this.#members.size)
  }

  #keptFrom(member: Member): bigint {
    return this.#sumOfOthers(member, keptFor)
  }

  #sumOfOthers(member: Member, amountOf: (other: Member) => bigint): bigint {
    let sum = 0n
    for (const other of this.#members.values()) if (other !== member) sum += amountOf(other)
    return sum
  }

  #memberOf(agent: string): Member {
    const member = this.#members.get(agent)
    if (!member) throw new Error(`"${agent}" has not begun.`)
    return member
  }

  #forget(): void {
    const { total, perAgent, windowMs, calendar, now, wall } = this.#options
    if (calendar && wall) this.#beginPeriod(calendar, wall())
    if (windowMs === undefined) return
    const since = now() - windowMs
    while (this.#paid.length > 0 && this.#paid[0]!.at <= since) {
      const { member, amount } = this.#paid.shift()!
      member.used -= amount
      this.#used -= amount
      if (perAgent && levelOf(member.used, perAgent) === FAR) member.level = FAR
      if (total && levelOf(this.#used, total) === FAR) this.#level = FAR
      this.#dropIfForgotten(member)
    }
  }

  /** Begins the next period when the last one is over. A clock that is set back begins none again. */
  #beginPeriod(calendar: Calendar, now: number): void {
    this.#periodEnd ??= calendar.at(now).end
    if (now < this.#periodEnd) return
    this.#periodEnd = calendar.at(now).end
    this.#period += 1
    this.#used = 0n
    this.#held = 0n
    this.#level = FAR
    for (const member of this.#members.values()) {
      Object.assign(member, { used: 0n, held: 0n, due: 0n, dueHeld: 0n, level: FAR })
      if (!member.isWorking) this.#members.delete(member.agent)
    }
    for (const member of this.#members.values()) member.due = this.#fair
  }

  /** Removes an agent without any usage: teams live for months, and agents come and go. */
  #dropIfForgotten({ agent, used, held, isWorking }: Member): void {
    const { windowMs, calendar } = this.#options
    const isForgetful = windowMs !== undefined || calendar !== undefined
    if (isForgetful && used === 0n && held === 0n && !isWorking) this.#members.delete(agent)
  }

  /**
   * Returns the time in ms until that much is forgotten, of one agent or of all. `kept`: the part of it that is no
   * usage, but kept for others until the period is over.
   */
  #retryAfter(amount: bigint, of?: Member, kept = 0n): number | undefined {
    const { windowMs = 0, now, wall } = this.#options
    if (this.#periodEnd !== undefined && wall) {
      const { used } = of ?? { used: this.#used }
      return used > 0n && amount <= used + kept ? this.#periodEnd - wall() : undefined
    }
    let left = amount
    for (const paid of this.#paid) {
      if (of && paid.member !== of) continue
      left -= paid.amount
      if (left <= 0n) return paid.at + windowMs - now()
    }
    return undefined
  }

  #reached(member: Member | undefined, limit: Limit, level: number): void {
    const before = member ? member.level : this.#level
    if (level <= before) return
    const levelAt = this.#options.now()
    if (member) Object.assign(member, { level, levelAt })
    else {
      this.#level = level
      this.#levelAt = levelAt
    }
    this.#options.onLevel?.({ agent: member?.agent ?? null, used: member?.used ?? this.#used, limit: limit.most })
  }
}

/** Returns the part of the share that calls under way do not hold. */
const shareOf = ({ due, dueHeld }: Member) => notBelowZero(due - dueHeld)

/** Returns what is kept for an agent from others: its share, if it is enough for its next call. */
const keptFor = (member: Member) => (shareOf(member) >= member.asked ? shareOf(member) : 0n)

const FAR = 0
const NEAR = 1
const REACHED = 2

/** Nearly reached are four fifths. */
function levelOf(used: bigint, { most }: Limit): number {
  return used >= most ? REACHED : used * 5n >= most * 4n ? NEAR : FAR
}

/*
 * Decides which model call may start now, and which call waits. Before a call is made, each account that it counts in
 * holds what it can cost, all at once or none; afterwards the real cost is paid. A call that does not fit waits only
 * for calls under way, which can cost less than they hold. If even that could not leave enough, the call is refused at
 * once. So no call waits for a turn to end; a wait takes as long as other calls do, unless its signal ends it earlier.
 *
 * Order: first calls that the shares of their agents cover (see Account), oldest first. Then calls that borrow, by the
 * agent's priority, then oldest first. A call that eight younger calls have passed goes before all others. Where calls
 * of several tenants wait, these have turns. No call takes what a call before it waits for.
 */

/** Account that a call counts in, and what it can cost there with so many tokens of output. */
export interface Stake {
  readonly account: Account
  most(output: number): bigint
}

export interface Claim {
  readonly agent: string
  readonly tenant?: string | undefined
  readonly priority: number
  /** Tokens of its prompt, for the turns of the tenants. Default: 0. */
  readonly prompt?: number
  /** Most tokens of output that it asks for. */
  readonly output: number
  /** Tokens of output that are enough if there is no room for `output`; `output` by default. */
  readonly least?: number
  readonly stakes: readonly Stake[]
  readonly signal: AbortSignal
  /** Called if the call has to wait, with the account that it waits for. */
  onWait?(account: Account): void
}

export interface Reservation {
  /** Tokens of output that the call may have. */
  readonly output: number
  /** Most that it can cost, in the order of its stakes. */
  readonly held: readonly bigint[]
  /**
   * Ends the reservation with what the call has cost, in the order of its stakes; without it the call was not made. A
   * second `settle` has no effect.
   */
  settle(costs?: readonly bigint[]): void
}

type Asked = readonly [account: Account, amount: bigint]

interface Waiting extends Claim {
  /** Amounts that it asks for, by account. */
  readonly asked: readonly Asked[]
  readonly order: number
  passed: number
  grant(reservation: Reservation): void
  refuse(error: BudgetExceededError): void
}

const MOST_PASSED = 8

export class Ledger {
  readonly #waiting = new Set<Waiting>()
  readonly #turns: Turns
  #order = 0

  /** `weights`: of tenants, for their turns. */
  constructor(weights: Readonly<Record<string, number>> = {}) {
    this.#turns = new Turns(weights)
  }

  /**
   * Reserves what a call can cost, and waits until it is free.
   *
   * @throws {BudgetExceededError} if calls under way cannot leave enough; otherwise the reason that the signal was
   * aborted with.
   */
  reserve(claim: Claim): Promise<Reservation> {
    const { signal } = claim
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const leave = () => {
        stop()
        this.#waiting.delete(waiting)
      }
      const { output, isNews } = begin(claim)
      const waiting: Waiting = {
        ...claim,
        output,
        asked: claim.stakes.map(({ account, most }): Asked => [account, most(output)]),
        order: ++this.#order,
        passed: 0,
        grant: (reservation) => {
          leave()
          resolve(reservation)
        },
        refuse: (error) => {
          leave()
          reject(error)
        },
      }
      const stop = onAbort(signal, () => {
        leave()
        reject(signal.reason)
        this.look()
      })
      this.#waiting.add(waiting)
      if (isNews || fits(waiting)) this.look()
      else refuseIfNever(waiting)
      if (this.#waiting.has(waiting)) claim.onWait?.(lackingOf(waiting))
    })
  }

  /** Checks whether a call of the agent waits for room in that account. */
  awaits(name: string, account: Account): boolean {
    for (const { agent, asked } of this.#waiting) if (agent === name && hasAccount(asked, account)) return true
    return false
  }

  /** Ends the agent's share in the account when its last turn there has ended, and no call of it waits. */
  rest(agent: string, account: Account): void {
    account.rest(agent)
    this.look()
  }

  /** Grants the calls that fit now, and refuses those that never can. */
  look(): void {
    if (this.#waiting.size === 0) return
    const promised = new Map<Account, bigint>()
    const ranked = Array.from(this.#waiting, (waiting): Ranked => ({ waiting, rank: rankOf(waiting) })).sort(byRank)
    for (const { waiting } of this.#turns.order(ranked, tenantOf, tokensOf)) {
      const { agent, asked } = waiting
      if (refuseIfNever(waiting)) continue
      if (asked.every(([account, amount]) => account.room(agent, promised.get(account) ?? 0n) >= amount))
        this.#grant(waiting)
      else for (const [account, amount] of asked) promised.set(account, (promised.get(account) ?? 0n) + amount)
    }
  }

  /** Reserves for a call what was given back for it just now: it waits for nobody. */
  take({ agent, output, stakes }: Claim): Reservation {
    for (const { account, most } of stakes) account.begin(agent, most(output))
    const asked = stakes.map(({ account, most }): Asked => [account, most(output)])
    return this.#reserved(agent, output, asked)
  }

  #grant(waiting: Waiting): void {
    const { agent, asked, order, output } = waiting
    const reservation = this.#reserved(agent, output, asked)
    for (const other of this.#waiting)
      if (other.order < order && other.asked.some(([account]) => hasAccount(asked, account))) other.passed++
    const { tenant = '', prompt = 0 } = waiting
    this.#turns.served(tenant, prompt + output)
    waiting.grant(reservation)
  }

  #reserved(agent: string, output: number, asked: readonly Asked[]): Reservation {
    const held = asked.map(([account, amount]): [Account, Held] => [account, account.hold(agent, amount)])
    let isOver = false
    return {
      output,
      held: asked.map(([, amount]) => amount),
      settle: (costs) => {
        if (isOver) return
        isOver = true
        for (const [i, [account, part]] of held.entries()) account.pay(agent, part, costs?.[i] ?? 0n)
        this.look()
      },
    }
  }
}

interface Ranked {
  readonly waiting: Waiting
  readonly rank: number
}

const hasAccount = (asked: readonly Asked[], account: Account): boolean => asked.some(([each]) => each === account)

const tenantOf = ({ waiting: { tenant = '' } }: Ranked): string => tenant

/** Number of tokens that a call reserves, for the turns of the tenants. */
const tokensOf = ({ waiting: { prompt = 0, output } }: Ranked): number => prompt + output

/** Returns the account that has no room for a call, or else has promised it to calls before. */
const lackingOf = ({ agent, asked }: Waiting): Account =>
  (asked.find(([account, amount]) => account.room(agent, 0n) < amount) ?? asked[0]!)[0]

/**
 * Registers the agent as working. Returns the tokens of output that the call asks for, as many as there is room for,
 * and whether calls that wait may have more now, or less.
 */
function begin({ agent, output, least = output, stakes }: Claim): { output: number; isNews: boolean } {
  let isNews = false
  for (const { account, most } of stakes) isNews = account.begin(agent, most(least)) || isNews
  const fits = (tokens: number) => stakes.every(({ account, most }) => most(tokens) <= account.room(agent, 0n))
  let asked = output
  if (!fits(output)) {
    let [has, hasNot] = [least, output]
    while (hasNot - has > 1) {
      const middle = Math.floor((has + hasNot) / 2)
      if (fits(middle)) has = middle
      else hasNot = middle
    }
    asked = has
  }
  for (const { account, most } of stakes) isNews = account.begin(agent, most(asked)) || isNews
  return { output: asked, isNews }
}

function byRank({ waiting: one, rank }: Ranked, { waiting: other, rank: otherRank }: Ranked): number {
  if (rank !== otherRank) return rank - otherRank
  return (rank === BORROWER ? other.priority - one.priority : 0) || one.order - other.order
}

const OVERDUE = 0
const DUE = 1
const BORROWER = 2

function rankOf({ agent, asked, passed }: Waiting): number {
  if (passed >= MOST_PASSED) return OVERDUE
  return asked.every(([account, amount]) => account.isDue(agent, amount)) ? DUE : BORROWER
}

const fits = ({ agent, asked }: Waiting): boolean =>
  asked.every(([account, amount]) => account.room(agent, 0n) >= amount)

/** Refuses a call that can never be made as things are. Returns whether it was refused. */
function refuseIfNever({ agent, tenant, asked, refuse }: Waiting): boolean {
  for (const [account, amount] of asked) {
    const refusal = account.refusal(agent, amount)
    if (!refusal) continue
    refuse(exceeded(agent, amount, refusal, tenant))
    return true
  }
  return false
}

/**
 * Returns the error of a call that does not fit. `agent`: undefined if the run was refused before it began. `of`:
 * tenant of the run, which reads nothing of what others have used.
 */
export function exceeded(
  agent: string | undefined,
  asked: bigint,
  refusal: Refusal,
  of: string | undefined,
): BudgetExceededError {
  const { account, limit, used, held, kept, retryAfterMs } = refusal
  const { unit, tenant, isOfTeam } = account.facts
  const inUnit = unit === 'tokens' ? Number : amountOf
  const freeAt = account.freeAt(retryAfterMs)
  const isOfOthers = isOfTeam === true && of !== undefined
  const numbers = { limit: inUnit(limit.most), used: inUnit(used), held: inUnit(held), kept: inUnit(kept) }
  const isOfTokens = unit === 'tokens' && agent !== undefined && !isOfOthers
  const text = isOfTokens ? tokensText(agent, refusal, asked) : usedUpText(agent, refusal, asked, freeAt, isOfOthers)
  return new BudgetExceededError(text, {
    ...(agent !== undefined && { agent }),
    path: limit.path,
    option: limit.path,
    tenant: tenant ?? null,
    unit: unit === 'tokens' ? unit : unit.currency,
    ...(!isOfOthers && numbers),
    asked: inUnit(asked),
    needs: inUnit(asked),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    freeAt: freeAt ?? null,
  })
}

function tokensText(agent: string, { limit, used, held, kept, retryAfterMs }: Refusal, asked: bigint): string {
  const parts = [`${used} are used`]
  if (held > 0n) parts.push(`${held} are held by calls under way`)
  if (kept > 0n) parts.push(`${kept} are kept for other agents at work`)
  const later = retryAfterMs === undefined ? '' : ` Enough is free again in ${Math.ceil(retryAfterMs / 1_000)} s.`
  const advice = 'Raise the limit, lower maxOutputTokens, or shorten what the model is given.'
  return `A model call of agent "${agent}" does not fit into ${limit.path}: of ${limit.most} tokens ${parts.join(', ')}, and the call can cost ${asked}.${later} ${advice}`
}

function usedUpText(
  agent: string | undefined,
  { account, limit, used, held, kept }: Refusal,
  asked: bigint,
  freeAt: number | undefined,
  isOfOthers: boolean,
): string {
  const { unit, tenant, calendar, windowMs } = account.facts
  const isMoney = unit !== 'tokens'
  const shown = (amount: bigint) => (unit === 'tokens' ? String(amount) : moneyText(amountOf(amount)))
  const whose = tenant === undefined ? '' : ` for tenant "${tenant}"`
  const who = agent === undefined ? '' : ` for a call of agent "${agent}"`
  const when = calendar ? ` ${calendar.words}` : windowMs === undefined ? '' : ` within ${windowMs} ms`
  const keeps = kept > 0n ? `, ${shown(kept)} kept for other agents at work` : ''
  const of = isMoney ? unit.currency : 'tokens'
  const free = freeAt === undefined ? '' : ` Free again at ${calendar?.text(freeAt) ?? new Date(freeAt).toISOString()}.`
  const least = agent === undefined ? 'a call costs' : 'the call can cost'
  const needs = `${least}${agent === undefined ? ' at least' : ''} ${shown(asked)}${isMoney ? ` ${of}` : ''}`
  const ofAll = isOfOthers
    ? ' of the team'
    : `: ${shown(used)} of ${shown(limit.most)} ${of}${when}, ${shown(held)} held${keeps}`
  const never = asked > limit.most ? ' It never fits: raise the limit, or lower maxOutputTokens.' : ''
  return `${isMoney ? 'No money is' : 'No tokens are'} left${whose || who}${ofAll}; ${needs} (${limit.path}).${free}${never}`
}
