/** A run as its caller holds it: its result, its events as they happen, and a handle to end it. */
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { lastSeq } from '../log/run-log.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { TokenLimit } from '../settings/options.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import { answerQuestion } from '../verbs/questions.ts'
import { StatusFold } from './agent-status.ts'
import { type EventSource, eventsOf, passOver, type RuntimeEvent } from './events.ts'
import type { MultiAgentResult } from './result.ts'
import { historyOf } from './trace.ts'

/** How one run differs from the team's defaults. Durations in ms. */
export interface RunOptions<T = undefined> {
  /** Aborts the run. */
  signal?: AbortSignal
  /** The team's `globalTimeoutMs` by default. */
  timeoutMs?: number
  /** Of its place in the queue of runs; higher first. */
  priority?: number
  /** Same id and query: joins that run; other query: ConfigurationError. */
  runId?: string
  /**
   * Runs of one thread go on with the conversations of the agents that models play. A run begins with what an agent's conversation was
   * when it first heard of the run; of two runs at once neither hears the other, and the next has both, in the order in which their
   * turns ended. Kept in memory: up to 1,000 conversations and 64 Mi characters of a team, then those that were used longest ago go; those
   * of an agent go when it is removed.
   */
  threadId?: string
  /**
   * For the agents to read: `context.run.metadata`. In a team with `telemetry` the run goes on with the trace that `traceparent`
   * (and `tracestate`, as W3C Trace Context writes them) names, and agents read the run's own place there.
   */
  metadata?: Record<string, string>
  /**
   * Other models in this run: by a name that roles use (`default` for those that name none) the name of another entry of the
   * team's `models`, or of another model of the same provider.
   */
  models?: Record<string, string>
  /** Tokens that it may use. A limit given here is in place of the same one in the team's `budget.perRun`. */
  budget?: TokenLimit
  /**
   * A schema for the answer's structured data, or its text, or the JSON in that; what it returns is `result.data`. An agent
   * without code that speaks last is asked for its answer in this schema, and once more where it misses it. Who that is the
   * built-in strategies know; a script of your own marks the request whose answer is the run's with
   * `metadata: { lastSpeaker: true }`.
   */
  output?: ModelSchema<unknown, T>
}

/** Where a run is. */
export type RunStatus = 'queued' | 'running' | 'waiting' | 'finished' | 'failed' | 'aborted' | 'interrupted'

/**
 * A run as its caller holds it.
 *
 * @example
 * const run = team.launch('Should we migrate?')
 * for await (const chunk of run.text()) process.stdout.write(chunk)
 * const result = await run.result
 */
export interface Run<T = undefined> {
  readonly id: string
  /** Without the team's keys, if some stood in it. */
  readonly query: string
  readonly status: RunStatus
  /** Never becomes an unhandled rejection. Rejects only for a configuration that cannot work. */
  readonly result: Promise<MultiAgentResult<T>>
  /** What happened and happens, until the run has finished. `after` is the `seq` of the last event that was seen. */
  events(options?: { after?: number; types?: RuntimeEvent['type'][] }): AsyncIterable<RuntimeEvent<T>>
  /**
   * The answer in pieces as they come, then what is left of it: joined they are `finalOutput`. A role without code that speaks
   * last says its answer in pieces, unless it has tools or a schema to fit: then only the end shows what of it is the answer, and
   * that comes as a whole. So does the answer of an agent with code. A script of your own has the say by what it emits: where
   * that does not begin its answer, it stands in its place. Of a run that fails there is what was said until then.
   */
  text(): AsyncIterable<string>
  /** Aborts the run, and resolves when it has ended. */
  cancel(reason?: string): Promise<void>
  /**
   * Answers a question of an agent, by the id of its `question` event. Rejects with `ConfigurationError` where no such question is
   * open, or the answer is none of its choices: the question stays open then.
   */
  answer(questionId: string, answer: string): Promise<void>
  /** What the script has asked for so far, and how far it is. */
  readonly tasks: readonly AgentTask[]
  /** Every message of the run that the log still has, in order. */
  readonly messageHistory: readonly TypedMessage[]
  /** undefined where the team has none. */
  readonly blackboard: Blackboard | undefined
  /** What models have cost so far. */
  readonly usage: TokenUsage
}

