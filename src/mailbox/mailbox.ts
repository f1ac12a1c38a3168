/**
 * A mailbox: a queue of encoded frames in the host, which outlives the agent's thread. A frame leaves it when its turn
 * has committed, not when it was handed to the thread.
 *
 *   parked -> waiting -> handed -> gone        handed -> waiting again, when the thread dies
 *
 * The frames themselves are in the run's log; an envelope refers to them.
 */
import type { DramatisError, ErrorData } from '../shared/errors.ts'
import { type Memory, PRIORITY, senderOf, turnOf } from './frame.ts'

/** Times before the start of the process are below 0. */
export const NOT_YET = Number.NEGATIVE_INFINITY

/**
 * Fate of a turn whose code has changed since an earlier process began it: its run is interrupted, or it goes
 * on, with what is the same still answered from the log.
 */
export type OnMismatch = 'refuse' | 'continue'

/** Modes by the number that a REPLAY frame has for them. The first one: nothing is held back. */
export const MISMATCH_MODES: readonly (OnMismatch | undefined)[] = [undefined, 'refuse', 'continue']

/** The rings of a channel by which a message can arrive. */
export const RINGS = ['plain', 'ranked', 'replies'] as const

/** Tries of a turn that threw or was late (`communication.turnRetries`). */
export interface TurnRetries {
  /** Number of tries after the first that have begun. */
  count: number
  /** Why the present try is told to stop: it is late, and the next one begins when it has ended. */
  late: DramatisError | undefined
  /** Instance that had the last try which ended. */
  instance: number | undefined
}

/** A message in a mailbox. `Owner` is the host's data about its run. */
export interface Envelope<Owner> {
  readonly memory: Memory
  readonly at: number
  readonly bytes: number
  readonly run: Owner
  readonly priority: number
  /**
   * The recipient's open turn that waits for the sender's work. The message runs nested in that turn and is in no line.
   */
  within: Envelope<Owner> | undefined
  /**
   * Turn number, unique within the recipient across its threads; 0 until the message is handed over for the first time.
   */
  turn: number
  attempt: number
  /** Position in the channel of the thread that has it, to check whether it was taken. */
  ring: (typeof RINGS)[number]
  ringAt: number
  ringEnd: number
  /** Number that the log's next record had when it was handed over first; 0 until then. */
  handedSeq: number
  /** Time of arrival, for `queueTimeoutMs`. Monotonic ms, or `NOT_YET`. */
  waitsSince: number
  /** Time at which the start of this attempt was noticed. Monotonic ms, or `NOT_YET`. */
  startedAt: number
  /** Time at which the first attempt began; from then on the response timeout runs. Monotonic ms, or `NOT_YET`. */
  begunAt: number
  /** True if its turn was suspended in this attempt: it has begun, wherever the channel stands by now. */
  wasSuspended: boolean
  /** True if its start is in the log. */
  announced: boolean
  /** True if its caller has withdrawn it. It is skipped, or its turn is aborted. */
  cancelled: boolean
  /** True if another agent has taken over the duty to answer. The result of this turn then answers no request. */
  handedOff: boolean
  /** Set if an earlier process began its turn: what the log does not have is held back in the next attempt. */
  onMismatch?: OnMismatch
  /** Number of its attempts that the host ended for the benefit of other messages. */
  uncharged: number
  /** Causes of the thread exits that ended its earlier attempts. */
  deaths: { error: ErrorData; epoch: number; alone: boolean; fingerprint: string | null }[] | null
  /** Null until its turn is tried again. */
  retries: TurnRetries | null
}

/** Returns the envelope of a message that has just come: it is not handed over yet. */
export function envelopeOf<Owner>(run: Owner, memory: Memory, at: number): Envelope<Owner> {
  return {
    memory,
    at,
    bytes: memory.i32[at >> 2]!,
    run,
    priority: memory.i32[(at >> 2) + PRIORITY]!,
    within: undefined,
    turn: 0,
    attempt: 1,
    ring: 'plain',
    ringAt: 0,
    ringEnd: 0,
    handedSeq: 0,
    waitsSince: NOT_YET,
    startedAt: NOT_YET,
    begunAt: NOT_YET,
    wasSuspended: false,
    announced: false,
    cancelled: false,
    handedOff: false,
    uncharged: 0,
    deaths: null,
    retries: null,
  }
}

