/**
 * Who may call a model now, and who waits: what a call can cost is held in each account that it counts in before it is made,
 * and what it did cost is paid after. A call that fits nowhere waits only for calls that are under way, since those can come
 * back cheaper than they might have been; if even that would not do it is refused at once. So nobody waits for a turn to end,
 * and a wait is as long as other calls are, if its signal does not end it before.
 *
 * In what order: calls that their agents are entitled to (see TokenAccount), oldest first; then those that borrow, by the agent's
 * priority, then oldest first. A call that younger ones have passed eight times goes before all others. None takes what
 * one before it waits for.
 */
import { BudgetExceededError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import type { Held, Refusal, TokenAccount } from './token-account.ts'

/** What a call asks for. */
export interface Claim {
  readonly agent: string
  readonly priority: number
  /** The most that it can cost. */
  readonly tokens: number
  /** What it can make do with where not all of that is free; `tokens` by default. */
  readonly least?: number
  readonly accounts: readonly TokenAccount[]
  readonly signal: AbortSignal
}

/** What a call holds until it is over. */
export interface Reservation {
  readonly tokens: number
  /** It is over, and has cost that many tokens; 0 if it failed. The second time nothing happens. */
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

  /** @throws {BudgetExceededError} if calls under way cannot leave enough; what the signal was aborted with. */
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
    })
  }

  /** The agent's last turn there has ended. */
  rest(agent: string, account: TokenAccount): void {
    account.rest(agent)
    this.#look()
  }

  /** Grants what can be granted, and refuses what never can. */
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

/** Its agent is at work from now on. Returns how much it asks for. */
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