/** What a handle needs of the team. */
export interface RunHost {
  name(index: number): string
  epochOf(index: number): number
  cancel(run: RunState, reason: string): void
  blackboard(run: RunState): Blackboard | undefined
  /** Calls back after each batch of records; returns how to end that. */
  onRecords(listener: () => void): () => void
  /** Takes the team's keys out of what leaves it. */
  readonly redactor: Redactor
}

export class RunHandle<T> implements Run<T> {
  readonly result: Promise<MultiAgentResult<T>>
  #status: RunStatus = 'queued'
  readonly state: RunState
  readonly #host: RunHost
  #settle!: { resolve(result: MultiAgentResult<T>): void; reject(error: unknown): void }
  #settled = false
  #finished: MultiAgentResult<T> | undefined
  readonly #source: EventSource

  constructor(state: RunState, host: RunHost) {
    this.state = state
    this.#host = host
    // its own, since a handle outlives what the team remembers of its run
    this.#source = {
      ...directoryOf(state, host),
      epochOf: (index) => host.epochOf(index),
      resultOf: () => this.#finished,
    }
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.result.catch(() => {}) // who does not wait for it does not miss it
  }

  get id(): string {
    return this.state.id
  }
  get query(): string {
    return this.#host.redactor.data(this.state.query)
  }
  /** 'waiting': for a person. */
  get status(): RunStatus {
    return this.#status === 'running' && this.state.questions.size > 0 ? 'waiting' : this.#status
  }
  set status(status: RunStatus) {
    this.#status = status
  }

  finish(result: MultiAgentResult<T>, status: RunStatus): void {
    this.status = status
    this.#settled = true
    this.#finished = result
    this.#settle.resolve(result)
  }
  misconfigured(error: unknown): void {
    this.status = 'failed'
    this.#settled = true
    this.#settle.reject(error)
  }

  async *events(options: { after?: number; types?: RuntimeEvent['type'][] } = {}): AsyncGenerator<RuntimeEvent<T>> {
    let after = options.after ?? -1
    const readsAlong = options.types?.includes('output.delta') ?? true
    const fold = new StatusFold((index) => this.#source.name(index))
    for (const entry of this.state.log.entries()) if (lastSeq(entry) <= after) passOver(entry, fold)
    const reader = { read: -1, fold }
    let wake: (() => void) | undefined
    let changed = false
    const stop = this.#host.onRecords(() => {
      changed = true
      wake?.()
    })
    const ended = () => wake?.()
    this.result.then(ended, ended)
    if (readsAlong) this.state.readers += 1
    try {
      for (;;) {
        changed = false
        for (const event of this.#eventsAfter(after, reader)) {
          after = event.seq
          if (!options.types || options.types.includes(event.type)) yield event as RuntimeEvent<T>
          if (event.type === 'run.finished') return
        }
        if (this.#settled && !changed) return
        if (!changed) {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    } finally {
      if (readsAlong) this.state.readers -= 1
      stop()
    }
  }

  *#eventsAfter(after: number, reader: { read: number; fold: StatusFold }): IterableIterator<RuntimeEvent<unknown>> {
    for (const entry of this.state.log.entries(Math.max(after, reader.read))) {
      for (const event of eventsOf(entry, this.#source, reader.fold))
        if (event.seq > after) yield this.#host.redactor.data(event)
      reader.read = lastSeq(entry)
    }
  }

  async *text(): AsyncGenerator<string> {
    let said = ''
    for await (const event of this.events({ types: ['output.delta', 'run.finished'] })) {
      if (event.type === 'output.delta' && event.final) {
        said += event.chunk
        yield event.chunk
      } else if (event.type === 'run.finished') {
        const answer = event.result.finalOutput ?? ''
        if (answer.length > said.length && answer.startsWith(said)) yield answer.slice(said.length)
      }
    }
  }

  async cancel(reason = 'cancelled by its caller'): Promise<void> {
    if (!this.#settled) this.#host.cancel(this.state, reason)
    await this.result.catch(() => {})
  }
  async answer(questionId: string, answer: string): Promise<void> {
    answerQuestion(this.state, questionId, answer)
  }
  get tasks(): readonly AgentTask[] {
    return this.#host.redactor.data([...this.state.tasks.values()])
  }
  get messageHistory(): readonly TypedMessage[] {
    return this.#host.redactor.data(historyOf(this.state.log, this.#source))
  }
  get blackboard(): Blackboard | undefined {
    return this.#host.blackboard(this.state)
  }
  get usage(): TokenUsage {
    return this.state.spent.total
  }
}
