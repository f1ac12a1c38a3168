/**
 * Finds turns whose code has changed since an earlier process began them: all that such a turn has open is held back
 * (turn/hold.ts), and nothing else in it can call back.
 */
import type { Timer } from '../../clock.ts'
import type { Turn } from '../turn/turn.ts'

/**
 * Time after which a turn counts as idle although that cannot be known: it may wait for a timer or a socket of its own.
 */
const UNKNOWN_MS = 1_000

interface Needs {
  /** Checks that the turn has no open work of its own in this thread. Returns false also if that is not known. */
  isQuiet(turn: Turn): boolean
  /** Calls `judge` once the event loop has turned. */
  later(): void
  timer(ms: number, task: () => void): Timer
  /** Called once for each turn whose code has changed. */
  changed(turn: Turn): void
}

export class HeldTurns {
  readonly #needs: Needs
  /** Turns with something held back, with the timer of those that may be idle. */
  readonly #turns = new Map<Turn, Timer | undefined>()
  /** True if there are such turns. To be read only. */
  any = false

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Notes that something of the turn is held back. */
  add(turn: Turn): void {
    if (!this.#turns.has(turn)) this.#turns.set(turn, undefined)
    this.any = true
    this.#needs.later()
  }

  /** Judges all such turns; call it when the loop is idle. */
  judge(): void {
    for (const [turn, timer] of [...this.#turns]) {
      if (turn.ended || !turn.holds) this.#forget(turn)
      else if (!turn.isHeld || timer) continue
      else if (this.#needs.isQuiet(turn)) this.#changed(turn)
      else this.#turns.set(turn, this.#waits(turn))
    }
  }

  #waits(turn: Turn): Timer {
    const before = turn.start.replay?.progress
    return this.#needs.timer(UNKNOWN_MS, () => {
      this.#turns.set(turn, undefined)
      this.any = true
      if (turn.isHeld && !turn.ended && turn.start.replay?.progress === before) this.#changed(turn)
      else this.#needs.later()
    })
  }

  #changed(turn: Turn): void {
    this.#forget(turn)
    this.#needs.changed(turn)
  }

  #forget(turn: Turn): void {
    this.#turns.get(turn)?.cancel()
    this.#turns.delete(turn)
    this.any = this.#turns.size > 0
  }
}
