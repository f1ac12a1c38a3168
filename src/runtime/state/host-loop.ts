/** Decides when the host reads what its threads have written: at once, or in a later turn of the event loop. */
import type { Scheduler } from '../../clock.ts'

export interface HostLoopNeeds {
  readonly clock: Pick<Scheduler, 'defer'>
  /** Reads what threads have written. True: there is more than it took in this turn of the event loop. */
  look(): boolean
  /** `isTelling`: true while the readers of the journal are called. That must end before the next look. */
  readonly journal: { readonly isTelling: boolean }
}

export class HostLoop {
  readonly #needs: HostLoopNeeds
  /** True when the team is closed: there is nothing to read any more. */
  closed = false
  /** Number of times that the host has looked. */
  ticks = 0
  #isLooking = false
  #isScheduled = false

  constructor(needs: HostLoopNeeds) {
    this.#needs = needs
  }

  /** Looks now, or as soon as the present look is over, because something may be there. */
  kick(): void {
    if (this.#needs.journal.isTelling) this.wake()
    else if (!this.#isLooking) this.#look()
  }

  /** Looks in a later turn of the event loop. */
  wake(): void {
    if (this.#isLooking || this.#isScheduled || this.closed) return // the present look schedules the next one
    this.#isScheduled = true
    this.#needs.clock.defer(() => {
      this.#isScheduled = false
      if (!this.#isLooking) this.#look()
    })
  }

  #look(): void {
    this.#isLooking = true
    this.ticks += 1
    let hasMore = true // also of a look that throws: threads do not call a host that was awake when it broke off
    try {
      hasMore = this.#needs.look()
    } finally {
      this.#isLooking = false
      if (hasMore) this.wake()
    }
  }
}
