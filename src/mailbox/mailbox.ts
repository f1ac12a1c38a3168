/**
 * A mailbox outlives its thread. It belongs to the host: a queue of encoded frames. A frame leaves it when its turn has
 * committed, not when it was handed to the thread.
 *
 *   parked -> waiting -> handed -> gone        handed -> waiting again, when the thread dies
 *
 * The frames themselves stand in the run's log; an envelope points there.
 */
import type { Envelope } from './envelope.ts'
import { Line } from './line.ts'

export { type Envelope, LANES, NOT_YET } from './envelope.ts'

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

  /** How many of those that stood in line have another priority than 0. */
  ranked = 0
  /** How many run within others. */
  nested = 0

  add(envelope: Envelope<Owner>): void {
    this.#items.push(envelope)
    this.#count(envelope, 1)
  }

  #count({ within, priority }: Envelope<Owner>, by: 1 | -1): void {
    if (within) this.nested += by
    else if (priority !== 0) this.ranked += by
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
    this.#count(this.#items[at]!, -1)
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

/** One instance's end of a mailbox: what it was handed is its own, what waits is for whichever is free. */
export class Mailbox<Owner> {
  readonly #line: Line<Owner>
  /** Handed to the thread and not committed, in the order of handing. */
  readonly handed = new Handed<Owner>()

  /** `other`: the end that another instance has, or who had it before. */
  constructor(other?: Mailbox<Owner>, isShared = false) {
    this.#line = other ? other.#line : new Line<Owner>()
    this.#line.isShared = isShared
  }

  // ---- what waits

  /** On their way, from senders that had to ask: there was no room. */
  get parked(): Line<Owner>['parked'] {
    return this.#line.parked
  }
  /** The first of the parked, once its room is taken. */
  get expected(): Envelope<Owner> | undefined {
    return this.#line.expected
  }
  set expected(envelope: Envelope<Owner> | undefined) {
    this.#line.expected = envelope
  }
  /** Messages of several owners may wait. */
  get isMixed(): boolean {
    return this.#line.isMixed
  }
  /** Handed over and not committed, to all instances. */
  get underWay(): number {
    return this.#line.underWay
  }
  get accepted(): number {
    return this.#line.accepted
  }
  get handled(): number {
    return this.#line.handled
  }
  get deadLettered(): number {
    return this.#line.deadLettered
  }
  /** Waiting, not yet handed over. */
  get waiting(): number {
    return this.#line.waiting
  }
  get empty(): boolean {
    return this.#line.underWay === 0 && this.#line.waiting === 0
  }

  push(envelope: Envelope<Owner>): void {
    this.#line.push(envelope)
  }
  /** The next in line to hand over: what was cut off, then by priority. */
  peek(): Envelope<Owner> | undefined {
    return this.#line.peek()
  }
  /** Whether anything of that owner waits in line. */
  has(owner: Owner): boolean {
    return this.#line.has(owner)
  }
  /** What a death has cut off and waits to be tried again. */
  cutOff(): IterableIterator<Envelope<Owner>> {
    return this.#line.cutOff()
  }
  /** What may make room for others, in that order: lowest priority first, then oldest. What was begun with stays. */
  droppable(): IterableIterator<Envelope<Owner>> {
    return this.#line.droppable()
  }
  /** Everything that waits, in the order in which it would be handed over. */
  queued(): IterableIterator<Envelope<Owner>> {
    return this.#line.queued()
  }

  /** Those that wait to run within a turn of the agent. */
  get nested(): Line<Owner>['nested'] {
    return this.#line.nested
  }

  // ---- what this instance has

  /** Whether it has that message. */
  holds(envelope: Envelope<Owner>): boolean {
    return this.handed.get(envelope.turn) === envelope
  }

  /** Moves an envelope from waiting to handed, mostly the one that `peek` gave, and numbers its turn. */
  hand(envelope: Envelope<Owner>): void {
    this.#line.take(envelope)
    this.handed.add(envelope)
  }

  /** The turn has committed: the message is handled. */
  commit(turn: number): Envelope<Owner> | undefined {
    const envelope = this.handed.get(turn)
    if (!envelope) return undefined
    this.handed.delete(turn)
    this.#line.underWay -= 1
    this.#line.handled += 1
    return envelope
  }

  /** Takes an envelope out that becomes a dead letter, whether it waits or this instance has it. */
  discard(envelope: Envelope<Owner>): boolean {
    const isHanded = this.handed.get(envelope.turn) === envelope
    const found = isHanded ? this.handed.delete(envelope.turn) : this.#line.takeOut(envelope)
    if (isHanded) this.#line.underWay -= 1
    if (found) this.#line.deadLettered += 1
    return found
  }

  /** The thread is gone: what it had begun goes to the very front, what it had not begun back to its place. */
  giveBack(begun: readonly Envelope<Owner>[], untouched: readonly Envelope<Owner>[]): void {
    for (const envelope of begun) this.handed.delete(envelope.turn)
    for (const envelope of untouched) this.handed.delete(envelope.turn)
    this.#line.giveBack(begun, untouched)
  }
}
