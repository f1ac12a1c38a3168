/**
 * Steps that may not run twice, in a team with a durable log: each begins when the host has written that it does. After
 * the death of the process the log then tells whether it may have happened.
 */

/** Fields that identify a step. */
interface StepPlace {
  readonly turn: number
  readonly step: number
}

export class WrittenSteps {
  /** Functions that let a step begin. */
  readonly #waiting = new Map<string, () => void>()
  readonly #flush: () => void

  /** `flush` wakes the host for what was written to it. */
  constructor(flush: () => void) {
    this.#flush = flush
  }

  /** Resolves when the host has written that the step begins. */
  wait(place: StepPlace): Promise<void> {
    const written = new Promise<void>((resolve) => this.#waiting.set(keyOf(place), resolve))
    this.#flush()
    return written
  }

  /** Notes that the host has written it. The step may be one of an earlier life. */
  written(place: StepPlace): void {
    const begin = this.#waiting.get(keyOf(place))
    this.#waiting.delete(keyOf(place))
    begin?.()
  }

  /** Lets go of the steps of a turn that has ended: they find that, and do not begin. */
  ended(turn: number): void {
    if (this.#waiting.size === 0) return
    for (const [key, begin] of this.#waiting) {
      if (!key.startsWith(`${turn} `)) continue
      this.#waiting.delete(key)
      begin()
    }
  }
}

const keyOf = ({ turn, step }: StepPlace): string => `${turn} ${step}`
