/**
 * Token limit that agents share, of a run or of the team within a time window. The account knows the tokens that are
 * used, the tokens that calls under way hold, and the agents' shares of what is left. It never waits, and calls nobody
 * but `onLevel`.
 *
 * "Left" is what is neither used nor held. An agent works from its first call until its last turn there has ended; the
 * other agents are idle. An agent that starts to work gets a fair share: 1/N of what is left then, where N is the
 * number of agents that have called a model there so far. It gets less if the shares of other working agents leave
 * less. A share lasts until it is spent or its agent rests. Only an agent that comes for the first time reduces the
 * shares of others, to the new 1/N.
 *
 * A call is paid from the share of its agent first. It borrows the remainder from what idle agents do not use: all that
 * is left except the shares of other working agents. A share too small for the next call of its own agent is useless to
 * that agent, so it is lent too. Tokens that a call did not need return to the share that they were taken from.
 */
import { BudgetExceededError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'

export interface Limit {
  readonly path: string
  readonly tokens: number
}

export interface AccountOptions {
  readonly total?: Limit
  readonly perAgent?: Limit
  /** Time after which usage is forgotten, in ms; by default it is never forgotten. */
  readonly windowMs?: number
  /** Returns monotonic ms. */
  readonly now: () => number
  /**
   * Called when a limit is nearly reached (80 %) or reached (nothing is left, or a call was refused). Called once for
   * each until the usage is below it again.
   */
  readonly onLevel?: (level: Level) => void
}

/** `agent`: null for the limit of all agents together. */
export interface Level {
  readonly agent: string | null
  readonly used: number
  readonly limit: number
}

/** Reason why a call cannot be made, even if all calls under way cost nothing. */
export interface Refusal {
  readonly limit: Limit
  readonly used: number
  readonly held: number
  /** Tokens kept for other working agents. */
  readonly kept: number
  /** Time in ms until enough usage is forgotten; undefined if that never happens. */
  readonly retryAfterMs: number | undefined
}

/** Tokens that a call holds, in total and from the share of its agent. */
export interface Held {
  readonly tokens: number
  readonly ofShare: number
}

interface Member {
  readonly agent: string
  used: number
  held: number
  isWorking: boolean
  /** Share of the agent. */
  due: number
  /** Part of the share that its calls under way hold. */
  dueHeld: number
  asked: number
  level: number
  /** Monotonic ms at which the level was reached. */
  levelAt: number
}

type Standing = Pick<Member, 'used' | 'held' | 'level' | 'levelAt'> & { readonly agent: string | null }

/** Use of a limit. `agent`: null for the limit of all agents together. */
export interface Use {
  readonly agent: string | null
  readonly limit: Limit
  readonly used: number
  readonly held: number
  /** Time until the next part is free again; undefined if nothing will be. */
  readonly freeInMs: number | undefined
  /** Monotonic ms at which nothing was left, or a call was refused; undefined if that is not so now. */
  readonly reachedAt: number | undefined
}

const NEARLY = 0.8

export class TokenAccount {
  readonly #options: AccountOptions
  readonly #members = new Map<string, Member>()
  /** Payments within the window, oldest first. */
  readonly #paid: { at: number; member: Member; tokens: number }[] = []
  #used = 0
  #held = 0
  #level = 0
  #levelAt = 0

  constructor(options: AccountOptions) {
    this.#options = options
  }

  get used(): number {
    this.#forget()
    return this.#used
  }
  get held(): number {
    return this.#held
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
    return { agent, limit, used, held, freeInMs: this.#retryAfter(1, of), reachedAt }
  }

  begin(agent: string, tokens: number): void {
    this.#forget()
    let member = this.#members.get(agent)
    if (!member) {
      member = { agent, used: 0, held: 0, isWorking: false, due: 0, dueHeld: 0, asked: 0, level: 0, levelAt: 0 }
      this.#members.set(agent, member)
      const fair = this.#fair
      for (const other of this.#members.values()) other.due = Math.min(other.due, fair)
    }
    member.asked = tokens
    if (member.isWorking) return
    member.isWorking = true
    const others = this.#sumOfOthers(member, shareOf)
    member.due = Math.max(0, Math.min(this.#fair, this.#left - others))
  }

  /** Ends the agent's share when its last turn has ended: others can borrow it. */
  rest(agent: string): void {
    const member = this.#members.get(agent)
    if (!member) return
    member.isWorking = false
    member.due = 0
    this.#dropIfForgotten(member)
  }

  /** Checks whether the agent's share covers that many tokens. */
  isDue(agent: string, tokens: number): boolean {
    return !this.#options.total || tokens <= shareOf(this.#memberOf(agent))
  }

  /** Returns the tokens that the agent can have now if `promised` tokens are for calls before it. */
  room(agent: string, promised: number): number {
    this.#forget()
    const member = this.#memberOf(agent)
    const { total, perAgent } = this.#options
    const own = perAgent ? perAgent.tokens - member.used - member.held : Number.POSITIVE_INFINITY
    if (!total) return own
    const borrowed = this.#left - promised - this.#keptFrom(member)
    return Math.min(own, borrowed)
  }

  /** Returns what is left of the agent's own limit and of the limit of all agents. Calls under way count as used. */
  left(agent: string): number {
    this.#forget()
    const { total, perAgent } = this.#options
    const { used, held } = this.#members.get(agent) ?? { used: 0, held: 0 }
    const own = perAgent ? Math.max(0, perAgent.tokens - used - held) : Number.POSITIVE_INFINITY
    return total ? Math.min(own, this.#left) : own
  }

  /**
   * Returns the reason if the agent can never have that many tokens as things are; undefined if calls under way may
   * leave enough.
   */
  refusal(agent: string, tokens: number): Refusal | undefined {
    this.#forget()
    const member = this.#memberOf(agent)
    const { total, perAgent } = this.#options
    if (perAgent && member.used + tokens > perAgent.tokens) {
      const retryAfterMs = this.#retryAfter(member.used + tokens - perAgent.tokens, member)
      this.#reached(member, perAgent, REACHED)
      return { limit: perAgent, used: member.used, held: member.held, kept: 0, retryAfterMs }
    }
    const kept = this.#keptFrom(member)
    if (!total || this.#used + kept + tokens <= total.tokens) return undefined
    const retryAfterMs = this.#retryAfter(this.#used + kept + tokens - total.tokens)
    this.#reached(undefined, total, REACHED)
    return { limit: total, used: this.#used, held: this.#held, kept, retryAfterMs }
  }

  hold(agent: string, tokens: number): Held {
    const member = this.#memberOf(agent)
    const ofShare = Math.min(shareOf(member), tokens)
    member.dueHeld += ofShare
    member.held += tokens
    this.#held += tokens
    return { tokens, ofShare }
  }

  /**
   * Counts what an agent has used in an earlier process, `agoMs` ago: the oldest first. That a limit was nearly reached
   * by it was told there.
   */
  restore(agent: string, tokens: number, agoMs = 0): void {
    const { total, perAgent, windowMs, now } = this.#options
    this.begin(agent, 0)
    const member = this.#memberOf(agent)
    member.used += tokens
    this.#used += tokens
    if (windowMs !== undefined && tokens > 0) this.#paid.push({ at: now() - agoMs, member, tokens })
    if (perAgent) Object.assign(member, { level: levelOf(member.used, perAgent), levelAt: now() })
    if (total) this.#level = levelOf(this.#used, total)
    this.#levelAt = now()
    this.rest(agent)
  }

  /** Pays a call that is over. Its cost can be more than it held. */
  pay(agent: string, { tokens, ofShare }: Held, cost: number): void {
    const member = this.#memberOf(agent)
    const { total, perAgent, windowMs, now } = this.#options
    member.held -= tokens
    this.#held -= tokens
    member.used += cost
    this.#used += cost
    member.dueHeld -= ofShare
    member.due = Math.max(0, member.due - Math.min(cost, ofShare))
    if (windowMs !== undefined && cost > 0) this.#paid.push({ at: now(), member, tokens: cost })
    this.#forget()
    if (perAgent) this.#reached(member, perAgent, levelOf(member.used, perAgent))
    if (total) this.#reached(undefined, total, levelOf(this.#used, total))
    this.#dropIfForgotten(member) // it may rest since its call began
  }

  get #left(): number {
    const { total } = this.#options
    return Math.max(0, (total?.tokens ?? 0) - this.#used - this.#held)
  }

  get #fair(): number {
    return Math.floor(this.#left / this.#members.size)
  }

  #keptFrom(member: Member): number {
    return this.#sumOfOthers(member, (other) => (shareOf(other) >= other.asked ? shareOf(other) : 0))
  }

  #sumOfOthers(member: Member, tokensOf: (other: Member) => number): number {
    let sum = 0
    for (const other of this.#members.values()) if (other !== member) sum += tokensOf(other)
    return sum
  }

  #memberOf(agent: string): Member {
    const member = this.#members.get(agent)
    if (!member) throw new Error(`"${agent}" has not begun.`)
    return member
  }

  #forget(): void {
    const { total, perAgent, windowMs, now } = this.#options
    if (windowMs === undefined) return
    const since = now() - windowMs
    while (this.#paid.length > 0 && this.#paid[0]!.at <= since) {
      const { member, tokens } = this.#paid.shift()!
      member.used -= tokens
      this.#used -= tokens
      if (perAgent && levelOf(member.used, perAgent) === FAR) member.level = FAR
      if (total && levelOf(this.#used, total) === FAR) this.#level = FAR
      this.#dropIfForgotten(member)
    }
  }

  /** Removes an agent without any usage: teams live for months, and agents come and go. */
  #dropIfForgotten({ agent, used, held, isWorking }: Member): void {
    const { windowMs } = this.#options
    if (windowMs !== undefined && used === 0 && held === 0 && !isWorking) this.#members.delete(agent)
  }

  /** Returns the time in ms until that many tokens are forgotten, of one agent or of all. */
  #retryAfter(tokens: number, of?: Member): number | undefined {
    const { windowMs = 0, now } = this.#options
    let left = tokens
    for (const paid of this.#paid) {
      if (of && paid.member !== of) continue
      left -= paid.tokens
      if (left <= 0) return paid.at + windowMs - now()
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
    this.#options.onLevel?.({ agent: member?.agent ?? null, used: member?.used ?? this.#used, limit: limit.tokens })
  }
}

/** Returns the part of the share that calls under way do not hold. */
const shareOf = ({ due, dueHeld }: Member) => Math.max(0, due - dueHeld)

const FAR = 0
const NEAR = 1
const REACHED = 2

function levelOf(used: number, { tokens }: Limit): number {
  return used >= tokens ? REACHED : used >= NEARLY * tokens ? NEAR : FAR
}

/*
 * Decides which model call may start now, and which call waits. Before a call is made, each account that it counts in
 * holds what it can cost; afterwards the real cost is paid. A call that does not fit waits only for calls under way,
 * which can cost less than they hold. If even that could not leave enough, the call is refused at once. So no call
 * waits for a turn to end; a wait takes as long as other calls do, unless its signal ends it earlier.
 *
 * Order: first calls that the shares of their agents cover (see TokenAccount), oldest first. Then calls that borrow, by
 * the agent's priority, then oldest first. A call that eight younger calls have passed goes before all others. No call
 * takes tokens that a call before it waits for.
 */

export interface Claim {
  readonly agent: string
  readonly priority: number
  /** Maximum cost of the call. */
  readonly tokens: number
  /** Tokens that are enough if not all of `tokens` are free; `tokens` by default. */
  readonly least?: number
  readonly accounts: readonly TokenAccount[]
  readonly signal: AbortSignal
  /** Called if the call has to wait, with the account that it waits for. */
  onWait?(account: TokenAccount): void
}

export interface Reservation {
  readonly tokens: number
  /** Ends the reservation with the tokens that the call has cost; 0 if it failed. A second `settle` has no effect. */
  settle(cost: number): void
}

interface Waiting extends Claim {
  readonly order: number
  passed: number
  grant(reservation: Reservation): void
  refuse(error: BudgetExceededError): void
}

const MOST_PASSED = 8

export class TokenLedger {
  readonly #waiting = new Set<Waiting>()
  #order = 0

  /**
   * Reserves tokens for a call, and waits until they are free.
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
      const waiting: Waiting = {
        ...claim,
        tokens: begin(claim),
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
        this.#look()
      })
      this.#waiting.add(waiting)
      this.#look()
      if (this.#waiting.has(waiting)) claim.onWait?.(lackingOf(waiting))
    })
  }

  /** Checks whether a call of the agent waits for tokens of that account. */
  awaits(name: string, account: TokenAccount): boolean {
    for (const { agent, accounts } of this.#waiting) if (agent === name && accounts.includes(account)) return true
    return false
  }

  /** Ends the agent's share in the account when its last turn there has ended, and no call of it waits. */
  rest(agent: string, account: TokenAccount): void {
    account.rest(agent)
    this.#look()
  }

  /** Grants the calls that fit now, and refuses those that never can. */
  #look(): void {
    const promised = new Map<TokenAccount, number>()
    for (const waiting of [...this.#waiting].sort(byRank)) {
      const { agent, tokens, accounts } = waiting
      const refusal = refusalOf(waiting)
      if (refusal) waiting.refuse(exceeded(waiting, refusal))
      else if (accounts.every((account) => account.room(agent, promised.get(account) ?? 0) >= tokens))
        this.#grant(waiting)
      else for (const account of accounts) promised.set(account, (promised.get(account) ?? 0) + tokens)
    }
  }

  #grant(waiting: Waiting): void {
    const { agent, tokens, accounts, order } = waiting
    const held = accounts.map((account): [TokenAccount, Held] => [account, account.hold(agent, tokens)])
    for (const other of this.#waiting)
      if (other.order < order && other.accounts.some((account) => accounts.includes(account))) other.passed++
    let isOver = false
    waiting.grant({
      tokens,
      settle: (cost) => {
        if (isOver) return
        isOver = true
        for (const [account, part] of held) account.pay(agent, part, cost)
        this.#look()
      },
    })
  }
}

/** Returns the account that has no room for a call, or else has promised it to calls before. */
const lackingOf = ({ agent, tokens, accounts }: Waiting): TokenAccount =>
  accounts.find((account) => account.room(agent, 0) < tokens) ?? accounts[0]!

/** Registers the agent as working. Returns the number of tokens that the call asks for. */
function begin({ agent, tokens, least = tokens, accounts }: Claim): number {
  for (const account of accounts) account.begin(agent, least)
  const free = Math.min(...accounts.map((account) => account.room(agent, 0)))
  const asked = Math.max(least, Math.min(tokens, free))
  for (const account of accounts) account.begin(agent, asked)
  return asked
}

function byRank(one: Waiting, other: Waiting): number {
  const [left, right] = [rankOf(one), rankOf(other)]
  if (left !== right) return left - right
  const isBorrower = left === BORROWER
  return (isBorrower ? other.priority - one.priority : 0) || one.order - other.order
}

const OVERDUE = 0
const DUE = 1
const BORROWER = 2

function rankOf({ agent, tokens, accounts, passed }: Waiting): number {
  if (passed >= MOST_PASSED) return OVERDUE
  return accounts.every((account) => account.isDue(agent, tokens)) ? DUE : BORROWER
}

function refusalOf({ agent, tokens, accounts }: Claim): Refusal | undefined {
  for (const account of accounts) {
    const refusal = account.refusal(agent, tokens)
    if (refusal) return refusal
  }
  return undefined
}

function exceeded({ agent, tokens }: Claim, { limit, used, held, kept, retryAfterMs }: Refusal): BudgetExceededError {
  const parts = [`${used} are used`]
  if (held > 0) parts.push(`${held} are held by calls under way`)
  if (kept > 0) parts.push(`${kept} are kept for other agents at work`)
  const later = retryAfterMs === undefined ? '' : ` Enough is free again in ${Math.ceil(retryAfterMs / 1_000)} s.`
  return new BudgetExceededError(
    `A model call of agent "${agent}" does not fit into ${limit.path}: of ${limit.tokens} tokens ${parts.join(', ')}, and the call can cost ${tokens}.${later} Raise the limit, lower maxOutputTokens, or shorten what the model is given.`,
    {
      agent,
      path: limit.path,
      limit: limit.tokens,
      used,
      held,
      kept,
      asked: tokens,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    },
  )
}
