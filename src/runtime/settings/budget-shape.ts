/**
 * Shape of budgets, of a team and of a run. A budget without any limit is refused: its author believes that it limits
 * something.
 */
import { type Check, integer, isObject, shape, wait } from '../checks/checks.ts'
import { refusedAs } from '../checks/refused.ts'
import type { BudgetConfig, TokenLimit } from './options.ts'

const MOST_TOKENS = 2 ** 52
const tokens = integer(1, MOST_TOKENS)

const LIMITS = ['tokens', 'perAgentTokens']

export const tokenLimit: Check = limiting(LIMITS, shape<TokenLimit>({ tokens, perAgentTokens: tokens }))

export const budget: Check = limiting(
  ['perRun', 'perTeam'],
  shape<BudgetConfig>({
    perRun: tokenLimit,
    perTeam: limiting(
      LIMITS,
      shape<TokenLimit & { windowMs: number }>({ tokens, perAgentTokens: tokens, windowMs: wait() }, 'windowMs'),
    ),
  }),
)

/** Returns a check that accepts what `check` accepts, with at least one of these fields. */
function limiting(fields: readonly string[], check: Check): Check {
  return (value, path) => {
    check(value, path)
    if (isObject(value) && fields.every((field) => Reflect.get(value, field) === undefined))
      throw refusedAs(path, 'no limit', `an object with ${fields.join(' or ')}`, 'Or leave it out.')
  }
}
