/**
 * Storage of shared state: an interface for a store that outlives the process. The only implementation so far is in
 * memory.
 */
import type { Kept, Written } from '../../actors/turn/shared-state.ts'
import { MessageRejectedError } from '../../errors.ts'

/** Store of values by keys. Each value has the number of its writes (`version`). */
export interface StateStore {
  read(key: string): Promise<Kept>
  /**
   * Writes the value if the key is at version `ifVersion`. The check and the write are one atomic step. Resolves to
   * what the store has afterwards.
   *
   * Rejects with `MessageRejectedError` for a key more than there is room for.
   */
  write(key: string, ifVersion: number, value: unknown): Promise<Written>
}

/** Limit on the keys of a store, because keys are never removed. */
const MOST_KEYS = 10_000

export class MemoryStore implements StateStore {
  readonly #kept = new Map<string, Kept>()

  async read(key: string): Promise<Kept> {
    return this.#kept.get(key) ?? { version: 0 }
  }

  async write(key: string, ifVersion: number, value: unknown): Promise<Written> {
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
}
