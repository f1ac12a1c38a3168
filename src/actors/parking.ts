/**
 * Which turns of a thread do nothing but wait for others: the host may take their permits while they do. Each has a word of
 * its own, so that one that works does not hide the others. A thread whose turns need no permit says nothing.
 */
import { MAX_CONCURRENCY, PARKED, PERHAPS, parkedWord, SURELY } from '../mailbox/window.ts'
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
  /** What stands in each word; UNUSED where no turn has it. */
  readonly #told: number[]

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

  /** Before the host can read that the turn has ended. */
  close({ slot }: OpenTurn): void {
    if (slot === NO_SLOT) return
    this.#tell(slot, 0)
    this.#told[slot] = UNUSED
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

  /** Before anything for the turn is taken from the replies, and before a verb: it goes on. */
  unpark({ slot }: OpenTurn): void {
    if (slot !== NO_SLOT) this.#tell(slot, 0)
  }

  #tell(slot: number, word: number): void {
    if (this.#told[slot] === word) return
    this.#told[slot] = word
    Atomics.store(this.#words, PARKED + slot, word)
  }
}
