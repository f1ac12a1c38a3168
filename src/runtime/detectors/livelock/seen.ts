/**
 * Remembers content that a run has had, to recognize repetition: by a hash, at most 10,000 of a run. Beyond that the
 * oldest is forgotten and would count as new: a livelock found late is better than a false one.
 */
import { hashOf } from '../../../actors/definition/hash-of.ts'
import { BoundedMap } from '../../log/bounded-map.ts'

const MOST_SEEN = 10_000

export class News {
  readonly #seen = new BoundedMap<string, true>(MOST_SEEN)

  /** Returns true if this content is new. Remembers it. */
  isNew(...parts: readonly string[]): boolean {
    const hash = hashOf(...parts)
    if (this.#seen.has(hash)) return false
    this.#seen.set(hash, true)
    return true
  }
}
