/** What a process and a team have in use, looked at in intervals; and which of it grows. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { growthOf } from '../../bench/load/trend.ts'
import type { Team } from '../../src/index.ts'

const MIB = 2 ** 20

/** What may rise over the second half of a soak, by noise alone; `bench/load/trend.ts` says what counts as rising. */
export const ALLOWED = {
  rss: 24 * MIB,
  heapUsed: 3 * MIB,
  external: 4 * MIB,
  /** What keeps the event loop alive. */
  handles: 8,
  timers: 24,
  sockets: 6,
  /** Calls of models under way. */
  calls: 8,
  threads: 1.5,
  logBytes: 8 * MIB,
  /** Messages that wait or are under way. */
  waiting: 24,
  /** Messages that were accepted and are nowhere: neither waiting nor under way, handled or dead. */
  lost: 1,
}
type Series = keyof typeof ALLOWED
type Sample = Record<Series, number>

setFlagsFromString('--expose-gc')
/** All at once. */
export const collectGarbage: () => void = runInNewContext('gc') // or the heap shows when the collector came, not what is held

export class Samples {
  readonly #team: Team
  readonly #timers: () => number
  readonly #calls: () => number
  readonly #samples: { seconds: number; sample: Sample }[] = []
  readonly #beganAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor(team: Team, timers: () => number, everyMs: number, calls = () => 0) {
    this.#team = team
    this.#timers = timers
    this.#calls = calls
    this.#timer = setInterval(() => this.#take(), everyMs)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#take()
  }

  get last(): Sample {
    return this.#samples.at(-1)!.sample
  }

  #take(): void {
    collectGarbage()
    const { rss, heapUsed, external } = process.memoryUsage()
    const totals = new Map(
      this.#team.metrics().map(({ name, samples }) => [name, samples.reduce((sum, { value }) => sum + value, 0)]),
    )
    const total = (name: string) => totals.get(`dramatis_${name}`) ?? 0
    const waiting = total('messages_queued') + total('messages_in_flight')
    const resources = process.getActiveResourcesInfo()
    const sample = {
      rss,
      heapUsed,
      external,
      handles: resources.length,
      sockets: resources.filter((kind) => kind === 'TCPSocketWrap').length,
      calls: this.#calls(),
      timers: this.#timers(),
      threads: total('threads'),
      logBytes: total('log_bytes'),
      waiting,
      lost:
        total('messages_accepted_total') -
        total('messages_handled_total') -
        total('messages_dead_lettered_total') -
        waiting,
    }
    this.#samples.push({ seconds: (performance.now() - this.#beganAt) / 1_000, sample })
  }

  /** One line for each series: its smallest, its largest, its last value. */
  lines(): string[] {
    return this.#each((name, values) => {
      const [least, most, last] = [Math.min(...values), Math.max(...values), values.at(-1)!].map(Math.round)
      return `${name}: ${least} to ${most}, at last ${last}`
    })
  }

  /** The series that grow, with how fast. */
  growing(): string[] {
    return this.#each((name, values) => {
      const growth = growthOf(
        values.map((value, i) => [this.#samples[i]!.seconds, value]),
        ALLOWED[name],
      )
      if (growth === undefined) return `${name}: too few samples to tell`
      return growth
        ? `${name}: by ${Math.round(growth.rise)} in the last ${Math.round(growth.overSeconds)} s`
        : undefined
    })
  }

  #each(line: (name: Series, values: number[]) => string | undefined): string[] {
    return Object.keys(ALLOWED).flatMap((key) => {
      const name = key as Series
      return (
        line(
          name,
          this.#samples.map(({ sample }) => sample[name]),
        ) ?? []
      )
    })
  }
}
