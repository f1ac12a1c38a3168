/**
 * Counts from the log what no other part keeps: crashes, dead letters, calls, endings of runs, durations of turns and
 * runs.
 */
import type { TokenUsage } from '../../actors/definition/model.ts'
import { errorOf, isFailure } from '../../mailbox/codec.ts'
import type { DeadLetterReason } from '../../mailbox/dead-letters.ts'
import {
  BEGINS_AGAIN,
  contentOf,
  END,
  FAILED,
  HAS_THREAD,
  KIND,
  kindBits,
  limitOf,
  type Memory,
  STARTED,
  STEP_DONE,
  TIME,
  WHO,
} from '../../mailbox/frame.ts'
import type { DramatisError } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import type { Agent } from '../host/agent.ts'
import type { Reader } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import type { FrameBlock, HostRecord } from '../log/records.ts'
import { billionthsOf } from '../settings/money.ts'
import type { Supervisor } from '../supervision/host.ts'
import { Histogram, type Metric } from './prometheus.ts'

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
  /** Money by model and tenant, in billionths. */
  readonly money = new Series(() => ({ sum: 0n }))
  readonly modelErrors = counters()
  readonly modelSwitches = counters()
  readonly modelTimes = new Series(() => new Histogram())
  readonly tools = counters()
  readonly toolErrors = counters()
  readonly toolTimes = new Series(() => new Histogram())

  model(
    agent: string,
    call: {
      model: string
      usage: TokenUsage
      money?: number | undefined
      tenant?: string | undefined
      durationMs: number
      error: DramatisError | null
    },
  ): void {
    const { model, usage, money, tenant = '', durationMs, error } = call
    if (money) this.money.at({ model, tenant }).sum += billionthsOf(money)
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

/** Messages of one run between two agents from which on these are told as chatty. */
const CHATTY = 1_000

/** Two agents, by their indices in one number, and their messages in a run, by its index. */
interface Pair {
  readonly run: number
  readonly agents: number
  count: number
}

export class AgentTally {
  crashes = 0
  readonly turns = new Histogram()
  /** Turns that have ended with an error, or whose message is tried again. */
  failedTurns = 0
  toolCalls = 0
  readonly deadLetters = new Map<DeadLetterReason, number>()
}

export class Tallies {
  readonly runs = { finished: 0, failed: 0, aborted: 0 }
  readonly runTimes = new Histogram()
  readonly calls = new CallTallies()
  chattyPairs = 0
  /** Dead letters whose recipient is no agent: a series for each such name would stay for ever. */
  readonly deadLettersOfNobody: AgentTally['deadLetters'] = new Map()
  /** Figures by agent. Weak, so that they go with an agent that has left. */
  readonly #agents = new WeakMap<Agent, AgentTally>()
  readonly #pairs = new WeakMap<RunState, Map<number, Pair>>()
  /** Pair of the last message: most often the next one is between the same two. */
  #last: Pair = { run: Number.NaN, agents: Number.NaN, count: 0 }

  of(agent: Agent): AgentTally {
    const known = this.#agents.get(agent)
    if (known) return known
    const tally = new AgentTally()
    this.#agents.set(agent, tally)
    return tally
  }

  readonly part = (supervisor: Supervisor): Reader => ({
    frames: kindBits(END, STEP_DONE),
    kinds: [
      'frames',
      'agent.crashed',
      'message.dead',
      'model.called',
      'model.switched',
      'tool.finished',
      'run.finished',
    ],
    next: (batch) => {
      for (const entry of batch)
        if (entry.kind === 'frames') this.#frames(supervisor, entry)
        else this.#record(supervisor, entry)
    },
  })

  #frames(supervisor: Supervisor, { memory, from, to, run: index }: FrameBlock): void {
    const { i32, f64 } = memory
    const run = supervisor.runs.get(index)
    for (let at = from; at < to; at += i32[at >> 2]!) {
      const word = i32[(at >> 2) + KIND]!
      const kind = word & 0xff
      if (kind !== END && kind !== STEP_DONE) continue
      const flags = word >>> 8
      const agent = supervisor.directory.byIndex[i32[(at >> 2) + WHO]! & 0xffff]
      if (kind === STEP_DONE) {
        if ((flags & HAS_THREAD) === 0) continue // no call of a tool: that has the id of a call
        this.calls.step(labelOf(agent), memory, at)
        if (agent) this.of(agent).toolCalls += 1
      } else if (agent) {
        const tally = this.of(agent)
        tally.turns.observe(f64[(at >> 3) + TIME]! - f64[(at >> 3) + STARTED]!)
        if ((flags & (FAILED | BEGINS_AGAIN)) !== 0) tally.failedTurns += 1
        const sender = supervisor.directory.byIndex[i32[(at >> 2) + WHO]! >>> 16]
        if (run && sender?.settings.isAgent && agent.settings.isAgent) this.#count(supervisor, run, sender, agent)
      }
    }
  }

  /** Counts a message of a pair. Who is chatty is told once for each run. */
  #count({ limits }: Supervisor, run: RunState, one: Agent, other: Agent): void {
    const agents = Math.min(one.index, other.index) * 2 ** 16 + Math.max(one.index, other.index)
    if (this.#last.run !== run.index || this.#last.agents !== agents) this.#last = this.#pairOf(run, agents)
    this.#last.count += 1
    if (this.#last.count !== CHATTY) return
    this.chattyPairs += 1
    const option = `messages between "${one.name}" and "${other.name}" in one run`
    const text = 'they are chatty; look at what they say, or bound a model by limits.messagesPerTurn'
    limits.reached({ option, limit: CHATTY, runId: run.id, agent: other.name }, text)
  }

  #pairOf(run: RunState, agents: number): Pair {
    const pairs = this.#pairs.get(run) ?? new Map<number, Pair>()
    if (pairs.size === 0) this.#pairs.set(run, pairs)
    const pair = pairs.get(agents) ?? { run: run.index, agents, count: 0 }
    pairs.set(agents, pair)
    return pair
  }

  #record(supervisor: Supervisor, record: HostRecord): void {
    switch (record.kind) {
      case 'agent.crashed': {
        const agent = supervisor.directory.agent(record.agent, supervisor.runs.get(record.run))
        if (agent) this.of(agent).crashes += 1
        return
      }
      case 'message.dead': {
        const { recipient } = record.letter.message
        const agent = typeof recipient === 'string' ? supervisor.directory.agent(recipient) : undefined
        const letters =
          agent?.settings.isAgent && !agent.removed ? this.of(agent).deadLetters : this.deadLettersOfNobody
        letters.set(record.letter.reason, (letters.get(record.letter.reason) ?? 0) + 1)
        return
      }
      case 'model.called':
        return this.calls.model(labelOf(supervisor.directory.byIndex[record.index]), record)
      case 'model.switched': {
        const { entry, from, to, reason } = record
        this.calls.modelSwitches.at({ entry, from, to, reason }).count += 1
        return
      }
      case 'tool.finished': {
        const agent = supervisor.directory.agent(record.agent, supervisor.runs.get(record.run))
        if (agent) this.of(agent).toolCalls += 1
        return this.calls.tool(labelOf(agent), record.tool, record.durationMs, record.error)
      }
      case 'run.finished': {
        const { error } = record
        this.runs[error === null ? 'finished' : error.code === 'RUN_ABORTED' ? 'aborted' : 'failed'] += 1
        const run = supervisor.runs.get(record.run)
        if (run) this.runTimes.observe(record.at - run.startedAt)
      }
    }
  }
}

/** Returns the label of an agent; empty for agents of one run, which go with it: their series would stay for ever. */
const labelOf = (agent: Agent | undefined): string => (agent && !agent.run ? agent.name : '')
