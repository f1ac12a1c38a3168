/**
 * What turns would do by themselves, a signal of their own having ended a wait or a step being about to begin, when their
 * permits were taken while they waited: it is held until they have one again. The host is asked once for each, and its answer
 * comes by the replies, with the permit, and when no other turn of the run is at work here.
 */
/** What it needs to know of a turn. */
interface OpenTurn {
  readonly turn: number
  readonly run: number
  readonly slot: number
}

/** What it needs of the loop. */
interface Place {
  /** False: the turn's permit was taken. */
  unpark(turn: OpenTurn): boolean
  /** No other turn of its run is at work in the thread. */
  isAlone(turn: OpenTurn): boolean
  /** Writes WANTS_PERMIT. */
  ask(turn: Pick<OpenTurn, 'turn' | 'run'>): void
}

export class GoingOn {
  readonly #place: Place
  /** By turn. */
  readonly #held = new Map<number, (() => void)[]>()

  constructor(place: Place) {
    this.#place = place
  }

  /** Whether any turn is held. */
  get any(): boolean {
    return this.#held.size > 0
  }

  /** Calls `action`: now, or when the turn may go on. */
  with(turn: OpenTurn, action: () => void): void {
    if (this.#place.unpark(turn) && this.#place.isAlone(turn)) action()
    else this.#hold(turn, action)
  }

  /** Before work of the turn's own: undefined where it has a permit, else what settles when it has one again. */
  permit(turn: OpenTurn): Promise<void> | undefined {
    if (this.#place.unpark(turn)) return undefined
    return new Promise((resolve) => this.#hold(turn, resolve))
  }

  #hold(turn: OpenTurn, action: () => void): void {
    const held = this.#held.get(turn.turn)
    if (held) held.push(action)
    else {
      this.#held.set(turn.turn, [action])
      this.#place.ask(turn)
    }
  }

  /** That turn may go on, or has ended. */
  letGo(turn: number): void {
    const held = this.#held.get(turn)
    if (!held) return
    this.#held.delete(turn)
    for (const action of held) action()
  }

  /** A turn has ended without a permit: messages that were handed over with it wait for the next one. GO_ON has `turn` 0. */
  nextMessage(run: number): void {
    this.#place.ask({ run, turn: 0 })
  }
}
