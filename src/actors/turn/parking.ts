/**
 * Marks the turns of a thread that only wait for others, so that the host may take their permits meanwhile. Each turn
 * has a shared word of its own, so that an executing turn does not hide the others. A thread whose turns need no permit
 * marks nothing.
 *
 * A turn whose permit was taken continues once the host has given it one again. Replies to it arrive no earlier. An
 * event of its own, such as its signal, asks for the permit and waits.
 */
import { isSurely, MAX_CONCURRENCY, mostOpenTurns, PARKED, parkedWord, SURELY } from '../../mailbox/channel.ts'
import type { Link } from './link.ts'

/*
 * Holds actions of turns whose permits were taken while they waited, until those turns have a permit again. Such an
 * action follows when the turn's own signal ends a wait, or when a step is about to begin.
 *
 * The host is asked once per turn. Its answer (GO_ON) arrives among the replies together with the permit, when no other
 * turn of the run executes in this thread.
 */

/** Fields that identify a turn and its slot. */
interface OpenTurn {
  readonly turn: number
  readonly run: number
  slot: number
}

type ParkableTurn = Omit<OpenTurn, 'turn'>

/** The parts of the loop that are needed here. */
interface Place {
  /** Marks the turn as executing. Returns false if its permit was taken. */
  unpark(turn: OpenTurn): boolean
  /** Checks that no other turn of the same run executes in the thread. */
  isAlone(turn: OpenTurn): boolean
  /** Writes a WANTS_PERMIT frame. */
  ask(turn: Pick<OpenTurn, 'turn' | 'run'>): void
}

export class GoingOn {
  readonly #place: Place
  /** Held actions by turn. */
  readonly #held = new Map<number, (() => void)[]>()
  /** True if the actions of any turn are held. To be read only. */
  any = false

  constructor(place: Place) {
    this.#place = place
  }

  /** Calls `action` now, or as soon as the turn may continue. */
  with(turn: OpenTurn, action: () => void): void {
    if (this.#place.unpark(turn) && this.#place.isAlone(turn)) action()
    else this.#hold(turn, action)
  }

  /**
   * Requests a permit before the turn begins own work. Returns undefined if the turn has one, otherwise a promise that
   * resolves when it has one again.
   */
  permit(turn: OpenTurn): Promise<void> | undefined {
    if (this.#place.unpark(turn)) return undefined
    return new Promise((resolve) => this.#hold(turn, resolve))
  }

  #hold(turn: OpenTurn, action: () => void): void {
    const held = this.#held.get(turn.turn)
    if (held) held.push(action)
    else {
      this.#held.set(turn.turn, [action])
      this.any = true
      this.#place.ask(turn)
    }
  }

  /** Runs the held actions of a turn that may continue or has ended. */
  letGo(turn: number): void {
    const held = this.#held.get(turn)
    if (!held) return
    this.#held.delete(turn)
    this.any = this.#held.size > 0
    for (const action of held) action()
  }

  /**
   * Asks for a permit after a turn ended without one, because messages handed over with it wait. The GO_ON has `turn`
   * 0.
   */
  nextMessage(run: number): void {
    this.#place.ask({ run, turn: 0 })
  }
}

const UNUSED = -1
/** Slot of a turn that was never parked, or for which parking is not tracked. Most turns get no other. */
export const NO_SLOT = -1
/** Slot of a suspended turn. */
const SUSPENDED = -2

export class Parking {
  readonly #words: Int32Array
  readonly #link: Link
  /** The value this thread has written into each word; UNUSED if no turn has the slot. */
  readonly #told: number[]
  /** Slots of turns that continued without a permit and have none yet. */
  readonly #without = new Set<number>()
  /** True if the turns of this thread need permits. To be read only. */
  readonly isAsked: boolean
  /**
   * Number of turns that are marked, or have lost their permit. While it is 0 no turn has to be unparked. To be read
   * only.
   */
  marked = 0

  /** Creates one word per open turn; `concurrency` is the number of places. */
  constructor(words: Int32Array, concurrency: number, link: Link) {
    this.#words = words
    this.#link = link
    this.#told = concurrency > MAX_CONCURRENCY ? [] : new Array<number>(mostOpenTurns(concurrency)).fill(UNUSED)
    this.isAsked = this.#told.length > 0
  }

  /** Returns the slot of a turn, which it has from now on; turns within it share that. */
  slotOf(turn: ParkableTurn): number {
    if (turn.slot !== NO_SLOT) return turn.slot
    turn.slot = this.#told.indexOf(UNUSED)
    if (turn.slot >= 0) this.#told[turn.slot] = 0
    return turn.slot
  }

  /**
   * Frees the turn's slot, if it has one. Call it before the host can read the turn's end. Returns false if the turn
   * ended without a permit.
   */
  close({ slot }: ParkableTurn): boolean {
    if (slot < 0) return true
    if (this.#told[slot] !== 0) this.#tell(slot, 0)
    this.#told[slot] = UNUSED
    return this.#without.size === 0 || !this.#regained(slot)
  }

  /** Marks that the turn only waits for others, so that the host may take its permit. */
  park(turn: ParkableTurn): void {
    const slot = this.slotOf(turn)
    if (slot < 0) return
    this.#tell(slot, parkedWord(turn.run, SURELY))
    if (this.#link.arePermitsWanted()) this.#link.wakeHost()
  }

  /**
   * Marks that the turn continues: before a verb, or before a wait ends by itself. Returns false if its permit was
   * taken.
   */
  unpark({ slot }: ParkableTurn): boolean {
    if (slot < 0) return slot === NO_SLOT
    this.#tell(slot, 0)
    return this.#without.size === 0 || !this.#without.has(slot)
  }

  /**
   * Marks that the turn has a permit and continues. Call it before a reply for the turn is taken, since the reply
   * brings the permit.
   */
  regain({ slot }: ParkableTurn): void {
    if (slot < 0) return
    this.#tell(slot, 0)
    if (this.#without.size > 0) this.#regained(slot)
  }

  /** Frees the slot of a turn that waits for a person. Its permit is taken; what it does by itself asks for one. */
  suspend(turn: ParkableTurn): void {
    if (!this.isAsked || turn.slot === SUSPENDED) return
    if (turn.slot >= 0) {
      this.#tell(turn.slot, 0)
      this.#told[turn.slot] = UNUSED
      this.#regained(turn.slot)
    }
    turn.slot = SUSPENDED
  }

  /** Lets a suspended turn be parked again: it has a permit. */
  resume(turn: ParkableTurn): void {
    if (turn.slot === SUSPENDED) turn.slot = NO_SLOT
  }

  #tell(slot: number, word: number): void {
    const told = this.#told[slot]!
    if (told === word) return
    this.#told[slot] = word
    if (word === 0) this.marked -= 1
    else if (told === 0) this.marked += 1
    const at = PARKED + slot
    if (!isSurely(told)) Atomics.store(this.#words, at, word)
    else if (Atomics.exchange(this.#words, at, word) !== told) this.#lost(slot)
  }
  #lost(slot: number): void {
    if (!this.#without.has(slot)) this.marked += 1
    this.#without.add(slot)
  }

  /** Returns true if the turn was without a permit. */
  #regained(slot: number): boolean {
    if (!this.#without.delete(slot)) return false
    this.marked -= 1
    return true
  }
}
