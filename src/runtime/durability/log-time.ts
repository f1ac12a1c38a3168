/**
 * Time of a log: that of its records, as long as these are no more than a day apart. Runs are forgotten by their age in
 * it, so that a clock that is wrong for a while makes the log forget none. A clock that has jumped ahead is believed
 * when it has gone on from there for an hour.
 */
const DAY_MS = 86_400_000
const CALM_MS = 3_600_000

/** Jump of the clock that is not believed yet, in epoch ms. */
export interface Jump {
  /** Time of the log before it. */
  readonly from: number
  readonly to: number
}

export class LogTime {
  #now = 0
  #jump: (Jump & { last: number }) | undefined

  /** Notes the time of a record, or of the clock, and returns the time of the log. */
  see(at: number): number {
    if (this.#now === 0 || at <= this.#now + DAY_MS) this.believe(at)
    else if (!this.#jump || Math.abs(at - this.#jump.last) > DAY_MS) this.#jump = { from: this.#now, to: at, last: at }
    else if (at - this.#jump.to < CALM_MS) this.#jump.last = at
    else this.believe(at)
    return this.#now
  }

  /** Notes a time that is right. */
  believe(at: number): void {
    this.#now = Math.max(this.#now, at)
    this.#jump = undefined
  }

  get now(): number {
    return this.#now
  }

  get jump(): Jump | undefined {
    return this.#jump
  }
}
