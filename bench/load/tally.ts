/** What came of the executes: how many were answered and how soon, how many failed and why. */
import { DramatisError } from 'dramatis'
import { build } from 'hdr-histogram-js'

/** In ms. */
export interface Latencies {
  p50: number
  p90: number
  p99: number
  p999: number
  max: number
}

export interface Failure {
  /** Of the error: `RUN_TIMEOUT`, `TEAM_OVERLOADED`, ... */
  code: string
  count: number
  /** Of the first of them. */
  message: string
}

const US = 1_000

export class Tally {
  answered = 0
  failed = 0
  // three digits hold over its whole range, from 1 us to an hour and beyond
  readonly #us = build({ numberOfSignificantValueDigits: 3, autoResize: true, useWebAssembly: false })
  readonly #failures = new Map<string, Failure>()

  answer(tookMs: number): void {
    this.answered += 1
    this.#us.recordValue(Math.max(1, Math.round(tookMs * US)))
  }

  fail(error: unknown): void {
    this.failed += 1
    const code = error instanceof DramatisError ? error.code : 'UNKNOWN'
    const known = this.#failures.get(code)
    if (known) known.count += 1
    else this.#failures.set(code, { code, count: 1, message: error instanceof Error ? error.message : String(error) })
  }

  /** The most frequent first. */
  get failures(): Failure[] {
    return [...this.#failures.values()].sort((a, b) => b.count - a.count)
  }

  /** Of those that were answered; null if none was. */
  get latencies(): Latencies | null {
    if (this.answered === 0) return null
    const { maxValue } = this.#us
    // a percentile is rounded up to the histogram's resolution, which may be beyond the largest value
    const at = (percentile: number) => Math.min(this.#us.getValueAtPercentile(percentile), maxValue) / US
    return { p50: at(50), p90: at(90), p99: at(99), p999: at(99.9), max: maxValue / US }
  }
}
