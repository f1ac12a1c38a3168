/**
 * Keeps the process alive while somebody waits for the team, or work is under way in it. Its threads do not: a team that is idle
 * and was forgotten lets its process end.
 */
import type { Scheduler, Timer } from '../../clock.ts'

export class Holds {
  readonly #clock: Pick<Scheduler, 'hold'>
  #open = 0
  #hold: Timer | undefined

  constructor(clock: Pick<Scheduler, 'hold'>) {
    this.#clock = clock
  }

  /** Each has its `end`. */
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

  /** While that is under way. */
  until<T>(work: Promise<T>): Promise<T> {
    this.begin()
    const done = () => this.end()
    work.then(done, done)
    return work
  }
}
