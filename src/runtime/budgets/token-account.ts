/**
 * One limit in tokens that agents share: of a run, or of the team within a window of time. It knows what is used, what calls under
 * way hold, and who is entitled to what is left. It waits for nothing and asks nobody.
 *
 * Left is what is neither used nor held. Working is an agent from its first call on until its last turn there has ended; the others
 * are idle. Whoever starts to work is entitled to a fair share: the Nth part of what is left then, N being the agents that have
 * called a model there until now, as far as others who work are not entitled to it. It lasts until it is spent, or its agent
 * rests; only an agent that is there for the first time makes the shares of others smaller, to the new Nth part. A call is
 * paid from the share of its agent first. The rest it borrows, from all that is left but for the shares of others who
 * work: what idle agents do not use. A share too small for its agent's own next call is no use to it, and is lent too.
 * What comes back of a call goes to the share that it was taken from.
 */

/** A number of tokens, and where it stands in the options. */
export interface Limit {
  readonly path: string
  readonly tokens: number
}

export interface AccountOptions {
  /** Of all agents together. */
  readonly total?: Limit
  /** Of each. */
  readonly perAgent?: Limit
  /** What was used longer ago counts no more; by default nothing is forgotten. */
  readonly windowMs?: number
  /** Monotonic. */
  readonly now: () => number
  /** A limit is nearly reached (80 %), or reached: nothing is left, or a call was refused. Once each until it is below again. */
  readonly onLevel?: (level: Level) => void
}

/** `agent`: null if it is the limit of all together. */
export interface Level {
  readonly agent: string | null
  readonly used: number
  readonly limit: number
}

/** Why a call cannot be made, even if all calls under way cost nothing. */
export interface Refusal {
  readonly limit: Limit
  readonly used: number
  readonly held: number
  /** For others who work. */
  readonly kept: number
  /** When enough of it is forgotten. */
  readonly retryAfterMs: number | undefined
}

/** What a call holds. */
export interface Held {
  readonly tokens: number
  readonly ofShare: number
}

interface Member {
  readonly agent: string
  used: number
  held: number
  isWorking: boolean
  /** What it is entitled to. */
  due: number
  /** What its calls under way hold of that. */
  dueHeld: number
  /** What its last call asked for. */
  asked: number
  level: number
}

const NEARLY = 0.8

export class TokenAccount {
  readonly #options: AccountOptions
  readonly #members = new Map<string, Member>()
  /** What was paid within the window, oldest first. */
  readonly #paid: { at: number; member: Member; tokens: number }[] = []
  #used = 0
  #held = 0
  #level = 0

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

  /** The agent is about to ask for that much. */
  begin(agent: string, tokens: number): void {
    this.#forget()
    let member = this.#members.get(agent)
    if (!member) {
      member = { agent, used: 0, held: 0, isWorking: false, due: 0, dueHeld: 0, asked: 0, level: 0 }
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

  /** Its last turn has ended: its share can be borrowed. */
  rest(agent: string): void {
    const member = this.#members.get(agent)
    if (!member) return
    member.isWorking = false
    member.due = 0
    this.#dropIfForgotten(member)
  }

  /** Whether it is entitled to that much. */
  isDue(agent: string, tokens: number): boolean {
    return !this.#options.total || tokens <= shareOf(this.#memberOf(agent))
  }

  /** How much it can have now, if `promised` is for others before it. */
  room(agent: string, promised: number): number {
    this.#forget()
    const member = this.#memberOf(agent)
    const { total, perAgent } = this.#options
    const own = perAgent ? perAgent.tokens - member.used - member.held : Number.POSITIVE_INFINITY
    if (!total) return own
    const borrowed = this.#left - promised - this.#keptFrom(member)
    return Math.min(own, borrowed)
  }

  /** What neither calls that were paid nor those under way have taken of it, and of what all have. */
  left(agent: string): number {
    this.#forget()
    const { total, perAgent } = this.#options
    const { used, held } = this.#members.get(agent) ?? { used: 0, held: 0 }
    const own = perAgent ? Math.max(0, perAgent.tokens - used - held) : Number.POSITIVE_INFINITY
    return total ? Math.min(own, this.#left) : own
  }

  /** Why it can never have that much, as things are; undefined if calls under way may leave enough. */
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

  /** The call is over and has cost that much, which can be more than it held. */
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

  /** Teams live for months, and agents come and go. */
  #dropIfForgotten({ agent, used, held, isWorking }: Member): void {
    const { windowMs } = this.#options
    if (windowMs !== undefined && used === 0 && held === 0 && !isWorking) this.#members.delete(agent)
  }

  /** When that much is forgotten, of one agent or of all. */
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
    if (member) member.level = level
    else this.#level = level
    this.#options.onLevel?.({ agent: member?.agent ?? null, used: member?.used ?? this.#used, limit: limit.tokens })
  }
}

/** What it is entitled to beyond what its calls under way hold. */
const shareOf = ({ due, dueHeld }: Member) => Math.max(0, due - dueHeld)

const FAR = 0
const NEAR = 1
const REACHED = 2

function levelOf(used: number, { tokens }: Limit): number {
  return used >= tokens ? REACHED : used >= NEARLY * tokens ? NEAR : FAR
}
