/**
 * Messages that wait for room in a full mailbox, in order of arrival. The queue also knows their owners and senders.
 */
import type { Envelope } from './envelope.ts'
import { senderOf, turnOf } from './frame.ts'
import { Queue } from './queue.ts'

export class Parked<Owner> {
  readonly #queue = new Queue<Envelope<Owner>>()
  readonly #all = new Set<Envelope<Owner>>()
  /** Messages by sender and turn, in the order of that turn. */
  readonly #lines = new Map<number, Queue<Envelope<Owner>>>()
  readonly #counts = new Map<Owner, number>()

  /** To be read only. */
  length = 0

  peek(): Envelope<Owner> | undefined {
    return this.#queue.peek()
  }

  push(envelope: Envelope<Owner>): void {
    this.length += 1
    this.#queue.push(envelope)
    this.#all.add(envelope)
    const line = this.#lines.get(lineOf(envelope))
    if (line) line.push(envelope)
    else {
      const begun = new Queue<Envelope<Owner>>()
      begun.push(envelope)
      this.#lines.set(lineOf(envelope), begun)
    }
    this.#counts.set(envelope.run, (this.#counts.get(envelope.run) ?? 0) + 1)
  }

  shift(): Envelope<Owner> | undefined {
    const first = this.#queue.peek()
    if (first) this.remove(first)
    return first
  }

  remove(envelope: Envelope<Owner>): boolean {
    if (!this.#all.delete(envelope)) return false
    this.length -= 1
    const key = lineOf(envelope)
    const line = this.#lines.get(key)
    line?.remove(envelope)
    if (line?.length === 0) this.#lines.delete(key)
    const count = (this.#counts.get(envelope.run) ?? 0) - 1
    if (count > 0) this.#counts.set(envelope.run, count)
    else this.#counts.delete(envelope.run)
    return this.#queue.remove(envelope)
  }

  /** Checks whether a message of that owner is in the queue. */
  has(owner: Owner): boolean {
    return this.#counts.has(owner)
  }

  /** Checks whether that message is in the queue. */
  includes(envelope: Envelope<Owner>): boolean {
    return this.#all.has(envelope)
  }

  /** The messages grouped by turn, each group in its order. */
  get lines(): Iterable<Iterable<Envelope<Owner>>> {
    return this.#lines.values()
  }

  /** Returns the indices of the senders. */
  *senders(): IterableIterator<number> {
    for (const key of this.#lines.keys()) yield Math.floor(key / 2 ** 32)
  }

  [Symbol.iterator](): IterableIterator<Envelope<Owner>> {
    return this.#queue[Symbol.iterator]()
  }
}

const lineOf = ({ memory, at }: Envelope<unknown>): number =>
  senderOf(memory, at) * 2 ** 32 + (turnOf(memory, at) >>> 0)
