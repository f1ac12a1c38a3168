/**
 * What a benchmark is: a question, two bounds for each of its figures, and a way to measure them.
 * Figures are ratios taken in one run, so they say the same on a slow machine and on a fast one.
 */

/** 'least': the figure must be at least `value`; 'most': at most. */
export interface Bound {
  readonly is: 'least' | 'most'
  readonly value: number
}

/** One per file; `Figure` names its figures, each with what it must reach and what would be good. */
export interface Benchmark<Figure extends string = string> {
  readonly id: string
  readonly question: string
  readonly must: Readonly<Record<Figure, Bound>>
  readonly goal: Readonly<Record<Figure, Bound>>
  run(options: BenchmarkOptions): Promise<Measurement<Figure>>
}

/** Of the command line, for the benchmarks that ask models. */
export interface BenchmarkOptions {
  /** How many questions. */
  readonly questions: number
  /** A real model in the place of the noisy one. */
  readonly model: string | undefined
}

export interface Measurement<Figure extends string = string> {
  /** The ratio of each round; the figure is their median. None at all: `notes` says why it was not measured. */
  ratios: Record<Figure, number[]>
  /** Medians behind the figures, and what is worth knowing beside them. */
  details: Detail[]
  notes?: string[]
}

export interface Detail {
  label: string
  value: number
  unit: 'messages/s' | '/s' | 'MB/s' | 'us' | 'ms' | 'MB' | 'x'
}

export type Verdict = 'goal reached' | 'holds' | 'MISSED' | 'not measured'

export const atLeast = (value: number): Bound => ({ is: 'least', value })
export const atMost = (value: number): Bound => ({ is: 'most', value })

export function holds(figure: number, bound: Bound): boolean {
  return bound.is === 'least' ? figure >= bound.value : figure <= bound.value
}

export function verdict(figure: number | null, must: Bound, goal: Bound): Verdict {
  if (figure === null) return 'not measured'
  if (!holds(figure, must)) return 'MISSED'
  return holds(figure, goal) ? 'goal reached' : 'holds'
}
