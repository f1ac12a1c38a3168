/**
 * The turns of a thread that are known to wait for others alone. The host asks about them while an agent gets its
 * messages one at a time (rule 7): a turn that waits does not count then. It counts again from the next frame on that
 * it is given.
 */
export class QuietTurns {
  /** Numbers of the questions that are open, by turn. */
  readonly #asked = new Map<number, number>()
  readonly #quiet = new Set<number>()

  /** True if any turn is quiet, or was asked. */
  any = false

  has(turn: number): boolean {
    return this.#quiet.has(turn)
  }

  /** Checks whether the turn has been asked, and was given nothing since. */
  isKnown(turn: number): boolean {
    return this.#quiet.has(turn) || this.#asked.has(turn)
  }

  ask(turn: number, question: number): void {
    this.#asked.set(turn, question)
    this.any = true
  }

  /**
   * Notes the answer of a turn that waits, to that question or to a later one of others. Returns false if the turn was
   * given something since it was asked.
   */
  answered(turn: number, question: number): boolean {
    const asked = this.#asked.get(turn)
    if (asked === undefined || question < asked) return false
    this.#asked.delete(turn)
    this.#quiet.add(turn)
    return true
  }

  /** Notes that the turn goes on, or has ended. */
  goesOn(turn: number): void {
    this.#asked.delete(turn)
    this.#quiet.delete(turn)
    this.any = this.#asked.size + this.#quiet.size > 0
  }
}
