/**
 * Groups of requests that an agent's open turns wait for together: all of them, or so many of them. The deadlock
 * detector counts a group as one wait.
 */
import { MOST_GROUPS } from '../../mailbox/frame.ts'

/** Requests of one turn that form one wait. */
export interface RequestGroup {
  /** Number of answers that the group still waits for; 0: all. */
  need: number
  /** True if an earlier process has begun it: answers that it had are not counted here. */
  readonly isRestored?: boolean
}

export class WaitingGroups {
  readonly #groups = new Map<number, RequestGroup>()

  /** True if any turn has had a group. To be read only. */
  any = false

  /** Returns the group of that number of a turn. 0 is the number of a request that waits alone. */
  of(turn: number, group: number): RequestGroup | undefined {
    return group === 0 ? undefined : this.#groups.get(keyOf(turn, group))
  }

  /**
   * Notes how many answers a group needs, as its turn says. A turn that comes again may have had answers before, and
   * its own count does not know them: it waits in vain only if none of the others can answer. The requests that it has
   * open already stay in one group with new ones.
   */
  note(turn: number, group: number, count: number, attempt: number): void {
    const known = this.of(turn, group)
    const comesAgain = attempt > 1 || known?.isRestored === true
    this.any = true
    const need = comesAgain ? Math.min(count, 1) : count
    if (known && comesAgain) known.need = need
    else this.#groups.set(keyOf(turn, group), { need })
  }

  /**
   * Returns the group of a request of an earlier process. How many answers it still needs is not known until its turn
   * comes again: it waits in vain only if none of its requests can be answered.
   */
  restore(turn: number, group: number): RequestGroup | undefined {
    if (group !== 0 && !this.of(turn, group)) this.#groups.set(keyOf(turn, group), { need: 1, isRestored: true })
    this.any = this.#groups.size > 0
    return this.of(turn, group)
  }

  /** Forgets the groups of a turn that is over. */
  forget(turn: number): void {
    for (let group = 1; group <= MOST_GROUPS; group++) this.#groups.delete(keyOf(turn, group))
    this.any = this.#groups.size > 0
  }
}

const keyOf = (turn: number, group: number): number => turn * (MOST_GROUPS + 1) + group
