/** Tokens that models have used in one run. */
import { addUsage, NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'

export class Spent {
  readonly byAgent = new Map<string, TokenUsage>()
  /** True if the rehearsal model answered at least one call, so that no model was asked. */
  rehearsed = false

  add({ agent, usage, rehearsed }: { agent: string; usage: TokenUsage; rehearsed: boolean }): void {
    this.byAgent.set(agent, addUsage(this.byAgent.get(agent) ?? NO_TOKENS, usage))
    this.rehearsed ||= rehearsed
  }

  get total(): TokenUsage {
    return [...this.byAgent.values()].reduce(addUsage, { ...NO_TOKENS })
  }
}
