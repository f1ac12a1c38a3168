/** Times of requests, by route and status, for the metrics. */
import type { Metric } from '../../index.ts'
import { Histogram } from '../../runtime/metrics/histogram.ts'

export class RequestTimes {
  readonly #byLabels = new Map<string, { labels: Record<string, string>; histogram: Histogram }>()

  /** `route`: name of the operation, of which there are few. */
  observe(route: string, status: number, ms: number): void {
    const key = `${route} ${status}`
    const known = this.#byLabels.get(key) ?? { labels: { route, status: String(status) }, histogram: new Histogram() }
    this.#byLabels.set(key, known)
    known.histogram.observe(ms)
  }

  samples(): Metric['samples'] {
    return [...this.#byLabels.values()].flatMap(({ labels, histogram }) => histogram.samples(labels))
  }
}
