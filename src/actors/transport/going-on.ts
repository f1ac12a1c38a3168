/**
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
  readonly slot: number
}

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

  constructor(place: Place) {
    this.#place = place
  }

  /** True if the actions of any turn are held. */
  get any(): boolean {
    return this.#held.size > 0
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
      this.#place.ask(turn)
    }
  }

  /** Runs the held actions of a turn that may continue or has ended. */
  letGo(turn: number): void {
    const held = this.#held.get(turn)
    if (!held) return
    this.#held.delete(turn)
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
