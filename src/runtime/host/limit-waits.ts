/**
 * Messages whose turn cannot begin because their agent has its maximum of open turns. An agent has one turn of a run at
 * a time in each of its instances, and turns of up to `concurrency` runs.
 */

import { isKeptLimit, type KeptLimitData } from '../../actors/definition/promises.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { correlationOf, idOf, limitOf, type Memory, readBody, timeOf, turnOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { LimitNotices, LimitWait } from '../logging/limit-notices.ts'
import type { Agent } from './agent.ts'
import type { AgentDirectory } from './directory.ts'
import type { Incarnation } from './incarnation.ts'
import type { RunState } from './run.ts'

/** Yields the first message of each run that waits for such an agent. */
export function* waitsForTurns({ byIndex: agents }: AgentDirectory): IterableIterator<LimitWait> {
  for (const agent of agents) {
    if (agent.mailbox.waiting === 0 || agent.gone || !agent.settings.isAgent) continue
    const seen = new Set<RunState>()
    for (const { run, memory, at, within } of agent.mailbox.queued()) {
      if (within || seen.has(run)) continue
      seen.add(run)
      const full = limitAt(agent, run)
      if (full)
        yield { ...full, runId: run.id, agent: agent.name, messageId: idOf(memory, at), since: timeOf(memory, at) }
    }
  }
}

/** Returns the limit that keeps an agent from a turn of that run; undefined if it has a place, or no thread yet. */
function limitAt({ instances, name, settings }: Agent, run: RunState): Pick<LimitWait, 'option' | 'limit'> | undefined {
  const { concurrency } = settings
  const ready = instances.filter(({ incarnation, stopped }) => !stopped && incarnation?.ready)
  const busy = ready.filter((each) => each.isAt(run) || each.openRuns >= concurrency)
  if (ready.length === 0 || busy.length < ready.length) return undefined
  if (ready.every((each) => each.isAt(run))) return { option: `instances of "${name}"`, limit: settings.instances }
  return { option: `concurrency of "${name}"`, limit: concurrency }
}

/** Limit on the waits that are kept of one turn, since a thread decides how many it tells of. */
const MOST_WAITS = 100
/** Limit on the entries of one wait, for the same reason. */
const MOST_ENTRIES = 10_000

interface KeptWait {
  readonly option: string
  readonly limit: number
  /** Agents that are asked, in their order; undefined if calls wait. */
  readonly agents: readonly string[] | undefined
  /** Epoch ms. */
  readonly since: number
  waiting: number
}

interface TurnWaits {
  /** Thread that tells of them: they end with it. */
  readonly incarnation: Incarnation
  readonly waits: Map<number, KeptWait>
}

export class KeptLimits {
  readonly #directory: AgentDirectory
  readonly #limits: LimitNotices
  readonly #turns = new WeakMap<Envelope<RunState>, TurnWaits>()

  constructor(directory: AgentDirectory, limits: LimitNotices) {
    this.#directory = directory
    this.#limits = limits
    limits.watch(() => this.#waits())
  }

  /** Takes a frame about a wait. Ignores what no thread of the runtime's own code writes. */
  take(agent: Agent, incarnation: Incarnation, run: RunState, memory: Memory, at: number): void {
    const envelope = agent.mailbox.handed.get(turnOf(memory, at))
    if (envelope?.run !== run) return // its turn has ended meanwhile
    const waits = this.#waitsOf(envelope, incarnation)
    const number = correlationOf(memory, at)
    const waiting = limitOf(memory, at)
    const known = waits.get(number)
    if (waiting === 0) waits.delete(number)
    else if (known) known.waiting = Math.max(0, Math.min(waiting, known.waiting))
    else if (waits.size < MOST_WAITS) this.#begin(agent, run, waits, number, waitFrom(memory, at))
  }

  #begin(agent: Agent, run: RunState, waits: Map<number, KeptWait>, number: number, wait: KeptWait | undefined): void {
    if (!wait) return
    waits.set(number, wait)
    const { option, limit, agents, waiting } = wait
    const all = `${limit + waiting} ${agents ? 'agents' : 'calls of one answer'}`
    const name = agents?.[limit] ?? agent.name
    this.#limits.reached({ option, limit, runId: run.id, agent: name }, `of ${all} the others wait`)
  }

  #waitsOf(envelope: Envelope<RunState>, incarnation: Incarnation): Map<number, KeptWait> {
    const known = this.#turns.get(envelope)
    if (known?.incarnation === incarnation) return known.waits
    const waits = new Map<number, KeptWait>()
    this.#turns.set(envelope, { incarnation, waits })
    return waits
  }

  *#waits(): IterableIterator<LimitWait> {
    for (const first of this.#directory.byIndex)
      for (const agent of first.instances)
        for (const envelope of agent.mailbox.handed.all()) {
          const turn = this.#turns.get(envelope)
          if (turn && turn.incarnation === agent.incarnation) yield* entriesOf(agent, envelope, turn)
        }
  }
}

function* entriesOf(agent: Agent, { run, memory, at }: Envelope<RunState>, { waits }: TurnWaits) {
  for (const { option, limit, agents, since, waiting } of waits.values())
    for (let i = 0; i < waiting; i++) {
      const wait = { option, limit, runId: run.id, since }
      const named = agents?.[agents.length - waiting + i]
      yield named === undefined
        ? { ...wait, agent: agent.name, messageId: idOf(memory, at) }
        : { ...wait, agent: named }
    }
}

function waitFrom(memory: Memory, at: number): KeptWait | undefined {
  const { content: option, data } = readBody(memory, at)
  const { limit, agents } = Object(data === undefined ? undefined : jsonIn(data)) as Partial<KeptLimitData>
  const waiting = Math.min(limitOf(memory, at), MOST_ENTRIES)
  if (!isKeptLimit(option) || !Number.isSafeInteger(limit) || !(waiting > 0)) return undefined
  if (agents !== undefined && !(isListOfNames(agents) && waiting < agents.length)) return undefined
  return { option, limit: limit as number, agents, since: timeOf(memory, at), waiting }
}

const isListOfNames = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((name) => typeof name === 'string')
