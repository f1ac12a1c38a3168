/** A measured benchmark as rows to print and as a record for `--json`. */
import { type Benchmark, type Bound, type Detail, type Measurement, type Verdict, verdict } from './benchmark.ts'
import { median } from './statistics.ts'

export interface FigureReport {
  name: string
  /** Median of the rounds; null if it was not measured. */
  value: number | null
  lowest: number | null
  highest: number | null
  rounds: number
  must: string
  goal: string
  verdict: Verdict
}

export interface BenchmarkReport {
  id: string
  question: string
  figures: FigureReport[]
  details: Detail[]
  notes: string[]
}

export function report(benchmark: Benchmark, measurement: Measurement): BenchmarkReport {
  const { id, question } = benchmark
  const figures = Object.entries(measurement.ratios).map(([name, ratios]) => {
    const value = ratios.length > 0 ? median(ratios) : null
    const must = benchmark.must[name]!
    const goal = benchmark.goal[name]!
    return {
      name,
      value,
      lowest: value === null ? null : Math.min(...ratios),
      highest: value === null ? null : Math.max(...ratios),
      rounds: ratios.length,
      must: boundText(must),
      goal: boundText(goal),
      verdict: verdict(value, must, goal),
    }
  })
  return { id, question, figures, details: measurement.details, notes: measurement.notes ?? [] }
}

export const HEADER = row(['id', 'figure', 'measured', '(low to high)', 'must', 'goal', 'verdict'])

/** One row per figure; under them what they were made of. */
export function format({ id, question, figures, details, notes }: BenchmarkReport): string {
  const lines = [`${id.padEnd(4)}${question}`]
  for (const { name, value, lowest, highest, must, goal, verdict } of figures) {
    const spread = lowest === null || highest === null ? '' : `(${ratioText(lowest)} to ${ratioText(highest)})`
    lines.push(row(['', name, value === null ? '-' : ratioText(value), spread, must, goal, verdict]))
  }
  for (const { label, value, unit } of details) {
    const number = unit === 'x' ? ratioText(value) : numberText(value)
    lines.push(`      ${label.padEnd(42)}${number.padStart(10)} ${unit}`)
  }
  for (const note of notes) lines.push(`      ${note}`)
  return lines.join('\n')
}

function row(cells: readonly string[]): string {
  const [id = '', figure = '', measured = '', spread = '', must = '', goal = '', verdict = ''] = cells
  const left = id.padEnd(4) + figure.padEnd(38) + measured.padStart(8)
  return `${left} ${spread.padEnd(18)}${must.padEnd(9)}${goal.padEnd(9)}${verdict}`
}

function boundText({ is, value }: Bound): string {
  return `${is === 'least' ? '>=' : '<='} ${value}`
}

function ratioText(ratio: number): string {
  return ratio.toFixed(2)
}

/** Three figures are more than such a measurement is good for, and enough to compare. */
export function numberText(value: number): string {
  return value.toLocaleString('en', { maximumSignificantDigits: 3 })
}
