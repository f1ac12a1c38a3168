/** What waits for an agent, in the order in which it is handed over, and the counts of its mailbox. Its instances share one. */
import type { Envelope } from './envelope.ts'
import { Parked } from './parked.ts'
import { Queue } from './queue.ts'

export class Line<Owner> {
  /** Cut off by a death: they come before everything else. */
  readonly #again = new Queue<Envelope<Owner>>()
  readonly #plain = new Queue<Envelope<Owner>>()
  /** Any other priority, highest first; the same priority in order of arrival. */
  #ranked: Envelope<Owner>[] = []
  /** To run within a turn that is open: they pass everything else. */
  readonly nested = new Queue<Envelope<Owner>>()
  /** On their way, from senders that had to ask: there was no room. */
  readonly parked = new Parked<Owner>()
  /** The first of the parked, once its room is taken. */
  expected: Envelope<Owner> | undefined
  /** Messages of several owners may wait. */
  isMixed = false
  /** Several instances take from it. */
  isShared = false
  /** Handed over and not committed, to all instances. */
  underWay = 0
  accepted = 0
  handled = 0
  deadLettered = 0
  #lastTurn = 0
  /** How many wait in line of each owner: kept once somebody has asked while they are of several, until none waits. */
  #counts: Map<Owner, number> | undefined

  /** Waiting, not yet handed over. */
  get waiting(): number {
    return this.#again.length + this.#plain.length + this.#ranked.length + this.nested.length
  }

  push(envelope: Envelope<Owner>): void {
    this.accepted += 1
    if (envelope.within) return this.nested.push(envelope)
    const first = this.peek()
    this.isMixed = first !== undefined && (this.isMixed || first.run !== envelope.run)
    if (this.#counts) this.#count(envelope.run, 1)
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

  /** The next in line to hand over: what was cut off, then by priority. */
  peek(): Envelope<Owner> | undefined {
    const again = this.#again.peek()
    if (again) return again
    const ranked = this.#ranked[0]
    if (ranked && ranked.priority > 0) return ranked
    return this.#plain.peek() ?? ranked
  }

  /** Whether anything of that owner waits in line. It looks at all that wait once at most, not each time. */
  has(owner: Owner): boolean {
    if (!this.isMixed) return this.peek()?.run === owner
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

  /** Takes out what is handed over, mostly the one that `peek` gave, and numbers its turn. */
  take(envelope: Envelope<Owner>): void {
    if (this.#again.peek() === envelope) this.#again.shift()
    else if (this.#plain.peek() === envelope) this.#plain.shift()
    else this.#remove(envelope)
    if (this.#counts && !envelope.within) this.#count(envelope.run, -1)
    if (envelope.turn === 0) envelope.turn = ++this.#lastTurn
    this.underWay += 1
  }

  takeOut(envelope: Envelope<Owner>): boolean {
    const found = this.#remove(envelope)
    if (found && this.#counts && !envelope.within) this.#count(envelope.run, -1)
    return found
  }

  #remove(envelope: Envelope<Owner>): boolean {
    if (envelope.within) return this.nested.remove(envelope)
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
    this.#counts = undefined
    this.underWay -= begun.length + untouched.length
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
  }

  /** Rule 16: instances die one after the other, and what they had comes back in the order in which they were given it. */
  #putInOrder(): void {
    this.#again.sort(byTurn)
    this.#plain.sort(byTurn)
    this.#ranked.sort((a, b) => b.priority - a.priority || byTurn(a, b))
  }

  /** What a death has cut off and waits to be tried again. */
  *cutOff(): IterableIterator<Envelope<Owner>> {
    yield* this.#again
    for (const envelope of this.nested) if (envelope.attempt > 1) yield envelope
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
    yield* this.nested
    for (const envelope of this.#ranked) if (envelope.priority > 0) yield envelope
    yield* this.#plain
    for (const envelope of this.#ranked) if (envelope.priority < 0) yield envelope
  }
}

/** What was handed over before goes before what never was. */
const byTurn = (a: { turn: number }, b: { turn: number }): number => turnOrLast(a) - turnOrLast(b)
const turnOrLast = ({ turn }: { turn: number }): number => turn || Number.MAX_SAFE_INTEGER
