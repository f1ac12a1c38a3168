/** When the host looks at what its threads have written: at once, or in a later turn of the event loop. */
import type { Scheduler } from '../../clock.ts'

export interface HostLoopNeeds {
  readonly clock: Pick<Scheduler, 'defer'>
  /** Looks; true: there is more than it took in this turn of the event loop. */
  look(): boolean
  /** Readers of records are being told, which has to come to its end first. */
  isTelling(): boolean
}

export class HostLoop {
  readonly #needs: HostLoopNeeds
  /** The team is closed: there is nothing to look at any more. */
  closed = false
  /** How often the host has looked. */
  ticks = 0
  #isLooking = false
  #isScheduled = false

  constructor(needs: HostLoopNeeds) {
    this.#needs = needs
  }

  /** Something may be there: look now, or as soon as the present look is over. */
  kick(): void {
    if (this.#needs.isTelling()) this.wake()
    else if (!this.#isLooking) this.#look()
  }

  /** Look in a later turn of the event loop. */
  wake(): void {
    if (this.#isLooking || this.#isScheduled || this.closed) return // the present look goes on by itself
    this.#isScheduled = true
    this.#needs.clock.defer(() => {
      this.#isScheduled = false
      if (!this.#isLooking) this.#look()
    })
  }

  #look(): void {
    this.#isLooking = true
    this.ticks += 1
    const hasMore = this.#needs.look()
    this.#isLooking = false
    if (hasMore) this.wake()
  }
}
