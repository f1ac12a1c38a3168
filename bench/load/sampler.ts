/** Looks at the process and the team in intervals: memory, what waits, how busy the host is. */
import type { Health } from 'dramatis'

/** Memory in bytes, of the whole process but for `heap` and `external`, which are the host's. */
export interface Sample {
  /** From the start of the load. */
  seconds: number
  rss: number
  heap: number
  external: number
  /** Messages in mailboxes, runs that wait, and executes that are due and have not begun. */
  queued: number
  /** Share of the time since the sample before that the host's event loop worked; 0 to 1. */
  busy: number
}

const SHORTEST_MS = 250
/** So many samples at most, or a long test would measure its own. */
const MOST = 2_000

export class Sampler {
  readonly samples: Sample[] = []
  readonly #health: () => Health
  readonly #behind: () => number
  readonly #startedAt = performance.now()
  readonly #timer: NodeJS.Timeout
  #loop = performance.eventLoopUtilization()

  constructor(team: { health(): Health }, behind: () => number, seconds: number) {
    this.#health = () => team.health()
    this.#behind = behind
    this.#timer = setInterval(() => this.#take(), Math.max(SHORTEST_MS, (seconds * 1_000) / MOST))
  }

  stop(): void {
    clearInterval(this.#timer)
    if (this.samples.length === 0) this.#take()
  }

  #take(): void {
    const loop = performance.eventLoopUtilization()
    const { rss, heapUsed, external } = process.memoryUsage()
    const { agents, runs } = this.#health()
    const inMailboxes = Object.values(agents).reduce((sum, { queued }) => sum + queued, 0)
    this.samples.push({
      seconds: Math.round(performance.now() - this.#startedAt) / 1_000,
      rss,
      heap: heapUsed,
      external,
      queued: inMailboxes + runs.queued + this.#behind(),
      busy: performance.eventLoopUtilization(loop, this.#loop).utilization,
    })
    this.#loop = loop
  }
}