/** First-in-first-out queue with amortized constant cost. */
class Queue<T> {
  #items: T[] = []
  #head = 0

  /** To be read only. A field, since it is asked for more often than anything else. */
  length = 0

  push(item: T): void {
    this.#items.push(item)
    this.length += 1
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#head += 1
    this.length -= 1
    if (this.length === 0) {
      this.#items.length = 0
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
    this.length = this.#items.length
  }

  sort(compare: (a: T, b: T) => number): void {
    this.#items = this.#items.slice(this.#head).sort(compare)
    this.#head = 0
  }

  remove(item: T): boolean {
    if (this.#items[this.#head] === item) {
      this.shift()
      return true
    }
    const at = this.#items.indexOf(item, this.#head)
    if (at < 0) return false
    this.#items.splice(at, 1)
    this.length -= 1
    return true
  }

  find(fits: (item: T) => boolean): T | undefined {
    for (let i = this.#head; i < this.#items.length; i++) if (fits(this.#items[i]!)) return this.#items[i]
    return undefined
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i]!
  }
}

/* Messages that wait for room in a full mailbox, in order of arrival. The queue also knows their owners and senders. */

class Pending<Owner> {
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

  *senders(): IterableIterator<number> {
    for (const key of this.#lines.keys()) yield Math.floor(key / 2 ** 32)
  }

  [Symbol.iterator](): IterableIterator<Envelope<Owner>> {
    return this.#queue[Symbol.iterator]()
  }
}

const lineOf = ({ memory, at }: Envelope<unknown>): number =>
  senderOf(memory, at) * 2 ** 32 + (turnOf(memory, at) >>> 0)

/*
 * The messages that wait for an agent, in the order of handing over, and the counts of its mailbox. All instances of
 * the agent share one line.
 */

export class Line<Owner> {
  /** Messages interrupted by a thread exit. They come before all others. */
  readonly #again = new Queue<Envelope<Owner>>()
  readonly #plain = new Queue<Envelope<Owner>>()
  /** Messages of any other priority, highest first; the same priority in order of arrival. */
  #ranked: Envelope<Owner>[] = []
  /** Messages to run inside an open turn. They overtake all others. */
  readonly nested = new Queue<Envelope<Owner>>()
  /** Messages in transit, whose senders had to ask because there was no room. */
  readonly pending = new Pending<Owner>()
  /** The first parked message, once its room is taken. */
  expected: Envelope<Owner> | undefined
  /** True if messages of several owners may wait. */
  isMixed = false
  /** True if several instances take messages from the line. */
  isShared = false
  /** Number of messages handed over but not committed, over all instances. */
  underWay = 0
  accepted = 0
  handled = 0
  deadLettered = 0
  /** Number of messages that wait and are not handed over yet. To be read only. */
  waiting = 0
  /** The next message to hand over, nested ones excluded: see `peek`. To be read only. */
  next: Envelope<Owner> | undefined
  /** True while the next message is the only one and stands in no queue, as most messages do. */
  #isAlone = false
  #lastTurn = 0
  /**
   * Number of waiting messages per owner, nested ones excluded. Counted once `has` is called while several owners may
   * have messages; discarded when the line is no longer mixed.
   */
  #counts: Map<Owner, number> | undefined

