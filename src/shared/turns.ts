/**
 * Turns of tenants in one queue, by their weights: a deficit round robin whose quantum is as small as can be. Each
 * tenant counts what it was given, divided by its weight; whoever waits and has had least is next. One that comes after
 * a while begins where the others are: it is next, and what it did not use before is not made up for.
 */
import { groupedBy, own } from './values.ts'

/** Number of tenants from which on those are forgotten that wait for nothing. */
const MANY = 1_000

type Weights = Readonly<Record<string, number>>

export class Turns {
  readonly #weights: Weights
  /** Sum that each tenant was given, by its weight. */
  readonly #given = new Map<string, number>()
  /** Sum of the tenant that was served last, before it was. */
  #now = 0

  constructor(weights: Weights = {}) {
    this.#weights = weights
  }

  /** Returns the tenant of these that is next; the first of those that have had least. */
  next(tenants: Iterable<string>): string | undefined {
    let next: string | undefined
    for (const tenant of tenants) if (next === undefined || this.#of(tenant) < this.#of(next)) next = tenant
    return next
  }

  /** Notes what a tenant was given. `weights`: those of the team that it is of, where teams share a queue. */
  served(tenant: string, cost: number, weights = this.#weights): void {
    const before = this.#of(tenant)
    this.#now = before
    if (this.#given.size >= MANY)
      for (const [other, given] of this.#given) if (given <= before) this.#given.delete(other)
    this.#given.set(tenant, before + cost / (own(weights, tenant) ?? 1))
  }

  /** Returns the items in the order of the turns; those of one tenant stay in theirs. Nothing is noted. */
  order<T>(items: readonly T[], tenantOf: (item: T) => string, costOf: (item: T) => number): readonly T[] {
    const byTenant = groupedBy(items, tenantOf)
    if (byTenant.size <= 1) return items
    const trial = new Turns(this.#weights)
    for (const tenant of byTenant.keys()) trial.#given.set(tenant, this.#of(tenant))
    trial.#now = this.#now
    const ordered: T[] = []
    for (let next = trial.next(byTenant.keys()); next !== undefined; next = trial.next(byTenant.keys())) {
      const own = byTenant.get(next)!
      const item = own.shift()!
      ordered.push(item)
      trial.served(next, costOf(item))
      if (own.length === 0) byTenant.delete(next)
    }
    return ordered
  }

  #of(tenant: string): number {
    return Math.max(this.#given.get(tenant) ?? 0, this.#now)
  }
}
