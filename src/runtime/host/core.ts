/** Decides when the host reads what its threads have written: at once, or in a later turn of the event loop. */

import type { Logger } from '../../actors/definition/tool.ts'
import type { Room } from '../../mailbox/team-memory.ts'
import type { Scheduler } from '../../shared/clock.ts'
import type { Cell } from './agent.ts'

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

const NOBODY: readonly Cell[] = []

export class Ready {
  /** All marked agents. To be changed by the methods alone. */
  readonly marked = new Set<Cell>()
  /** Agents with something that a turn waits for. */
  readonly #hurried = new Set<Cell>()

  /** Marks an agent as ready. Any free instance may take what there is. */
  touch(cell: Cell): void {
    const { instances } = cell
    if (instances.length === 1) this.marked.add(cell)
    else for (const each of instances) this.marked.add(each)
  }

  /** Marks one instance alone as ready. */
  touchInstance(cell: Cell): void {
    this.marked.add(cell)
  }

  /** Marks an instance as ready with priority: what it gets must not wait behind what others have written. */
  hasten(cell: Cell): void {
    this.marked.add(cell)
    this.#hurried.add(cell)
  }

  /** Returns all marked agents and clears the list. */
  takeAll(): Cell[] {
    const cells = [...this.marked]
    this.marked.clear()
    this.#hurried.clear()
    return cells
  }

  /** Returns the agents with priority, and removes only them from the list. */
  takeHurried(): readonly Cell[] {
    if (this.#hurried.size === 0) return NOBODY
    const cells = [...this.#hurried]
    for (const cell of cells) this.marked.delete(cell)
    this.#hurried.clear()
    return cells
  }
}

/*
 * Repairs of words in the memory that all threads of a team share: words that differed from what the host knows and
 * were set right.
 */

export class WordRepairs {
  readonly #logger: Logger
  /** Number of words that were set right. */
  count = 0

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Counts a repair and logs it. In a flood it logs ever more rarely (1st, 2nd, 4th ...). */
  report(fields: { word: string; agent?: string; expected?: Room; found?: Room }): void {
    this.count += 1
    if ((this.count & (this.count - 1)) !== 0) return
    this.#logger.error(
      { ...fields, repairs: this.count },
      'a word of the memory that all threads of the team share was not what the host knows; it was set right. Only the runtime writes there: look for code in a thread that gets hold of shared memory',
    )
  }
}