  push(envelope: Envelope<Owner>): void {
    this.accepted += 1
    this.waiting += 1
    if (envelope.within) return this.nested.push(envelope)
    const first = this.next
    if (!first) {
      this.isMixed = false
      this.#counts = undefined
      this.next = envelope
      this.#isAlone = true
      return
    }
    if (this.#isAlone) this.#queue()
    this.isMixed ||= first.run !== envelope.run
    if (this.#counts) this.#count(envelope.run, 1)
    if (envelope.priority === 0) this.#plain.push(envelope)
    else this.#rank(envelope)
    if (envelope.priority !== 0 || first.priority < 0) this.next = this.peek()
  }

  /** Puts a message that is the only one into its queue. */
  #queue(): void {
    const { next } = this
    this.#isAlone = false
    if (next?.priority === 0) this.#plain.push(next)
    else if (next) this.#rank(next)
  }

  get lastTurn(): number {
    return this.#lastTurn
  }

  continueFrom(turn: number): void {
    this.#lastTurn = Math.max(this.#lastTurn, turn)
  }

  /** Takes a message of an earlier process, in the order of the log. `begun`: its turn was open there. */
  restore(envelope: Envelope<Owner>, begun: boolean): void {
    if (!begun || envelope.within) return this.push(envelope)
    this.accepted += 1
    this.waiting += 1
    this.isMixed = true
    this.#counts = undefined
    if (this.#isAlone) this.#queue()
    this.#again.push(envelope)
    this.next = this.peek()
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

  /** Returns the next message to hand over: interrupted messages first, then by priority. */
  peek(): Envelope<Owner> | undefined {
    const again = this.#again.peek()
    if (again) return again
    const ranked = this.#ranked[0]
    if (ranked && ranked.priority > 0) return ranked
    return this.#plain.peek() ?? ranked
  }

  /**
   * Checks whether a message of that owner waits, nested ones excluded. Walks all waiting messages at most once, not in
   * each call.
   */
  has(owner: Owner): boolean {
    if (!this.isMixed) return this.next?.run === owner
    this.#counts ??= this.#countAll()
    return this.#counts.has(owner)
  }

  #countAll(): Map<Owner, number> {
    const counts = new Map<Owner, number>()
    for (const { run, within } of this.queued()) if (!within) counts.set(run, (counts.get(run) ?? 0) + 1)
    return counts
  }

  #count(owner: Owner, by: 1 | -1): void {
    if (!this.isMixed) {
      this.#counts = undefined
      return
    }
    const count = (this.#counts?.get(owner) ?? 0) + by
    if (count > 0) this.#counts?.set(owner, count)
    else this.#counts?.delete(owner)
  }

  /** Removes a message that is handed over, usually the one from `peek`, and numbers its turn. */
  take(envelope: Envelope<Owner>): void {
    if (this.#isAlone && envelope === this.next) {
      this.#isAlone = false
      this.next = undefined
      this.waiting -= 1
    } else if (envelope.priority === 0 && this.#again.length === 0 && this.#plain.peek() === envelope) {
      this.#plain.shift()
      this.waiting -= 1
      this.next = this.#plain.length + this.#ranked.length === 0 ? undefined : this.peek()
    } else this.#remove(envelope)
    if (this.#counts && !envelope.within) this.#count(envelope.run, -1)
    if (envelope.turn === 0) envelope.turn = ++this.#lastTurn
    this.underWay += 1
  }

  /** Numbers the turn of a message before it is handed over. */
  number(envelope: Envelope<Owner>): void {
    if (envelope.turn === 0) envelope.turn = ++this.#lastTurn
  }

  remove(envelope: Envelope<Owner>): boolean {
    const found = this.#remove(envelope)
    if (found && this.#counts && !envelope.within) this.#count(envelope.run, -1)
    return found
  }

  #remove(envelope: Envelope<Owner>): boolean {
    if (this.#isAlone) this.#queue()
    const found = envelope.within
      ? this.nested.remove(envelope)
      : (envelope.priority !== 0 && this.#removeRanked(envelope)) ||
        this.#plain.remove(envelope) ||
        this.#again.remove(envelope)
    if (found) this.waiting -= 1
    if (found && envelope === this.next) this.next = this.peek()
    return found
  }

  #removeRanked(envelope: Envelope<Owner>): boolean {
    const at = this.#ranked.indexOf(envelope)
    if (at < 0) return false
    this.#ranked.splice(at, 1)
    return true
  }

  /**
   * Takes back the messages of a thread that has ended. Begun messages go to the very front, messages that had not
   * begun return to their place.
   */
  giveBack(begun: readonly Envelope<Owner>[], untouched: readonly Envelope<Owner>[]): void {
    this.isMixed = true
    this.#counts = undefined
    if (this.#isAlone) this.#queue()
    this.underWay -= begun.length + untouched.length
    this.waiting += begun.length + untouched.length
    this.nested.unshift([...begun, ...untouched].filter(({ within }) => within))
    const inLine = untouched.filter(({ within }) => !within)
    const fresh = inLine.filter((envelope) => envelope.attempt === 1)
    this.#again.unshift([
      ...begun.filter(({ within }) => !within),
      ...inLine.filter((envelope) => envelope.attempt > 1),
    ])
    this.#plain.unshift(fresh.filter((envelope) => envelope.priority === 0))
    const ranked = fresh.filter((envelope) => envelope.priority !== 0)
    this.#ranked = [...ranked, ...this.#ranked].sort((a, b) => b.priority - a.priority) // stable
    if (this.isShared) this.#putInOrder()
    this.next = this.peek()
  }

  /** Restores the order in which messages were handed over (rule 16), since instances die one after the other. */
  #putInOrder(): void {
    this.#again.sort(byTurn)
    this.#plain.sort(byTurn)
    this.#ranked.sort((a, b) => b.priority - a.priority || byTurn(a, b))
  }

  /** Returns the messages interrupted by a thread exit that wait for another attempt. */
  *cutOff(): IterableIterator<Envelope<Owner>> {
    yield* this.#again
    for (const envelope of this.nested) if (envelope.attempt > 1) yield envelope
  }

  /**
   * Returns the messages that may be dropped to make room, lowest priority first, then oldest. Messages of which an
   * attempt has begun are never dropped.
   */
  *droppable(): IterableIterator<Envelope<Owner>> {
    if (this.#isAlone) this.#queue()
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

  /** Returns all waiting messages, in the order in which they would be handed over. */
  *queued(): IterableIterator<Envelope<Owner>> {
    if (this.#isAlone) this.#queue()
    yield* this.#again
    yield* this.nested
    for (const envelope of this.#ranked) if (envelope.priority > 0) yield envelope
    yield* this.#plain
    for (const envelope of this.#ranked) if (envelope.priority < 0) yield envelope
  }
}

/** Orders by turn; messages handed over before come before those that never were. */
const byTurn = (a: { turn: number }, b: { turn: number }): number => turnOrLast(a) - turnOrLast(b)
const turnOrLast = ({ turn }: { turn: number }): number => turn || Number.MAX_SAFE_INTEGER

/**
 * Messages handed to the thread that have not committed, in the order of handing. Turns usually end in that order, so
 * the searched message is nearly always the first. Suspended ones are kept apart: their turns are open and take no
 * place.
 */
class Handed<Owner> {
  /** The message that was handed first. To be read only. */
  first: Envelope<Owner> | undefined
  /** The others, in the order of handing. */
  #others = new Queue<Envelope<Owner>>()
  /** Number of messages that are not suspended. To be read only. */
  size = 0
  /** Messages whose turns are suspended, by turn. */
  readonly suspended = new Map<number, Envelope<Owner>>()

  get isEmpty(): boolean {
    return this.size === 0 && this.suspended.size === 0
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
    return this.suspended.size > 0 ? this.suspended.get(turn) : undefined
  }

  /** Sets a message apart whose turn waits for a person. */
  suspend(envelope: Envelope<Owner>): void {
    envelope.wasSuspended = true
    if (this.delete(envelope)) this.suspended.set(envelope.turn, envelope)
  }

  /** Brings back a message that was suspended. */
  resume(envelope: Envelope<Owner>): void {
    if (this.suspended.delete(envelope.turn)) this.add(envelope)
  }

  delete(envelope: Envelope<Owner>): boolean {
    if (envelope === this.first) this.first = this.size > 1 ? this.#others.shift() : undefined
    else if (!this.#others.remove(envelope)) return this.suspended.delete(envelope.turn)
    this.size -= 1
    if (envelope.within) this.nested -= 1
    else if (envelope.priority !== 0) this.ranked -= 1
    return true
  }

  /** Messages that are not suspended. */
  *values(): IterableIterator<Envelope<Owner>> {
    if (this.first) yield this.first
    yield* this.#others
  }

  /** All messages, suspended ones last. */
  *all(): IterableIterator<Envelope<Owner>> {
    yield* this.values()
    yield* this.suspended.values()
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
  get pending(): Line<Owner>['pending'] {
    return this.line.pending
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
  restore(envelope: Envelope<Owner>, begun: boolean): void {
    this.line.restore(envelope, begun)
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
    const found = isHanded ? this.handed.delete(envelope) : this.line.remove(envelope)
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
