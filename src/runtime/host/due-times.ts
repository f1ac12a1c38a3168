/**
 * Moments of the wall clock at which something is due, whatever becomes of this process: when a question expires. The
 * log has them, and each process that goes on puts them in here again. What is done then is a record, so none of them
 * comes twice.
 */
import type { Scheduler, Timer } from '../../shared/clock.ts'

/** Time after which the wall clock is looked at again: timers do not see that it was set. */
const LOOK_MS = 60_000

interface Due {
  /** Epoch ms. */
  readonly at: number
  readonly act: () => void
}

export class DueTimes {
  readonly #clock: Pick<Scheduler, 'now' | 'timer' | 'virtual'>
  /** The one that comes first is the last. */
  readonly #all: Due[] = []
  #timer: Timer | undefined

  constructor(clock: Pick<Scheduler, 'now' | 'timer' | 'virtual'>) {
    this.#clock = clock
  }

  /** Calls `act` once, when the wall clock has come to that moment, in epoch ms; in a later task if it has. */
  add(at: number, act: () => void): Timer {
    const due: Due = { at, act }
    const all = this.#all
    let [from, to] = [0, all.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if (all[middle]!.at > at) from = middle + 1
      else to = middle
    }
    all.splice(from, 0, due) // behind those of the same moment, which were there before
    if (from === all.length - 1) this.#set()
    return {
      cancel: () => {
        const place = all.indexOf(due)
        if (place < 0) return
        all.splice(place, 1)
        if (place === all.length) this.#set()
      },
    }
  }

  #set(): void {
    this.#timer?.cancel()
    const next = this.#all.at(-1)
    const leftMs = next && Math.max(0, next.at - this.#clock.now())
    this.#timer =
      leftMs === undefined
        ? undefined
        : this.#clock.timer(this.#clock.virtual ? leftMs : Math.min(leftMs, LOOK_MS), () => this.#look())
  }

  #look(): void {
    const now = this.#clock.now()
    const due: Due[] = []
    while (this.#all.length > 0 && this.#all.at(-1)!.at <= now) due.push(this.#all.pop()!)
    this.#set()
    for (const { act } of due) act()
  }
}
