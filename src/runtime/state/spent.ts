/** Tokens that models have used in one run. */
import { addUsage, NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'

/** Model call that was made. `cost`: tokens that budgets count, if an older log has others than those of `usage`. */
interface Called {
  readonly agent: string
  readonly usage: TokenUsage
  readonly cost?: number
  readonly rehearsed: boolean
}

export class Spent {
  readonly byAgent = new Map<string, TokenUsage>()
  /** Tokens that budgets count, by agent. */
  readonly costs = new Map<string, number>()
  /** True if the rehearsal model answered at least one call, so that no model was asked. */
  rehearsed = false

  add({ agent, usage, cost = usage.totalTokens, rehearsed }: Called): void {
    this.costs.set(agent, (this.costs.get(agent) ?? 0) + cost)
    this.byAgent.set(agent, addUsage(this.byAgent.get(agent) ?? NO_TOKENS, usage))
    this.rehearsed ||= rehearsed
  }

  get total(): TokenUsage {
    return [...this.byAgent.values()].reduce(addUsage, { ...NO_TOKENS })
  }
}
