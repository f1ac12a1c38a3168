/**
 * A mailbox outlives its thread. It belongs to the host: a queue of encoded frames. A frame leaves it when its turn has
 * committed, not when it was handed to the thread.
 *
 *   parked -> waiting -> handed -> gone        handed -> waiting again, when the thread dies
 *
 * The frames themselves stand in the run's log; an envelope points there.
 */
import type { ErrorData } from '../errors.ts'
import type { Memory } from './memory.ts'

export const NOT_YET = -1

/** One message on its way through a mailbox. `Owner` is what the host knows of its run. */
export interface Envelope<Owner> {
  readonly memory: Memory
  readonly at: number
  readonly bytes: number
  readonly run: Owner
  readonly priority: number
  /** Unique within the recipient, over its lives; 0 until it is handed over for the first time. */
  turn: number
  attempt: number
  /** Where it stands in the window of the life that it was handed to, to tell whether it was taken. */
  lane: 'plain' | 'ranked'
  windowAt: number
  windowEnd: number
  /** The number of the log's next record when it was handed over. */
  handedSeq: number
  /** When it came, for `queueTimeoutMs`. Monotonic ms, or `NOT_YET`. */
  waitsSince: number
  /** This attempt was seen to start. Monotonic ms, or `NOT_YET`. */
  startedAt: number
  /** Its first attempt was: from then on its sender waits for the response. Monotonic ms, or `NOT_YET`. */
  begunAt: number
  /** That it began is in the log. */
  announced: boolean
  /** Withdrawn by its caller: it is passed over, or its turn is told to stop. */
  cancelled: boolean
  /** How many of its attempts the host cut off for the sake of others. */
  uncharged: number
  /** What killed its earlier attempts. */
  deaths: { error: ErrorData; epoch: number; alone: boolean; fingerprint: string | null }[] | null
}

/** First in, first out, with amortized constant cost. */
class Queue<T> {
  #items: T[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#head += 1
    if (this.#head === this.#items.length) {
      this.#items = []
      this.#head = 0
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  unshift(items: readonly T[]): void {
    this.#items = [...items, ...this.#items.slice(this.#head)]
    this.#head = 0
  }

  remove(item: T): boolean {
    if (this.peek() === item) {
      this.shift()
      return true
    }
    const at = this.#items.indexOf(item, this.#head)
    if (at < 0) return false
    this.#items.splice(at, 1)
    return true
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i]!
  }
}

/**
 * What was handed to the thread and has not committed, in the order of handing. Turns mostly end in that order, so the
 * first is nearly always the one that is looked for.
 */
class Handed<Owner> {
  #items: (Envelope<Owner> | undefined)[] = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  /** How many of them have another priority than 0. */
  ranked = 0

  add(envelope: Envelope<Owner>): void {
    this.#items.push(envelope)
    if (envelope.priority !== 0) this.ranked += 1
  }

  #indexOf(turn: number): number {
    for (let i = this.#head; i < this.#items.length; i++) if (this.#items[i]?.turn === turn) return i
    return -1
  }

  /** The one that was handed first. */
  get first(): Envelope<Owner> | undefined {
    return this.#items[this.#head]
  }

  get(turn: number): Envelope<Owner> | undefined {
    return this.#items[this.#indexOf(turn)]
  }

  delete(turn: number): boolean {
    const at = this.#indexOf(turn)
    if (at < 0) return false
    if (this.#items[at]!.priority !== 0) this.ranked -= 1
    if (at > this.#head) this.#items.splice(at, 1)
    else this.#items[this.#head++] = undefined // lets the message go
    if (this.#head === this.#items.length) {
      this.#items.length = 0
      this.#head = 0
    } else if (this.#head >= 1024) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return true
  }

  *values(): IterableIterator<Envelope<Owner>> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i]!
  }
}

export class Mailbox<Owner> {
  /** Cut off by a death: they come before everything else. */
  readonly #again = new Queue<Envelope<Owner>>()
  readonly #plain = new Queue<Envelope<Owner>>()
  /** Any other priority, highest first; the same priority in order of arrival. */
  #ranked: Envelope<Owner>[] = []
  /** Handed to the thread and not committed, in the order of handing. */
  readonly handed = new Handed<Owner>()
  /** On their way, from senders that had to ask: there was no room. */
  readonly parked = new Queue<Envelope<Owner>>()
  /** The first of the parked, once its room is taken. */
  expected: Envelope<Owner> | undefined
  /** Messages of several owners may wait. */
  isMixed = false
  accepted = 0
  handled = 0
  deadLettered = 0
  #lastTurn = 0

