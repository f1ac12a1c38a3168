/**
 * Subscriptions of a board. All subscribers see all writes in the order in which they were made. If a callback writes,
 * its entry waits until all subscribers have received the current one.
 */
import type { BlackboardEntry } from './entry.ts'

/** Callback that is called with each write that its subscription matches. */
export type EntryCallback = (entry: BlackboardEntry) => void

interface Subscription {
  wants: (key: string) => boolean
  callback: EntryCallback
}

/** Holds the subscriptions of one board. */
export class Subscriptions {
  readonly #onCallbackError: (error: unknown, entry: BlackboardEntry) => void
  readonly #all = new Set<Subscription>()
  readonly #queue: { to: Subscription; entry: BlackboardEntry }[] = []
  #delivering = false

  /** Creates an empty set. `onCallbackError` receives what a callback throws, or what its promise rejects with. */
  constructor(onCallbackError: (error: unknown, entry: BlackboardEntry) => void) {
    this.#onCallbackError = onCallbackError
  }

  get isEmpty(): boolean {
    return this.#all.size === 0
  }

  /** Adds a subscription from the next write on, until the returned function is called. */
  add(wants: (key: string) => boolean, callback: EntryCallback): () => void {
    const subscription = { wants, callback }
    this.#all.add(subscription)
    return () => void this.#all.delete(subscription)
  }

  /**
   * Delivers an entry to its subscribers. It returns when all have been called. If a callback made this write, it
   * returns at once, and the entry waits in the queue.
   */
  deliver(entry: BlackboardEntry): void {
    // The recipients are fixed here: a subscription added while the entry waits in the queue is later than the write.
    for (const to of this.#all) if (to.wants(entry.key)) this.#queue.push({ to, entry })
    if (this.#delivering) return
    this.#delivering = true
    try {
      for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
        if (this.#all.has(next.to)) this.call(next.to.callback, next.entry)
      }
    } finally {
      this.#delivering = false
    }
  }

  /** Calls a callback, and reports its failure instead of throwing it. */
  call(callback: EntryCallback, entry: BlackboardEntry): void {
    try {
      const outcome: unknown = callback(entry)
      // The type also allows an async callback; without this its rejection would end the whole process.
      if (outcome instanceof Promise) outcome.catch((error) => this.#onCallbackError(error, entry))
    } catch (error) {
      this.#onCallbackError(error, entry)
    }
  }
}
