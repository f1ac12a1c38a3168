/**
 * Which turns of a thread do nothing but wait for others: the host may take their permits while they do. Each has a word of
 * its own, so that one that works does not hide the others. A thread whose turns need no permit says nothing.
 *
 * A turn whose permit was taken goes on when the host has given it one back. What it waits for comes no sooner; what would
 * let it go on by itself, a signal of its own, asks for the permit and waits for that.
 */
import { isSurely, MAX_CONCURRENCY, PARKED, PERHAPS, parkedWord, SURELY } from '../../mailbox/window.ts'
import type { Link } from './link.ts'

/** What it needs to know of a turn. */
interface OpenTurn {
  readonly slot: number
  readonly run: number
}

const UNUSED = -1
/** Of a turn that nobody asks about. */
export const NO_SLOT = -1

export class Parking {
  readonly #words: Int32Array
  readonly #link: Link
  /** What this thread has put into each word; UNUSED where no turn has it. */
  readonly #told: number[]
  /** Those that went on without a permit, and have none yet. */
  readonly #without = new Set<number>()

  /** `concurrency`: how many turns may be open. */
  constructor(words: Int32Array, concurrency: number, link: Link) {
    this.#words = words
    this.#link = link
    this.#told = concurrency > MAX_CONCURRENCY ? [] : new Array<number>(concurrency).fill(UNUSED)
  }

  /** Whether anybody asks. */
  get isAsked(): boolean {
    return this.#told.length > 0
  }

  /** The place of a turn that begins. */
  open(): number {
    const slot = this.#told.indexOf(UNUSED)
    if (slot >= 0) this.#told[slot] = 0
    return slot
  }

  /** Before the host can read that the turn has ended. False: it has ended without a permit. */
  close({ slot }: OpenTurn): boolean {
    if (slot === NO_SLOT) return true
    this.#tell(slot, 0)
    this.#told[slot] = UNUSED
    return this.#without.size === 0 || !this.#without.delete(slot)
  }

  /** The turn waits for others alone: its permit may be taken while it does. */
  park({ slot, run }: OpenTurn): void {
    if (slot === NO_SLOT) return
    this.#tell(slot, parkedWord(run, SURELY))
    if (this.#link.permitsWanted) this.#link.wakeHost()
  }

  /** The turn has waits; whether it has nothing else is not looked at until somebody wants a permit. True: somebody does. */
  mayPark({ slot, run }: OpenTurn): boolean {
    if (slot === NO_SLOT) return false
    this.#tell(slot, parkedWord(run, PERHAPS))
    return this.#link.permitsWanted
  }

  /** Before a verb, and before a wait ends by itself: the turn goes on. False: its permit was taken meanwhile. */
  unpark({ slot }: OpenTurn): boolean {
    if (slot === NO_SLOT) return true
    this.#tell(slot, 0)
    return this.#without.size === 0 || !this.#without.has(slot)
  }

  /** Before anything for the turn is taken from the replies: with that it has a permit, and goes on. */
  regain({ slot }: OpenTurn): void {
    if (slot === NO_SLOT) return
    this.#tell(slot, 0)
    if (this.#without.size > 0) this.#without.delete(slot)
  }

  #tell(slot: number, word: number): void {
    const told = this.#told[slot]!
    if (told === word) return
    this.#told[slot] = word
    const at = PARKED + slot
    if (!isSurely(told)) Atomics.store(this.#words, at, word)
    else if (Atomics.exchange(this.#words, at, word) !== told) this.#without.add(slot)
  }
}
