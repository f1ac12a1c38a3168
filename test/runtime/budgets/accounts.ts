import { Account, type Claim, Ledger, type Reservation } from '../../../src/runtime/verbs/accounts.ts'

/** Level of an account of tokens, with numbers. */
interface Level {
  agent: string | null
  used: number
  limit: number
}

/** Account of tokens that tells its figures as numbers, and calls of so many tokens that ask for it. */
export class TokenAccount {
  readonly of: Account

  constructor(limits: {
    total?: number | undefined
    perAgent?: number | undefined
    windowMs?: number
    now: () => number
    onLevel?: (level: Level) => void
  }) {
    const { total, perAgent, windowMs, now, onLevel } = limits
    this.of = new Account({
      ...(total !== undefined && { total: { path: 'budget.perRun.tokens', most: BigInt(total) } }),
      ...(perAgent !== undefined && { perAgent: { path: 'budget.perRun.perAgentTokens', most: BigInt(perAgent) } }),
      ...(windowMs !== undefined && { windowMs }),
      now,
      onLevel: ({ agent, used, limit }) => onLevel?.({ agent, used: Number(used), limit: Number(limit) }),
    })
  }

  get used(): number {
    return Number(this.of.used)
  }
  get held(): number {
    return Number(this.of.held)
  }
  uses() {
    return this.of.uses()
  }
}

type TokenClaim = Omit<Claim, 'output' | 'stakes'> & { tokens: number; accounts: readonly TokenAccount[] }
type Granted = Omit<Reservation, 'settle' | 'held'> & { tokens: number; settle(cost: number): void }

export async function reserve(ledger: Ledger, { tokens, accounts, ...claim }: TokenClaim): Promise<Granted> {
  const stakes = accounts.map(({ of: account }) => ({ account, most: BigInt }))
  const { output, settle } = await ledger.reserve({ ...claim, output: tokens, stakes })
  return { output, tokens: output, settle: (cost) => settle(stakes.map(() => BigInt(cost))) }
}

/** One account and its ledger; time passes by `time.now`. */
export function oneAccount(limits: { total?: number; perAgent?: number; windowMs?: number }) {
  const time = { now: 0 }
  const levels: Level[] = []
  const account = new TokenAccount({ ...limits, now: () => time.now, onLevel: (level) => levels.push(level) })
  const ledger = new Ledger()
  const ask = (agent: string, tokens: number, more: Partial<TokenClaim> = {}) =>
    pending(
      reserve(ledger, {
        agent,
        tokens,
        priority: 0,
        accounts: [account],
        signal: new AbortController().signal,
        ...more,
      }),
    )
  return { account, ledger, ask, levels, time, rest: (agent: string) => ledger.rest(agent, account.of) }
}

/** A claim, and what has become of it so far. */
export interface Pending {
  state: 'waits' | 'granted' | 'refused'
  reservation: Granted | undefined
  error: unknown
  readonly decided: Promise<void>
}

function pending(reserved: Promise<Granted>): Pending {
  const claim: { -readonly [Key in keyof Pending]: Pending[Key] } = {
    state: 'waits',
    reservation: undefined,
    error: undefined,
    decided: Promise.resolve(),
  }
  claim.decided = reserved.then(
    (reservation) => {
      Object.assign(claim, { state: 'granted', reservation })
    },
    (error: unknown) => {
      Object.assign(claim, { state: 'refused', error })
    },
  )
  return claim
}

/** All promises that can settle have settled. */
export const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
