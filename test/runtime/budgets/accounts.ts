import {
  type Claim,
  type Level,
  type Reservation,
  TokenAccount,
  TokenLedger,
} from '../../../src/runtime/verbs/token-account.ts'

/** One account and its ledger; time passes by `time.now`. */
export function oneAccount(limits: { total?: number; perAgent?: number; windowMs?: number }) {
  const time = { now: 0 }
  const levels: Level[] = []
  const { total, perAgent, windowMs } = limits
  const account = new TokenAccount({
    ...(total !== undefined && { total: { path: 'budget.perRun.tokens', tokens: total } }),
    ...(perAgent !== undefined && { perAgent: { path: 'budget.perRun.perAgentTokens', tokens: perAgent } }),
    ...(windowMs !== undefined && { windowMs }),
    now: () => time.now,
    onLevel: (level) => levels.push(level),
  })
  const ledger = new TokenLedger()
  const ask = (agent: string, tokens: number, more: Partial<Claim> = {}) =>
    pending(
      ledger.reserve({
        agent,
        tokens,
        priority: 0,
        accounts: [account],
        signal: new AbortController().signal,
        ...more,
      }),
    )
  return { account, ledger, ask, levels, time, rest: (agent: string) => ledger.rest(agent, account) }
}

/** A claim, and what has become of it so far. */
export interface Pending {
  state: 'waits' | 'granted' | 'refused'
  reservation: Reservation | undefined
  error: unknown
  readonly decided: Promise<void>
}

function pending(reserved: Promise<Reservation>): Pending {
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
