/** A virtual clock for tests that wait for a real server: it tells when somebody begins to wait for time to pass. */
import type { Scheduler, Timer } from '../../../src/shared/clock.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'

export class PatientClock implements Scheduler {
  readonly virtual = true
  /** How long was waited, each pause once, in their order. */
  readonly pauses: number[] = []
  readonly #clock: VirtualClock & Scheduler
  readonly #wanted: { count: number; resolve: () => void }[] = []

  constructor(seed = 1) {
    this.#clock = virtualClock({ seed }) as VirtualClock & Scheduler
  }

  /** Resolves when that many pauses have begun. */
  paused(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#wanted.push({ count, resolve })
      this.#tell()
    })
  }

  now = () => this.#clock.now()
  monotonic = () => this.#clock.monotonic()
  random = () => this.#clock.random()
  advance = (ms: number) => this.#clock.advance(ms)
  defer = (task: () => void) => this.#clock.defer(task)
  hold = () => this.#clock.hold()

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const slept = this.#clock.sleep(ms, signal)
    this.#pausing(ms)
    return slept
  }

  /** Limits are no pauses: they are not meant to come. */
  timer(ms: number, task: () => void, limit?: boolean): Timer {
    const timer = this.#clock.timer(ms, task, limit)
    if (!limit) this.#pausing(ms)
    return timer
  }

  #pausing(ms: number): void {
    this.pauses.push(ms)
    this.#tell()
  }

  #tell(): void {
    for (const wanted of this.#wanted.splice(0)) {
      if (wanted.count <= this.pauses.length) wanted.resolve()
      else this.#wanted.push(wanted)
    }
  }
}
