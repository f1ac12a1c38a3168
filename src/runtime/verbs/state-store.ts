/** Where shared state stands: the seam for a store that outlives the process. The one that there is, is memory. */
import type { Kept, Written } from '../../actors/turn/shared-state.ts'
import { MessageRejectedError } from '../../errors.ts'

/** Values by keys, each with the number of its writes. */
export interface StateStore {
  read(key: string): Promise<Kept>
  /**
   * Writes the value if the key is at that version, in one step with the look at it. Resolves to what stands then.
   *
   * Rejects with `MessageRejectedError` for a key more than there is room for.
   */
  write(key: string, ifVersion: number, value: unknown): Promise<Written>
}

/** Keys are never taken away, so there is an end to them. */
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
