/**
 * A mailbox: a queue of encoded frames in the host, which outlives the agent's thread. A frame leaves it when its turn
 * has committed, not when it was handed to the thread.
 *
 *   parked -> waiting -> handed -> gone        handed -> waiting again, when the thread dies
 *
 * The frames themselves are in the run's log; an envelope refers to them.
 */
import type { Envelope } from './envelope.ts'
import { Line } from './line.ts'
import { Queue } from './queue.ts'

export { type Envelope, envelopeOf, LANES, NOT_YET } from './envelope.ts'

/**
 * Messages handed to the thread that have not committed, in the order of handing. Turns usually end in that order, so
 * the searched message is nearly always the first. Shelved ones are kept apart: their turns are open and take no place.
 */
class Handed<Owner> {
  /** The message that was handed first. To be read only. */
  first: Envelope<Owner> | undefined
  /** The others, in the order of handing. */
  #others = new Queue<Envelope<Owner>>()
  /** Number of messages that are not shelved. To be read only. */
  size = 0
  /** Messages whose turns are shelved, by turn. */
  readonly shelved = new Map<number, Envelope<Owner>>()

  get isEmpty(): boolean {
    return this.size === 0 && this.shelved.size === 0
  }

  /** Number of messages with a priority other than 0, nested ones excluded. */
  ranked = 0
  /** Number of nested messages. */
  nested = 0

  add(envelope: Envelope<Owner>): void {
    if (this.first) this.#others.push(envelope)
    else this.first = envelope
    this.size += 1
    if (envelope.within) this.nested += 1
    else if (envelope.priority !== 0) this.ranked += 1
  }

  get(turn: number): Envelope<Owner> | undefined {
    if (this.first?.turn === turn) return this.first
    if (this.size > 1) {
      const other = this.#others.find((envelope) => envelope.turn === turn)
      if (other) return other
    }
    return this.shelved.size > 0 ? this.shelved.get(turn) : undefined
  }

  /** Sets a message apart whose turn waits for a person. */
  shelve(envelope: Envelope<Owner>): void {
    envelope.wasShelved = true
    if (this.delete(envelope)) this.shelved.set(envelope.turn, envelope)
  }

  /** Brings back a message that was shelved. */
  unshelve(envelope: Envelope<Owner>): void {
    if (this.shelved.delete(envelope.turn)) this.add(envelope)
  }

  delete(envelope: Envelope<Owner>): boolean {
    if (envelope === this.first) this.first = this.size > 1 ? this.#others.shift() : undefined
    else if (!this.#others.remove(envelope)) return this.shelved.delete(envelope.turn)
    this.size -= 1
    if (envelope.within) this.nested -= 1
    else if (envelope.priority !== 0) this.ranked -= 1
    return true
  }

  /** Messages that are not shelved. */
  *values(): IterableIterator<Envelope<Owner>> {
    if (this.first) yield this.first
    yield* this.#others
  }

  /** All messages, shelved ones last. */
  *all(): IterableIterator<Envelope<Owner>> {
    yield* this.values()
    yield* this.shelved.values()
  }
}

/**
 * The mailbox as one instance of an agent sees it. Each instance has its own handed messages; waiting messages are
 * shared and go to any free instance.
 */
export class Mailbox<Owner> {
  /** The messages that wait, for all instances. To be changed by this class alone. */
  readonly line: Line<Owner>
  /** Messages handed to the thread that have not committed, in the order of handing. */
  readonly handed = new Handed<Owner>()

  /**
   * Creates a mailbox. `other` is the mailbox of another instance or of a predecessor, whose waiting messages it
   * shares.
   */
  constructor(other?: Mailbox<Owner>, isShared = false) {
    this.line = other ? other.line : new Line<Owner>()
    this.line.isShared = isShared
  }

  // ---- waiting messages

