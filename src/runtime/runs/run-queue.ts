/** Runs that are under way, and runs that queue until there is room (`maxConcurrentRuns`, `maxQueuedRuns`). */
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { TeamOverloadedError } from '../../shared/errors.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { RunOptions } from './run.ts'

interface InLine {
  readonly options: Pick<RunOptions<unknown>, 'priority'>
}

export class RunLine<Entry extends InLine> {
  readonly #limits: Pick<TeamSettings, 'maxConcurrentRuns' | 'maxQueuedRuns'>
  readonly #clock: Scheduler
  readonly #queue: Entry[] = []
  readonly #running = new Set<Entry>()
  /** Runs under way that wait for a person: they do not count. */
  readonly #asking = new Set<Entry>()
  /** Keeps the process alive while runs are under way, since all their agents may be between two threads. */
  #hold: Timer | undefined
  /** Number of runs that were not admitted. */
  refusals = 0

  constructor(limits: Pick<TeamSettings, 'maxConcurrentRuns' | 'maxQueuedRuns'>, clock: Scheduler) {
    this.#limits = limits
    this.#clock = clock
  }

  get running(): ReadonlySet<Entry> {
    return this.#running
  }

  /** Runs that wait, in their order. */
  get queued(): readonly Entry[] {
    return this.#queue
  }

  /** Returns all runs; the queued ones come first. */
  get all(): Entry[] {
    return [...this.#queue, ...this.#running]
  }

  /** True if a run that begins now has to wait. */
  get isFull(): boolean {
    return this.#running.size - this.#asking.size >= this.#limits.maxConcurrentRuns
  }

  get isEmpty(): boolean {
    return this.#running.size + this.#queue.length === 0
  }

  /** True if no run is under way but those that wait for a person. */
  get onlyAsks(): boolean {
    return this.#running.size + this.#queue.length === this.#asking.size
  }

  get counts(): { running: number; queued: number } {
    return { running: this.#running.size, queued: this.#queue.length }
  }

  /**
   * Checks whether a new run has to wait.
   *
   * @throws TeamOverloadedError when the queue is full.
   */
  admit(): boolean {
    const { running, queued } = this.counts
    const waits = this.isFull
    if (waits && queued >= this.#limits.maxQueuedRuns) {
      this.refusals += 1
      throw new TeamOverloadedError(
        `${running} runs are under way and ${queued} wait; that is all this team takes (maxConcurrentRuns, maxQueuedRuns). Try again later.`,
        { running, queued },
      )
    }
    return waits
  }

  /** Adds a run to the queue, behind those of its priority. */
  enqueue(entry: Entry): void {
    const priority = entry.options.priority ?? 0
    const at = this.#queue.findIndex((other) => (other.options.priority ?? 0) < priority)
    this.#queue.splice(at < 0 ? this.#queue.length : at, 0, entry)
  }

  begin(entry: Entry): void {
    this.#running.add(entry)
    this.#hold ??= this.#clock.hold()
  }

  /** Notes that a run waits for a person. `start`: as for `leave`. */
  asks(entry: Entry, start: (next: Entry) => void): void {
    if (!this.#running.has(entry)) return
    this.#asking.add(entry)
    this.#startNext(start)
  }

  /** Notes that a run goes on: at once, also if others have begun in its place. */
  goesOn(entry: Entry): void {
    this.#asking.delete(entry)
  }

  /** Removes a run that is over. `start` is called with each queued run that may start now, and starts it at once. */
  leave(entry: Entry, start: (next: Entry) => void): void {
    this.#running.delete(entry)
    this.#asking.delete(entry)
    if (this.#running.size === 0) {
      this.#hold?.cancel()
      this.#hold = undefined
    }
    const queued = this.#queue.indexOf(entry)
    if (queued >= 0) this.#queue.splice(queued, 1)
    this.#startNext(start)
  }

  #startNext(start: (next: Entry) => void): void {
    while (!this.isFull) {
      const next = this.#queue.shift()
      if (!next) return
      start(next)
    }
  }
}
