/** Money that calls of models cost, by the prices that a team was given. There is no built-in list of prices. */

import type { TokenUsage } from '../../actors/definition/model.ts'
import { own } from '../../shared/values.ts'

/*
 * Amounts are whole billionths of a currency: sums of them are exact. Records and results have them as numbers, which
 * name each amount below some millions exactly.
 */

const BILLIONTHS = 1_000_000_000

export const billionthsOf = (amount: number): bigint => BigInt(Math.round(amount * BILLIONTHS))

export const amountOf = (billionths: bigint): number => Number(billionths) / BILLIONTHS

/** Writes an amount with two places; one below 1 with two digits at least, so that it is no nothing, and no more. */
export function moneyText(amount: number): string {
  const size = amount === 0 ? 0 : Math.floor(Math.log10(Math.abs(amount)))
  const text = amount.toFixed(Math.min(9, Math.max(2, 1 - size)))
  return text.replace(/(\.\d\d)0$/, '$1')
}

/** Price of a model, for a million tokens, in the currency of the list. */
export interface ModelPrice {
  input: number
  /** Input that the provider had in its cache. Default: the price of `input`. */
  cachedInput?: number
  output: number
  /** Price of one call, beside that of its tokens. Default: 0. */
  perCall?: number
  /** Other prices for prompts of more than `tokens`; the longest that fits counts. Default: none. */
  above?: readonly { tokens: number; input: number; cachedInput?: number; output: number }[]
}

/**
 * Prices of models, by the names that `model.called` events have. `currency`: any name, such as EUR; all amounts of the
 * team are in it.
 */
export interface PriceList {
  currency: string
  models: Readonly<Record<string, ModelPrice>>
}

/** Money that a run has spent on models. */
export interface Money {
  readonly amount: number
  readonly currency: string
  readonly byModel: Readonly<Record<string, number>>
}

interface Tier {
  /** Prompts of more tokens than that have these prices. */
  readonly above: number
  /** In billionths, for a million tokens. */
  readonly input: bigint
  readonly cached: bigint
  /** Highest price of input, wherever it comes from. */
  readonly dearest: bigint
  readonly output: bigint
}

interface Priced {
  readonly perCall: bigint
  /** The first is for the shortest prompts. */
  readonly tiers: readonly Tier[]
}

const MILLION = 1_000_000n

export class Prices {
  readonly currency: string
  readonly #models: Readonly<Record<string, Priced>>

  constructor({ currency, models }: PriceList) {
    this.currency = currency
    const priced = Object.entries(models).map(([name, price]) => [name, pricedBy(price)] as const)
    this.#models = Object.fromEntries(priced)
  }

  has(model: string): boolean {
    return own(this.#models, model) !== undefined
  }

  /** Lowest cost of a call, in billionths: one token of a prompt and one of an answer of the cheapest model. */
  get cheapest(): bigint {
    const all = Object.keys(this.#models).map((model) => this.most(model, 1, 1))
    return all.sort((one, other) => Number(one - other))[0] ?? 0n
  }

  /** Returns the most that a call can cost, in billionths: nothing of its prompt comes from a cache. */
  most(model: string, prompt: number, output: number): bigint {
    const price = own(this.#models, model)
    if (!price) return 0n
    const { perCall, tiers } = price
    let most = 0n
    for (const [i, tier] of tiers.entries()) {
      if (i > 0 && prompt <= tier.above) break
      // a prompt can be shorter than it is counted here, and shorter ones can be dearer
      const longest = BigInt(Math.min(prompt, tiers[i + 1]?.above ?? prompt))
      const cost = longest * tier.dearest + BigInt(output) * tier.output
      if (cost > most) most = cost
    }
    return perCall + roundedUp(most)
  }

  /** Returns what a call has cost, in billionths. One that has failed and used no token is free. */
  costOf(model: string, usage: TokenUsage, failed = false): bigint {
    const price = own(this.#models, model)
    if (!price || (failed && usage.totalTokens === 0)) return 0n
    const { inputTokens, outputTokens, cachedTokens = 0 } = usage
    const { input, cached, output } = price.tiers.findLast(({ above }, i) => i === 0 || inputTokens > above)!
    const inCache = whole(Math.min(cachedTokens, inputTokens))
    const tokens = (whole(inputTokens) - inCache) * input + inCache * cached + whole(outputTokens) * output
    return price.perCall + roundedUp(tokens)
  }
}

const whole = (tokens: number): bigint => BigInt(Math.ceil(tokens))

const roundedUp = (millionths: bigint): bigint => (millionths + MILLION - 1n) / MILLION

function pricedBy({ perCall = 0, above = [], ...first }: ModelPrice): Priced {
  const tiers = [{ ...first, tokens: 0 }, ...above].sort((one, other) => one.tokens - other.tokens)
  return {
    perCall: billionthsOf(perCall),
    tiers: tiers.map(({ tokens, input, cachedInput = input, output }) => ({
      above: tokens,
      input: billionthsOf(input),
      cached: billionthsOf(cachedInput),
      dearest: billionthsOf(Math.max(input, cachedInput)),
      output: billionthsOf(output),
    })),
  }
}

/** Sums of money by model. */
export class MoneySum {
  readonly #byModel = new Map<string, bigint>()

  /** `amounts`: what there was before, by model. */
  constructor(amounts: Readonly<Record<string, number>> = {}) {
    for (const [model, amount] of Object.entries(amounts)) this.add(model, billionthsOf(amount))
  }

  add(model: string, amount: bigint): void {
    if (amount > 0n) this.#byModel.set(model, (this.#byModel.get(model) ?? 0n) + amount)
  }

  get byModel(): Record<string, number> {
    return Object.fromEntries(Array.from(this.#byModel, ([model, sum]) => [model, amountOf(sum)]))
  }

  /** Returns the sums in a currency; null in a team without prices. */
  in(currency: string | undefined): Money | null {
    if (currency === undefined) return null
    const total = [...this.#byModel.values()].reduce((sum, each) => sum + each, 0n)
    return { amount: amountOf(total), currency, byModel: this.byModel }
  }
}
