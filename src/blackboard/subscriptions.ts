/**
 * Who is told of a write, and in which order. Everybody sees all writes in the order in which they were made, also when
 * a callback writes: its entry waits until all have been given the one under way.
 */
import type { BlackboardEntry } from './entry.ts'

/** Is told of each write that it asked for. */
export type EntryCallback = (entry: BlackboardEntry) => void

interface Subscription {
  wants: (key: string) => boolean
  callback: EntryCallback
}

/** The subscriptions of one board. */
export class Subscriptions {
  readonly #onCallbackError: (error: unknown, entry: BlackboardEntry) => void
  readonly #all = new Set<Subscription>()
  readonly #queue: { to: Subscription; entry: BlackboardEntry }[] = []
  #delivering = false

  /** `onCallbackError` is given what a callback throws, or what the promise that it returns rejects with. */
  constructor(onCallbackError: (error: unknown, entry: BlackboardEntry) => void) {
    this.#onCallbackError = onCallbackError
  }

  /** From the next write on, until the returned function is called. */
  add(wants: (key: string) => boolean, callback: EntryCallback): () => void {
    const subscription = { wants, callback }
    this.#all.add(subscription)
    return () => void this.#all.delete(subscription)
  }

  /** Returns when all have been told, unless a callback made this write: then when it is its turn. */
  deliver(entry: BlackboardEntry): void {
    // The recipients are fixed here: who subscribes while the entry waits in the queue came after the write.
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

  /** Calls a callback so that its failure is reported and goes no further. */
  call(callback: EntryCallback, entry: BlackboardEntry): void {
    try {
      const outcome: unknown = callback(entry)
      // An async callback is allowed by the type; its rejection would otherwise end the whole process.
      if (outcome instanceof Promise) outcome.catch((error) => this.#onCallbackError(error, entry))
    } catch (error) {
      this.#onCallbackError(error, entry)
    }
  }
}
