/** Metrics of a team, and their text format for Prometheus. */

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
