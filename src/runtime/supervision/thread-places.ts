/**
 * Bounds the number of threads that agents have at the same time (`threads.max`). A thread has a place from before it
 * is made until it is gone. Agents that find no place wait in a line: by the priority of their first message, then in
 * order. Which agent gives up a thread for them is decided in supervision/passivation.ts.
 */
import type { Scheduler } from '../../clock.ts'
import type { Cell } from '../state/cell.ts'

/** Checks whether a thread of the agent needs a place: threads that agents share do not count. */
export const hasOwnThread = ({ settings }: Cell): boolean => settings.isAgent && settings.isolation === 'thread'

interface Waiter {
  readonly cell: Cell
  /** Epoch ms. */
  readonly since: number
  readonly resolve: () => void
}

export class ThreadPlaces {
  /** Maximum number of places. It is exceeded only by `grant`. */
  readonly max: number
  /** Number of places that are taken. */
  taken = 0
  readonly #line: Waiter[] = []
  readonly #full: () => void
  readonly #clock: Pick<Scheduler, 'now'>

  /**
   * `full` is called when an agent has joined the line, and when a thread is gone whose place nobody gets: perhaps no
   * other comes free by itself.
   */
  constructor(max: number, clock: Pick<Scheduler, 'now'>, full: () => void) {
    this.max = max
    this.#clock = clock
    this.#full = full
  }

  get isBounded(): boolean {
    return Number.isFinite(this.max)
  }

  /** Number of agents that wait for a place. */
  get waiting(): number {
    return this.#line.length
  }

  /** Agents that wait for a place, and since when. */
  get line(): readonly Pick<Waiter, 'cell' | 'since'>[] {
    return this.#line
  }

  /**
   * Takes a place for a thread of the agent. Returns undefined if it has one now, a promise if it has to wait, and
   * false if it has to wait but has no message: such an agent needs no thread yet.
   */
  take(cell: Cell): Promise<void> | undefined | false {
    if (this.taken < this.max && this.#line.length === 0) {
      this.claim()
      return undefined
    }
    if (cell.mailbox.waiting === 0) return false
    const place = new Promise<void>((resolve) => {
      this.#line.push({ cell, since: this.#clock.now(), resolve })
    })
    this.#full()
    return place
  }

  /** Takes a place in any case: for a thread that has replaced another one. */
  claim(): void {
    this.taken += 1
  }

  /** Gives back the place of a thread that is gone, or that is not needed after all. */
  free(): void {
    this.taken -= 1
    this.serve()
    if (this.waiting > 0) this.#full()
  }

  /** Gives the free places to those that wait. */
  serve(): void {
    while (this.taken < this.max && this.#line.length > 0) this.grant()
  }

  /** Gives a place to the first in the line, free or not. */
  grant(): void {
    let first = this.#line[0]
    if (!first) return
    for (const waiter of this.#line) if (priorityOf(waiter) > priorityOf(first)) first = waiter
    this.#line.splice(this.#line.indexOf(first), 1)
    this.claim()
    first.resolve()
  }

  /** Lets an agent leave the line that needs no thread any more. It gives its place back when it learns that. */
  leave(cell: Cell): void {
    for (const waiter of this.#line.filter((each) => each.cell === cell)) {
      this.#line.splice(this.#line.indexOf(waiter), 1)
      this.claim()
      waiter.resolve()
    }
  }
}

const priorityOf = ({ cell }: Waiter): number => cell.mailbox.peek()?.priority ?? 0