  /** Messages in transit, whose senders had to ask because there was no room. */
  get parked(): Line<Owner>['parked'] {
    return this.line.parked
  }
  /** The first parked message, once its room is taken. */
  get expected(): Envelope<Owner> | undefined {
    return this.line.expected
  }
  set expected(envelope: Envelope<Owner> | undefined) {
    this.line.expected = envelope
  }
  /** True if messages of several owners may wait. */
  get isMixed(): boolean {
    return this.line.isMixed
  }
  /** Number of messages handed over but not committed, over all instances. */
  get underWay(): number {
    return this.line.underWay
  }
  get accepted(): number {
    return this.line.accepted
  }
  get handled(): number {
    return this.line.handled
  }
  get deadLettered(): number {
    return this.line.deadLettered
  }
  /** Number of messages that wait and are not handed over yet. */
  get waiting(): number {
    return this.line.waiting
  }
  get empty(): boolean {
    return this.line.underWay === 0 && this.line.waiting === 0
  }

  push(envelope: Envelope<Owner>): void {
    this.line.push(envelope)
  }
  /** Returns the next message to hand over: interrupted messages first, then by priority. */
  peek(): Envelope<Owner> | undefined {
    return this.line.next
  }
  /** Checks whether a message of that owner waits, nested ones excluded. */
  has(owner: Owner): boolean {
    return this.line.has(owner)
  }
  /** Returns the messages interrupted by a thread exit that wait for another attempt. */
  cutOff(): IterableIterator<Envelope<Owner>> {
    return this.line.cutOff()
  }
  /**
   * Returns the messages that may be dropped to make room, lowest priority first, then oldest. Messages of which an
   * attempt has begun are never dropped.
   */
  droppable(): IterableIterator<Envelope<Owner>> {
    return this.line.droppable()
  }
  /** Returns all waiting messages, in the order in which they would be handed over. */
  queued(): IterableIterator<Envelope<Owner>> {
    return this.line.queued()
  }

  /** Messages that wait to run inside an open turn of the agent. */
  get nested(): Line<Owner>['nested'] {
    return this.line.nested
  }

  /** Continues the numbers of turns of an earlier process. */
  continueFrom(turn: number): void {
    this.line.continueFrom(turn)
  }
  /** Highest number that a turn of the agent has had. */
  get lastTurn(): number {
    return this.line.lastTurn
  }
  /** Numbers the turn of a waiting message before it is handed over. */
  number(envelope: Envelope<Owner>): void {
    this.line.number(envelope)
  }
  /** Takes a message of an earlier process. `begun`: its turn was open there. */
  takeUp(envelope: Envelope<Owner>, begun: boolean): void {
    this.line.takeUp(envelope, begun)
  }

  // ---- messages of this instance

  /** Checks whether this instance has that message. */
  holds(envelope: Envelope<Owner>): boolean {
    return this.handed.get(envelope.turn) === envelope
  }

  /** Moves an envelope from waiting to handed, usually the one from `peek`, and numbers its turn. */
  hand(envelope: Envelope<Owner>): void {
    this.line.take(envelope)
    this.handed.add(envelope)
  }

  /** Removes the message of a committed turn and counts it as handled. */
  commit(turn: number): Envelope<Owner> | undefined {
    const envelope = this.handed.get(turn)
    if (envelope) this.ended(envelope)
    return envelope
  }

  /** The same for a message that it has. */
  ended(envelope: Envelope<Owner>): void {
    this.handed.delete(envelope)
    this.line.underWay -= 1
    this.line.handled += 1
  }

  /** Removes an envelope that becomes a dead letter, from the waiting messages or from this instance. */
  discard(envelope: Envelope<Owner>): boolean {
    const isHanded = this.handed.get(envelope.turn) === envelope
    const found = isHanded ? this.handed.delete(envelope) : this.line.takeOut(envelope)
    if (isHanded) this.line.underWay -= 1
    if (found) this.line.deadLettered += 1
    return found
  }

  /** Takes out a message whose turn is interrupted. `takeUp` brings it back. */
  setAside(envelope: Envelope<Owner>): void {
    if (!this.handed.delete(envelope)) return
    this.line.underWay -= 1
    this.line.accepted -= 1
  }

  /**
   * Takes back the messages of a thread that has ended. Begun messages go to the very front, messages that had not
   * begun return to their place.
   */
  giveBack(begun: readonly Envelope<Owner>[], untouched: readonly Envelope<Owner>[]): void {
    for (const envelope of begun) this.handed.delete(envelope)
    for (const envelope of untouched) this.handed.delete(envelope)
    this.line.giveBack(begun, untouched)
  }
}
