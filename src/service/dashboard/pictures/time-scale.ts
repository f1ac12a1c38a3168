/** Time of a run on a line, on which times at which nothing happened are folded. */

export interface Folded {
  readonly from: number
  readonly to: number
}

/** A gap is folded from this length on, and takes that share of the line. */
const LEAST_GAP_MS = 1_000
const GAP_SHARE = 0.012
/** A gap is folded if it is longer than this share of the whole time. */
const LONG_SHARE = 0.04

export class TimeScale {
  readonly from: number
  readonly to: number
  readonly folded: readonly Folded[]
  /** Times at which a piece begins, and its place from 0 to 1. Between two the way is straight. */
  readonly #times: number[]
  readonly #places: number[]

  /** `busy`: begins and ends of what happened, in pairs, ascending by their begins. */
  constructor(busy: Float64Array, from: number, to: number) {
    this.from = from
    this.to = Math.max(to, from + 1)
    const gaps = gapsIn(busy, this.from, this.to)
    const least = Math.max(LEAST_GAP_MS, (this.to - this.from) * LONG_SHARE)
    this.folded = gaps.filter((gap) => gap.to - gap.from >= least)
    const folded = this.folded.reduce((sum, gap) => sum + gap.to - gap.from, 0)
    const share = Math.min(GAP_SHARE, 0.3 / Math.max(1, this.folded.length))
    const perMs = (1 - share * this.folded.length) / Math.max(1, this.to - this.from - folded)
    this.#times = [this.from]
    this.#places = [0]
    for (const gap of this.folded) {
      this.#add(gap.from, (gap.from - this.#times.at(-1)!) * perMs)
      this.#add(gap.to, share)
    }
    this.#add(this.to, (this.to - this.#times.at(-1)!) * perMs)
  }

  #add(time: number, length: number): void {
    this.#times.push(time)
    this.#places.push(this.#places.at(-1)! + length)
  }

  /** Returns the place of a time, from 0 to 1. */
  placeOf(time: number): number {
    return between(this.#times, this.#places, time)
  }

  /** Returns the time of a place. */
  timeAt(place: number): number {
    return between(this.#places, this.#times, place)
  }
}

function between(from: readonly number[], to: readonly number[], value: number): number {
  let low = 0
  let high = from.length - 1
  if (value <= from[0]!) return to[0]!
  if (value >= from[high]!) return to[high]!
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (from[middle]! <= value) low = middle
    else high = middle
  }
  const share = (value - from[low]!) / Math.max(Number.MIN_VALUE, from[high]! - from[low]!)
  return to[low]! + share * (to[high]! - to[low]!)
}

function gapsIn(busy: Float64Array, from: number, to: number): Folded[] {
  const gaps: Folded[] = []
  let until = from
  for (let at = 0; at < busy.length; at += 2) {
    const [begin, end] = [busy[at]!, busy[at + 1]!]
    if (begin > until) gaps.push({ from: until, to: begin })
    if (end > until) until = end
  }
  if (to > until) gaps.push({ from: until, to })
  return gaps
}
