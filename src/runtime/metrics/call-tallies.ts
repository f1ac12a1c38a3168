/** Counts the calls of models and tools in the log: their number, agents, cost, duration and errors. */

import type { TokenUsage } from '../../actors/definition/model.ts'
import type { DramatisError } from '../../errors.ts'
import { errorOf, isFailure } from '../../mailbox/codec.ts'
import { limitOf } from '../../mailbox/frame.ts'
import { contentOf } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { own } from '../../own.ts'
import { Histogram } from './histogram.ts'
import type { Metric } from './prometheus.ts'

/**
 * Maximum series of one metric. The name of a model may be a run's, that of a tool any text of a thread: beyond the
 * maximum all others share one series.
 */
const MOST_SERIES = 500
const OTHER = 'other'

type Labels = Record<string, string>

/** Values by their labels, up to a maximum number. */
class Series<Value> {
  readonly #make: () => Value
  readonly #known = new Map<string, { labels: Labels; value: Value }>()

  constructor(make: () => Value) {
    this.#make = make
  }

  at(labels: Labels): Value {
    const key = Object.values(labels).join('\n')
    const known = this.#known.get(key)
    if (known) return known.value
    const last = Object.keys(labels).at(-1)
    if (this.#known.size >= MOST_SERIES && own(labels, last ?? '') !== OTHER)
      return this.at(Object.fromEntries(Object.keys(labels).map((name) => [name, OTHER])))
    const value = this.#make()
    this.#known.set(key, { labels, value })
    return value
  }

  samples(read: (value: Value, labels: Labels) => Metric['samples']): Metric['samples'] {
    return [...this.#known.values()].flatMap(({ labels, value }) => read(value, labels))
  }
}

const counters = () => new Series(() => ({ count: 0 }))

export class CallTallies {
  readonly models = new Series(() => ({ calls: 0, input: 0, output: 0 }))
  readonly modelErrors = counters()
  readonly modelTimes = new Series(() => new Histogram())
  readonly tools = counters()
  readonly toolErrors = counters()
  readonly toolTimes = new Series(() => new Histogram())

  model(
    agent: string,
    call: { model: string; usage: TokenUsage; durationMs: number; error: DramatisError | null },
  ): void {
    const { model, usage, durationMs, error } = call
    const tally = this.models.at({ agent, model })
    tally.calls += 1
    tally.input += usage.inputTokens
    tally.output += usage.outputTokens
    this.modelTimes.at({ model }).observe(durationMs)
    if (error) this.modelErrors.at({ model, reason: error.modelFailure?.reason ?? error.code.toLowerCase() }).count += 1
  }

  tool(agent: string, tool: string, durationMs: number, error: DramatisError | null): void {
    this.tools.at({ agent, tool }).count += 1
    this.toolTimes.at({ tool }).observe(durationMs)
    if (error) this.toolErrors.at({ tool, code: error.code }).count += 1
  }

  /** Counts a call of a tool that has ended in the thread of its agent, by the frame of its step. */
  step(agent: string, memory: Memory, at: number): void {
    const error = isFailure(memory, at) ? errorOf(memory, at) : null
    this.tool(agent, contentOf(memory, at), limitOf(memory, at), error)
  }
}
