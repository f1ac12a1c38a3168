/** A figure for a monitoring system. Not available in this version. */
export interface Metric {
  name: string
  help: string
  kind: 'counter' | 'gauge' | 'histogram'
  samples: { labels: Record<string, string>; value: number }[]
}
