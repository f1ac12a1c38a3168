/** Cost of a task by prices that the user has given. They are always an estimate: providers bill as they like. */

import type { Run, TokenUsage } from '../../index.ts'
import { own } from '../../own.ts'
import type { Cost } from './schemas.ts'

/** Price of a model, for a million tokens. */
export interface ModelPrice {
  input: number
  /** Input that the provider had in its cache. Default: the price of `input`. */
  cachedInput?: number
  output: number
}

const MILLION = 1_000_000

export class Prices {
  readonly #prices: Readonly<Record<string, ModelPrice>>
  /** Costs of runs that have ended. */
  readonly #known = new WeakMap<Run<unknown>, Cost>()

  constructor(prices: Readonly<Record<string, ModelPrice>>) {
    this.#prices = prices
  }

  /** Returns the cost of a run that has ended, by what its log has of calls of models. */
  async costOf(run: Run<unknown>): Promise<Cost> {
    const known = this.#known.get(run)
    if (known) return known
    let estimate = 0
    const byModel = new Map<string, number>()
    const unpriced = new Set<string>()
    for await (const event of run.events({ types: ['model.called'], follow: false })) {
      if (event.type !== 'model.called' || event.rehearsed) continue
      const { model, usage } = event
      const price = own(this.#prices, model)
      if (!price) {
        unpriced.add(model)
        continue
      }
      const paid = costOfCall(price, usage)
      estimate += paid
      byModel.set(model, (byModel.get(model) ?? 0) + paid)
    }
    const cost: Cost = { estimate, byModel: Object.fromEntries(byModel), unpriced: [...unpriced] }
    this.#known.set(run, cost)
    return cost
  }
}

function costOfCall({ input, cachedInput = input, output }: ModelPrice, usage: TokenUsage): number {
  const cached = Math.min(usage.cachedTokens ?? 0, usage.inputTokens)
  return ((usage.inputTokens - cached) * input + cached * cachedInput + usage.outputTokens * output) / MILLION
}
