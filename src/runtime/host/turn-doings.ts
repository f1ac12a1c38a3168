/**
 * Keeps what the open turns of one thread do by themselves, as far as its frames tell: the steps, tools and sleeps that
 * have not ended, and when a turn last did something or was given something. That costs a message two numbers.
 */

/** Step, call of a tool, or sleep of a turn in its own thread. */
export interface OwnDoing {
  readonly kind: 'step' | 'tool' | 'sleep'
  readonly name: string
  /** Epoch ms. */
  readonly since: number
}

/**
 * Limit on the open steps that are kept of one turn, since code may begin any number at a time, and on the turns: what
 * code does behind the end of its turn is of none that ends.
 */
const MOST_OPEN = 1_000

export class TurnDoings {
  /** Open steps by turn, then by the number of the step. */
  readonly #open = new Map<number, Map<number, OwnDoing>>()
  /** Turn that has stirred last, and epoch ms at which it did. */
  #turn = 0
  #at = 0
  /** The same for other open turns. */
  readonly #others = new Map<number, number>()

  /** Notes that a turn has done something, or was given something. */
  stirs(turn: number, at: number): void {
    if (turn !== this.#turn) {
      if (this.#turn !== 0) this.#leave(this.#turn, this.#at)
      this.#at = this.#others.get(turn) ?? 0
      this.#others.delete(turn)
      this.#turn = turn
    }
    if (at > this.#at) this.#at = at
  }

  #leave(turn: number, at: number): void {
    this.#others.set(turn, at)
    if (this.#others.size <= MOST_OPEN) return
    for (const [oldest] of this.#others) return void this.#others.delete(oldest)
  }

  begins(turn: number, step: number, doing: OwnDoing): void {
    let open = this.#open.get(turn)
    if (!open) {
      open = new Map()
      this.#open.set(turn, open)
    }
    if (open.size < MOST_OPEN) open.set(step, doing)
  }

  ends(turn: number, step: number): void {
    this.#open.get(turn)?.delete(step)
  }

  /** Forgets a turn that has ended. */
  over(turn: number): void {
    if (turn === this.#turn) this.#turn = 0
    else if (this.#others.size > 0) this.#others.delete(turn)
    if (this.#open.size > 0) this.#open.delete(turn)
  }

  openIn(turn: number): Iterable<OwnDoing> {
    return this.#open.get(turn)?.values() ?? []
  }

  /** Returns the epoch ms at which the turn has last stirred; 0 if it has not since it began. */
  stirredAt(turn: number): number {
    return turn === this.#turn ? this.#at : (this.#others.get(turn) ?? 0)
  }
}
