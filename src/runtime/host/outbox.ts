/** Debts of a team's service to receivers outside: the durable log keeps each until it is delivered. */

import type { Unrecorded } from '../log/records.ts'
import type { Journal } from './journal.ts'

type Fact = Extract<Unrecorded, { kind: 'outbox' }>

export class Outbox {
  readonly #journal: Pick<Journal, 'keep'>
  readonly #owed = new Map<string, unknown>()
  readonly #watchers = new Set<(key: string) => void>()

  constructor(journal: Pick<Journal, 'keep'>) {
    this.#journal = journal
  }

  get(key: string): unknown {
    return this.#owed.get(key)
  }

  get entries(): Iterable<[key: string, value: unknown]> {
    return this.#owed
  }

  /** `value`: JSON; undefined: nothing is owed any more. */
  put(key: string, value: unknown): void {
    if (value === undefined && !this.#owed.has(key)) return
    this.#journal.keep(undefined, { kind: 'outbox', key, ...(value !== undefined && { value }) })
    this.restore({ key, value })
  }

  /** Puts in place what an earlier process owed. */
  restore({ key, value }: { key: string; value?: unknown }): void {
    if (value === undefined) this.#owed.delete(key)
    else this.#owed.set(key, value)
    for (const tell of [...this.#watchers]) tell(key)
  }

  /** Calls back with each key: those that there are, and later ones, also when one is gone. Returns what ends this. */
  watch(tell: (key: string) => void): () => void {
    this.#watchers.add(tell)
    for (const key of [...this.#owed.keys()]) tell(key)
    return () => this.#watchers.delete(tell)
  }

  *facts(): Iterable<Fact> {
    for (const [key, value] of this.#owed) yield { kind: 'outbox', key, value }
  }
}

/** Outboxes by their teams. */
export const outboxes = new WeakMap<object, Outbox>()
