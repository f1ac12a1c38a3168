/**
 * The messages that wait for an agent, in the order of handing over, and the counts of its mailbox. All instances of
 * the agent share one line.
 */
import type { Envelope } from './envelope.ts'
import { Parked } from './parked.ts'
import { Queue } from './queue.ts'

export class Line<Owner> {
  /** Messages interrupted by a thread exit. They come before all others. */
  readonly #again = new Queue<Envelope<Owner>>()
  readonly #plain = new Queue<Envelope<Owner>>()
  /** Messages of any other priority, highest first; the same priority in order of arrival. */
  #ranked: Envelope<Owner>[] = []
  /** Messages to run inside an open turn. They overtake all others. */
  readonly nested = new Queue<Envelope<Owner>>()
  /** Messages in transit, whose senders had to ask because there was no room. */
  readonly parked = new Parked<Owner>()
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
    this.isMixed = first !== undefined && (this.isMixed || first.run !== envelope.run)
    if (this.#counts) this.#count(envelope.run, 1)
    if (envelope.priority === 0) this.#plain.push(envelope)
    else this.#rank(envelope)
    if (!first) this.next = envelope
    else if (envelope.priority !== 0 || first.priority < 0) this.next = this.peek()
  }

  /** Highest number that a turn has had. */
  get lastTurn(): number {
    return this.#lastTurn
  }

  /** Continues the numbers of turns of an earlier process. */
  continueFrom(turn: number): void {
    this.#lastTurn = Math.max(this.#lastTurn, turn)
  }

  /** Takes a message of an earlier process, in the order of the log. `begun`: its turn was open there. */
  takeUp(envelope: Envelope<Owner>, begun: boolean): void {
    if (!begun || envelope.within) return this.push(envelope)
    this.accepted += 1
    this.waiting += 1
    this.isMixed = true
    this.#counts = undefined
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
    if (envelope.priority === 0 && this.#again.length === 0 && this.#plain.peek() === envelope) {
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

  takeOut(envelope: Envelope<Owner>): boolean {
    const found = this.#remove(envelope)
    if (found && this.#counts && !envelope.within) this.#count(envelope.run, -1)
    return found
  }

  #remove(envelope: Envelope<Owner>): boolean {
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
