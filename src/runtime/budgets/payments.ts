/**
 * Fold of the log: what model calls of the last time have cost, as far as a window counts it. It is the same for a log
 * that another process has written.
 */
import type { HostRecord, Unrecorded } from '../log/records.ts'

/** Cost of a model call. */
export interface Payment {
  /** Number of the record of the call. */
  readonly seq: number
  /** Epoch ms. */
  readonly at: number
  readonly agent: string
  readonly tokens: number
}

type WindowFact = Extract<Unrecorded, { kind: 'budget.window' }>

/** Payments that one record has. */
const PAID_AT_ONCE = 1_000

export class Payments {
  readonly #windowMs: number
  /** By their numbers: what a compaction says again is the same payment. */
  readonly #all = new Map<number, Payment>()

  /** `windowMs`: time after which a payment is forgotten; 0 keeps none. */
  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  see(record: HostRecord): void {
    if (this.#windowMs === 0) return
    if (record.kind === 'budget.window')
      for (const [seq, at, agent, tokens] of record.paid) this.#add({ seq, at, agent, tokens })
    else if (record.kind === 'model.called') {
      const { seq, at, agent, usage, cost = usage.totalTokens } = record
      if (cost > 0) this.#add({ seq, at, agent, tokens: cost })
    } else return
    this.#forget(record.at)
  }

  /** Adds payments of earlier processes. */
  add(payments: Iterable<Payment>): void {
    for (const payment of payments) this.#add(payment)
  }

  #add(payment: Payment): void {
    if (!this.#all.has(payment.seq)) this.#all.set(payment.seq, payment)
  }

  /** Returns the payments that the window has at that time, the oldest first. */
  within(now: number): Payment[] {
    this.#forget(now)
    const since = now - this.#windowMs
    return [...this.#all.values()].filter(({ at }) => at > since).sort((a, b) => a.at - b.at)
  }

  /** Yields the payments that the window has at that time, as records. */
  *facts(now: number): Generator<WindowFact> {
    const paid = this.within(now).map(({ seq, at, agent, tokens }): WindowFact['paid'][number] => [
      seq,
      at,
      agent,
      tokens,
    ])
    for (let from = 0; from < paid.length; from += PAID_AT_ONCE)
      yield { kind: 'budget.window', paid: paid.slice(from, from + PAID_AT_ONCE) }
  }

  #forget(now: number): void {
    const since = now - this.#windowMs
    for (const [seq, { at }] of this.#all) {
      if (at > since) break // the rest is later, but for a few that a compaction has logged again
      this.#all.delete(seq)
    }
  }
}
