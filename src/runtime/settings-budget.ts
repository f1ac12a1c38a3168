/** The shape of budgets, of a team and of a run. */
import type { BudgetConfig, TokenLimit } from './options.ts'
import { type Check, integer, shape, wait } from './settings-checks.ts'

const MOST_TOKENS = 2 ** 52
const tokens = integer(1, MOST_TOKENS)

export const tokenLimit: Check = shape<TokenLimit>({ tokens, perAgentTokens: tokens })

export const budget: Check = shape<BudgetConfig>({
  perRun: tokenLimit,
  perTeam: shape<TokenLimit & { windowMs: number }>({ tokens, perAgentTokens: tokens, windowMs: wait() }, 'windowMs'),
})
