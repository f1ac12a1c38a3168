/** What models have cost in one run. */
import { addUsage, NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'

export class Spent {
  readonly byAgent = new Map<string, TokenUsage>()
  /** No model was asked in at least one call: the rehearsal model has answered. */
  rehearsed = false

  add({ agent, usage, rehearsed }: { agent: string; usage: TokenUsage; rehearsed: boolean }): void {
    this.byAgent.set(agent, addUsage(this.byAgent.get(agent) ?? NO_TOKENS, usage))
    this.rehearsed ||= rehearsed
  }

  get total(): TokenUsage {
    return [...this.byAgent.values()].reduce(addUsage, { ...NO_TOKENS })
  }
}
