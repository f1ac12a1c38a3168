/** Values of one shared state by keys, in the memory of the host. */
import type { Kept, Written } from '../../actors/turn/shared-state.ts'
import { MessageRejectedError } from '../../errors.ts'

/** Limit on the keys of a store, because keys are never removed. */
const MOST_KEYS = 10_000

/** Store of values by keys. Each value has the number of its writes (`version`). */
export class StateStore {
  readonly #kept = new Map<string, Kept>()

  read(key: string): Kept {
    return this.#kept.get(key) ?? { version: 0 }
  }

  /**
   * Writes the value if the key is at version `ifVersion`. Returns what the store has afterwards.
   *
   * @throws {MessageRejectedError} for a key more than there is room for.
   */
  write(key: string, ifVersion: number, value: unknown): Written {
    const kept = this.#kept.get(key)
    const { version } = kept ?? { version: 0 }
    if (version !== ifVersion) return { ...kept, version, done: false }
    if (!kept && this.#kept.size >= MOST_KEYS)
      throw new MessageRejectedError(
        `A shared state has up to ${MOST_KEYS} keys, and this one has them all: "${key}" was not written. Keep several values under one key.`,
        { path: 'key', key, keys: MOST_KEYS },
      )
    const next = { version: version + 1, value }
    this.#kept.set(key, next)
    return { ...next, done: true }
  }

  /** Puts a value in place that was written in an earlier process. */
  restore(key: string, kept: Kept): void {
    this.#kept.set(key, kept)
  }

  /** Puts all values in place that another store has. */
  replace(values: Iterable<[key: string, kept: Kept]>): void {
    this.#kept.clear()
    for (const [key, kept] of values) this.#kept.set(key, kept)
  }

  entries(): Iterable<[key: string, kept: Kept]> {
    return this.#kept
  }
}