  /** Waiting, not yet handed over. */
  get waiting(): number {
    return this.#again.length + this.#plain.length + this.#ranked.length
  }

  get empty(): boolean {
    return this.handed.size === 0 && this.waiting === 0
  }

  push(envelope: Envelope<Owner>): void {
    this.accepted += 1
    const first = this.peek()
    this.isMixed = first !== undefined && (this.isMixed || first.run !== envelope.run)
    if (envelope.priority === 0) this.#plain.push(envelope)
    else this.#rank(envelope)
  }

  #rank(envelope: Envelope<Owner>): void {
    let low = 0
    let high = this.#ranked.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#ranked[middle]!.priority >= envelope.priority) low = middle + 1
      else high = middle
    }
    this.#ranked.splice(low, 0, envelope)
  }

  /** The next to hand over: what was cut off, then by priority. */
  peek(): Envelope<Owner> | undefined {
    const again = this.#again.peek()
    if (again) return again
    const ranked = this.#ranked[0]
    if (ranked && ranked.priority > 0) return ranked
    return this.#plain.peek() ?? ranked
  }

  /** Whether anything of that owner waits. */
  has(owner: Owner): boolean {
    for (const { run } of this.queued()) if (run === owner) return true
    return false
  }

  /** Moves an envelope from waiting to handed, mostly the one that `peek` gave, and numbers its turn. */
  hand(envelope: Envelope<Owner>): void {
    if (this.#again.peek() === envelope) this.#again.shift()
    else if (this.#plain.peek() === envelope) this.#plain.shift()
    else this.#takeOut(envelope)
    if (envelope.turn === 0) envelope.turn = ++this.#lastTurn
    this.handed.add(envelope)
  }

  /** The turn has committed: the message is handled. */
  commit(turn: number): Envelope<Owner> | undefined {
    const envelope = this.handed.get(turn)
    if (!envelope) return undefined
    this.handed.delete(turn)
    this.handled += 1
    return envelope
  }

  /** Takes an envelope out that becomes a dead letter, wherever it is. */
  discard(envelope: Envelope<Owner>): boolean {
    const found =
      this.handed.get(envelope.turn) === envelope ? this.handed.delete(envelope.turn) : this.#takeOut(envelope)
    if (found) this.deadLettered += 1
    return found
  }

  #takeOut(envelope: Envelope<Owner>): boolean {
    if (envelope.priority !== 0 && this.#removeRanked(envelope)) return true
    return this.#plain.remove(envelope) || this.#again.remove(envelope)
  }

  #removeRanked(envelope: Envelope<Owner>): boolean {
    const at = this.#ranked.indexOf(envelope)
    if (at < 0) return false
    this.#ranked.splice(at, 1)
    return true
  }

  /** The thread is gone: what it had begun goes to the very front, what it had not begun back to its place. */
  giveBack(begun: readonly Envelope<Owner>[], untouched: readonly Envelope<Owner>[]): void {
    this.isMixed = true
    for (const envelope of begun) this.handed.delete(envelope.turn)
    for (const envelope of untouched) this.handed.delete(envelope.turn)
    const fresh = untouched.filter((envelope) => envelope.attempt === 1)
    this.#again.unshift([...begun, ...untouched.filter((envelope) => envelope.attempt > 1)])
    this.#plain.unshift(fresh.filter((envelope) => envelope.priority === 0))
    const ranked = fresh.filter((envelope) => envelope.priority !== 0)
    this.#ranked = [...ranked, ...this.#ranked].sort((a, b) => b.priority - a.priority) // stable
  }

  /** What a death has cut off and waits to be tried again. */
  get cutOff(): Iterable<Envelope<Owner>> {
    return this.#again
  }

  /** What may make room for others, in that order: lowest priority first, then oldest. What was begun with stays. */
  *droppable(): IterableIterator<Envelope<Owner>> {
    const ranked = [...this.#ranked]
    let plain = false
    for (let end = ranked.length; end > 0; ) {
      const { priority } = ranked[end - 1]!
      if (priority > 0 && !plain) {
        plain = true
        yield* this.#plain
      }
      let start = end
      while (start > 0 && ranked[start - 1]!.priority === priority) start -= 1
      yield* ranked.slice(start, end)
      end = start
    }
    if (!plain) yield* this.#plain
  }

  /** Everything that waits, in the order in which it would be handed over. */
  *queued(): IterableIterator<Envelope<Owner>> {
    yield* this.#again
    for (const envelope of this.#ranked) if (envelope.priority > 0) yield envelope
    yield* this.#plain
    for (const envelope of this.#ranked) if (envelope.priority < 0) yield envelope
  }
}
