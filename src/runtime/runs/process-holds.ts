/**
 * Keeps the process alive while somebody waits for the team, or work is under way in it. The threads of a team do not:
 * an idle team that was forgotten lets its process end.
 */
import type { Scheduler, Timer } from '../../clock.ts'

export class Holds {
  readonly #clock: Pick<Scheduler, 'hold'>
  #open = 0
  #hold: Timer | undefined

  constructor(clock: Pick<Scheduler, 'hold'>) {
    this.#clock = clock
  }

  /** Begins a hold. Each `begin` needs an `end`. */
  begin(): void {
    this.#open += 1
    this.#hold ??= this.#clock.hold()
  }

  end(): void {
    this.#open -= 1
    if (this.#open > 0) return
    this.#hold?.cancel()
    this.#hold = undefined
  }

  /** Holds the process while that work is under way. */
  until<T>(work: Promise<T>): Promise<T> {
    this.begin()
    const done = () => this.end()
    work.then(done, done)
    return work
  }
}
