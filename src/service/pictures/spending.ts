/** Tokens by agent, by model and by time, from the calls of models in digests. */
import type { DigestFold } from '../digest/digest-fold.ts'

/** Labels along a line: those that would overlap an earlier one are left out. */

export interface AxisLabel {
  readonly text: string
  /** Place of its anchor, in px. */
  readonly at: number
  readonly align: 'left' | 'center' | 'right'
}

const GAP_PX = 6

/** Returns the labels for which there is room, in the order in which they were given: the first have precedence. */
export function roomyLabels(labels: readonly AxisLabel[], widthOf: (text: string) => number): AxisLabel[] {
  const taken: (readonly [number, number])[] = []
  return labels.filter(({ text, at, align }) => {
    const width = widthOf(text)
    const from = at - (align === 'left' ? 0 : align === 'center' ? width / 2 : width) - GAP_PX / 2
    const to = from + width + GAP_PX
    if (taken.some(([begin, end]) => from < end && to > begin)) return false
    taken.push([from, to])
    return true
  })
}

export interface Spent {
  name: string
  calls: number
  failed: number
  input: number
  output: number
  /** Sum of the times of its calls, in ms. */
  ms: number
}

export interface Spending {
  readonly byAgent: readonly Spent[]
  readonly byModel: readonly Spent[]
  readonly total: Spent
  /** Tokens in as many equal parts of the time from `from` to `to`. */
  readonly bins: readonly { input: number; output: number }[]
  readonly from: number
  readonly to: number
}

const BINS = 60
const MODEL = 0

const nothing = (name: string): Spent => ({ name, calls: 0, failed: 0, input: 0, output: 0, ms: 0 })

export function spendingOf(folds: readonly DigestFold[]): Spending {
  const byAgent = new Map<string, Spent>()
  const byModel = new Map<string, Spent>()
  const total = nothing('all')
  const [from, to] = timesOf(folds)
  const bins = Array.from({ length: BINS }, () => ({ input: 0, output: 0 }))
  for (const { calls, names } of folds) {
    const { columns } = calls
    for (let row = 0; row < columns.kind.length; row++) {
      if (columns.kind.at(row) !== MODEL) continue
      const [input, output] = [columns.in.at(row), columns.out.at(row)]
      const of = [
        entryOf(byAgent, names[columns.agent.at(row)] ?? ''),
        entryOf(byModel, names[columns.name.at(row)] ?? ''),
        total,
      ]
      for (const spent of of) {
        spent.calls += 1
        spent.failed += columns.failed.at(row)
        spent.input += input
        spent.output += output
        spent.ms += columns.end.at(row) - columns.start.at(row)
      }
      const bin = bins[Math.min(BINS - 1, Math.floor(((columns.end.at(row) - from) / (to - from)) * BINS))]!
      bin.input += input
      bin.output += output
    }
  }
  return { byAgent: sorted(byAgent), byModel: sorted(byModel), total, bins, from, to }
}

function entryOf(known: Map<string, Spent>, name: string): Spent {
  let found = known.get(name)
  if (!found) {
    found = nothing(name)
    known.set(name, found)
  }
  return found
}

const sorted = (known: Map<string, Spent>): Spent[] =>
  [...known.values()].sort((one, other) => other.input + other.output - one.input - one.output)

function timesOf(folds: readonly DigestFold[]): [number, number] {
  let [from, to] = [Number.POSITIVE_INFINITY, 0]
  for (const { calls } of folds)
    for (let row = 0; row < calls.columns.end.length; row++) {
      from = Math.min(from, calls.columns.start.at(row))
      to = Math.max(to, calls.columns.end.at(row))
    }
  return Number.isFinite(from) ? [from, Math.max(to, from + 1)] : [0, 1]
}
