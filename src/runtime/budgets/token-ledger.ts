/**
 * Decides which model call may start now, and which call waits. Before a call is made, each account that it counts in
 * holds what it can cost; afterwards the real cost is paid. A call that does not fit waits only for calls under way,
 * which can cost less than they hold. If even that could not leave enough, the call is refused at once. So no call
 * waits for a turn to end; a wait takes as long as other calls do, unless its signal ends it earlier.
 *
 * Order: first calls that the shares of their agents cover (see TokenAccount), oldest first. Then calls that borrow, by
 * the agent's priority, then oldest first. A call that eight younger calls have passed goes before all others. No call
 * takes tokens that a call before it waits for.
 */
import { BudgetExceededError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import type { Held, Refusal, TokenAccount } from './token-account.ts'

/** Tokens that a call asks for. */
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

/** Tokens that a call holds until it is over. */
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
