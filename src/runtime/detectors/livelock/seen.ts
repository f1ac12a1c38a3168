/**
 * What has been seen, so that what comes again is known: by a hash of it, at most 10,000 of a run. Beyond these the oldest
 * is forgotten and would count as new: rather a livelock that is found late than one that is none.
 */
import { hashOf } from '../../../actors/definition/hash-of.ts'
import { BoundedMap } from '../../log/bounded-map.ts'

const MOST_SEEN = 10_000

export class News {
  readonly #seen = new BoundedMap<string, true>(MOST_SEEN)

  /** Whether that was not there before. From now on it was. */
  isNew(...parts: readonly string[]): boolean {
    const hash = hashOf(...parts)
    if (this.#seen.has(hash)) return false
    this.#seen.set(hash, true)
    return true
  }
}
