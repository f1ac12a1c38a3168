/** Metrics in the text format of Prometheus. A histogram costs a few additions for each duration, and no allocation. */

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

/**
 * Metric for a monitoring system. Names follow Prometheus: base units in the name, counters end in `_total`.
 *
 * A counter only rises; a gauge is the present value. Each sample of a histogram has its kind in `series`: a `bucket`
 * (the number of values that were at most `labels.le`, so buckets contain the smaller ones), the `sum` or the `count`.
 *
 * Source: https://prometheus.io/docs/practices/naming/
 */
export interface Metric {
  name: string
  help: string
  kind: 'counter' | 'gauge' | 'histogram'
  samples: { labels: Record<string, string>; value: number; series?: 'bucket' | 'sum' | 'count' }[]
}

/** Formats metrics in Prometheus' text exposition format, version 0.0.4. A metric without samples has no lines. */
export function prometheusText(metrics: readonly Metric[]): string {
  return metrics
    .filter(({ samples }) => samples.length > 0)
    .flatMap(({ name, help, kind, samples }) => [
      `# HELP ${name} ${help.replaceAll(/[\\\n]/g, escaped)}\n`,
      `# TYPE ${name} ${kind}\n`,
      ...samples.map(
        ({ labels, value, series }) =>
          `${name}${series ? `_${series}` : ''}${labelText(labels)} ${numberText(value)}\n`,
      ),
    ])
    .join('')
}

function labelText(labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value.replaceAll(/[\\\n"]/g, escaped)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

const escaped = (character: string) => (character === '\n' ? '\\n' : `\\${character}`)

const numberText = (value: number) => String(value).replace(/^(-?)Infinity$/, (_, minus) => `${minus || '+'}Inf`)

export const counter = (name: string, help: string, samples: Metric['samples']): Metric => ({
  name: `dramatis_${name}_total`,
  help,
  kind: 'counter',
  samples,
})

export const gauge = (name: string, help: string, samples: Metric['samples']): Metric => ({
  name: `dramatis_${name}`,
  help,
  kind: 'gauge',
  samples,
})

export const histogram = (name: string, help: string, samples: Metric['samples']): Metric => ({
  name: `dramatis_${name}_seconds`,
  help,
  kind: 'histogram',
  samples,
})
