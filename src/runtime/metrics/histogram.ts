/** Counts durations in fixed buckets: a few additions for each, and no allocation. */
import type { Metric } from './prometheus.ts'

/** Upper bounds in seconds: from code that answers at once to a model that thinks for minutes. */
const BOUNDS = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

export class Histogram {
  readonly #counts = new Float64Array(BOUNDS.length)
  #count = 0
  #seconds = 0

  get count(): number {
    return this.#count
  }

  observe(ms: number): void {
    const seconds = Math.max(0, ms) / 1_000 // a clock may have been set back
    this.#count += 1
    this.#seconds += seconds
    let bucket = 0
    while (bucket < BOUNDS.length && seconds > BOUNDS[bucket]!) bucket += 1
    if (bucket < BOUNDS.length) this.#counts[bucket]! += 1
  }

  samples(labels: Record<string, string>): Metric['samples'] {
    let below = 0
    const buckets = BOUNDS.map((bound, i) => {
      below += this.#counts[i]!
      return { labels: { ...labels, le: String(bound) }, value: below, series: 'bucket' as const }
    })
    return [
      ...buckets,
      { labels: { ...labels, le: '+Inf' }, value: this.#count, series: 'bucket' },
      { labels, value: this.#seconds, series: 'sum' },
      { labels, value: this.#count, series: 'count' },
    ]
  }
}
