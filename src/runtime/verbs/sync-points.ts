/**
 * Sync points of a team: the agents that may arrive, and the state of each point in each run. An
 * arrival is a call to the host, and so a logged step: it survives the exit of its agent's thread, and ends with its
 * turn. Rule 31.
 */

import type { SyncResult } from '../../actors/definition/context.ts'
import type { Verb } from '../../actors/definition/role.ts'
import { LOG_ONLY, SEND } from '../../mailbox/frame.ts'
import type { Timer } from '../../shared/clock.ts'
import {
  ConfigurationError,
  type DramatisError,
  MessageRejectedError,
  SyncPointTimeoutError,
  shown,
  TurnEndedError,
} from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { nearest } from '../../shared/text.ts'
import type { Agent, Waiter } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import type { Reader } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import type { SyncPointSettings } from '../settings/team-shape.ts'
import type { HostVerb } from './calls.ts'

/* Rules of a sync point as pure functions: when a generation ends, and with what result. */

/** Agents that have arrived, by name, with the data of each; undefined: none. */
export type Arrived = ReadonlyMap<string, { readonly data: unknown }>

export const missingAt = ({ requiredAgents }: SyncPointSettings, arrived: Arrived): string[] =>
  requiredAgents.filter((name) => !arrived.has(name))

/**
 * Decides whether a generation that a turn waits for ends. 'lost': a missing agent is gone permanently and never
 * arrives. While nobody has arrived, another agent still may, and the gone agents are named then. But if every agent is
 * gone, the generation is lost at once.
 */
export function fateOf(
  point: SyncPointSettings,
  arrived: Arrived,
  isGone: (agent: string) => boolean,
): 'open' | 'complete' | 'lost' {
  const missing = missingAt(point, arrived)
  if (missing.length === 0) return 'complete'
  const lost = arrived.size > 0 ? missing.some(isGone) : missing.every(isGone)
  return lost ? 'lost' : 'open'
}

/**
 * Returns the result for the turns that have met. Its data is in the order of the options, so that it does not depend
 * on which agent was faster.
 */
export function resultOf(point: SyncPointSettings, generation: number, arrived: Arrived): SyncResult {
  const missing = missingAt(point, arrived)
  const brought = point.requiredAgents.flatMap((name) => {
    const data = arrived.get(name)?.data
    return data === undefined ? [] : [[name, data]]
  })
  return {
    generation,
    arrived: point.requiredAgents.filter((name) => arrived.has(name)),
    missing,
    timedOut: missing.length > 0,
    data: point.dataExchange ? Object.fromEntries(brought) : {},
  }
}

/** Checks whether a generation's time limit runs: it starts with the first arrival. */
export const isTimed = (generation: SyncGenerations | undefined): boolean =>
  generation !== undefined && [...generation.arrived].length > 0

/*
 * Generations of one sync point in one run, one after the other. A generation is open from its first arrival until all
 * required agents have arrived, or until it ends without some of them, as the point's `onTimeout` says.
 *
 *   ann, bob -> complete: everybody gets the result --------------------\
 *   ann alone -> time is up, bob is gone for ever, or it is given up:    -> the next arrival opens the next generation;
 *                the result or an error, as `onTimeout` says -----------/   bob's next is late: an error, once
 */

interface Settling {
  resolve(result: SyncResult): void
  reject(error: DramatisError): void
}

interface Arrival extends Waiter, Settling {
  readonly attempt: number
  readonly data: unknown
}

export interface Closed {
  readonly result: SyncResult
  /** Epoch ms. */
  readonly at: number
  /** Error that all waiting turns were rejected with. */
  readonly error: DramatisError | undefined
}

interface Why {
  readonly text: string
  readonly advice: string
  readonly cause?: DramatisError
}

export class SyncGenerations {
  readonly run: RunState
  readonly point: SyncPointSettings
  /** Number of the generation that is open, or that the next arrival opens. */
  generation = 1
  readonly #core: Core
  readonly #arrivals = new Map<string, Arrival>()
  readonly #watchers = new Set<Waiter & Settling>()
  /**
   * Agents that were missing when a generation ended, with the last such generation. The map is by agent, not by name:
   * a later agent may have the same name.
   */
  readonly #late = new Map<Agent, Closed>()
  /** Generation that ended last, if the script has not received it. */
  #news: Closed | undefined
  #timer: Timer | undefined
  /** Sync points with a turn that waits. */
  readonly #open: Set<SyncGenerations>

  constructor(core: Core, run: RunState, point: SyncPointSettings, open: Set<SyncGenerations>) {
    this.#core = core
    this.run = run
    this.point = point
    this.#open = open
  }

  /** Turns that have arrived. Such a turn may be between two attempts. */
  get arrived(): Iterable<Waiter> {
    return this.#arrivals.values()
  }
  /** Turns of the protocol script that wait only for the result. */
  get watchers(): Iterable<Waiter> {
    return this.#watchers
  }
  get missing(): readonly string[] {
    return missingAt(this.point, this.#arrivals)
  }

  /**
   * Registers the arrival of a required agent's turn, in that attempt, and waits for the others; `signal` withdraws the
   * arrival. `passedMs`: time for which it has waited in earlier processes.
   */
  arrive(
    { passedMs, ...waiter }: Waiter & { passedMs: number },
    attempt: number,
    data: unknown,
    signal: AbortSignal,
  ): Promise<SyncResult> {
    const { agent, turn } = waiter
    const late = this.#late.get(agent)
    if (late) {
      this.#late.delete(agent)
      throw tooLate(agent.name, this, late)
    }
    const former = this.#arrivals.get(agent.name)
    // An attempt after a crash that brings something else replaces the arrival of the earlier attempt.
    if (former && (former.turn !== turn || former.attempt >= attempt)) throw twice(agent.name, this)
    return new Promise((resolve, reject) => {
      const arrival: Arrival = { ...waiter, attempt, data, resolve, reject }
      this.#arrivals.set(agent.name, arrival)
      onAbort(signal, () => {
        if (this.#arrivals.get(agent.name) === arrival) this.#arrivals.delete(agent.name)
        this.judge()
      })
      const leftMs = Math.max(0, this.point.timeoutMs - passedMs)
      this.#timer ??= this.#core.clock.timer(leftMs, () => this.#timeIsUp())
      this.judge()
    })
  }

  /**
   * Waits, for the script, for the result of the last generation that it has not received, or of the next one; `signal`
   * ends the wait.
   */
  watch(waiter: Waiter, signal: AbortSignal): Promise<SyncResult> {
    return new Promise((resolve, reject) => {
      const news = this.#news
      this.#news = undefined
      if (news) return settle([{ resolve, reject }], news)
      const watcher = { ...waiter, resolve, reject }
      this.#watchers.add(watcher)
      onAbort(signal, () => {
        this.#watchers.delete(watcher)
        this.judge()
      })
      this.judge()
    })
  }

  /** Ends the generation now, as `onTimeout` says. `reason`: cause of the error that an 'abort' rejects with. */
  giveUp(reason: DramatisError): void {
    if (this.#open.has(this)) this.#end({ text: reason.message, advice: '', cause: reason })
  }

  /** Ends the open generation if its time has come: an agent has arrived or left, or is gone permanently. */
  judge(): void {
    if (this.#arrivals.size === 0) this.#stopTimer()
    if (this.#arrivals.size + this.#watchers.size === 0) {
      this.#open.delete(this)
      return
    }
    this.#open.add(this)
    const fate = fateOf(this.point, this.#arrivals, (name) => this.#isGone(name))
    if (fate === 'complete') this.#end(undefined)
    else if (fate === 'lost') {
      const gone = this.missing.filter((name) => this.#isGone(name))
      this.#end({ text: `${gone.join(', ')} ${are(gone)} gone for good.`, advice: ' The log says why.' })
    }
  }

  #isGone(name: string): boolean {
    const agent = this.#core.directory.agent(name, this.run)
    return !agent || agent.removed || agent.gone !== undefined
  }

  #timeIsUp(): void {
    const { missing } = this
    const { timeoutMs } = this.point
    const text = `${missing.join(', ')} did not arrive within ${timeoutMs} ms of the first arrival.`
    this.#end({ text, advice: " Raise the point's timeoutMs, or look at what the missing were at." })
  }

  #stopTimer(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Ends the open generation. `why` is given if it ends without some agents. */
  #end(why: Why | undefined): void {
    const { point, run } = this
    const result = resultOf(point, this.generation, this.#arrivals)
    const error = why && point.onTimeout === 'abort' ? aborted(this, result, why) : undefined
    const closed: Closed = { result, at: this.#core.clock.now(), error }
    const waiting: Settling[] = [...this.#arrivals.values(), ...this.#watchers]
    this.#news = this.#watchers.size > 0 ? undefined : closed
    this.#arrivals.clear()
    this.#watchers.clear()
    this.#stopTimer()
    this.#open.delete(this)
    this.generation += 1
    this.#noteLate(closed)
    this.#core.journal.record(run, { kind: 'sync', point: point.name, result, ...(error && { error }) })
    if (why && point.onTimeout === 'notify') this.#report(result, why)
    settle(waiting, closed)
  }

  #noteLate(closed: Closed): void {
    for (const name of closed.result.missing) {
      const agent = this.#core.directory.agent(name, this.run)
      if (agent) this.#late.set(agent, closed)
    }
  }

  // ---- what an earlier process has done

  /** Takes up a generation that ended there. `isHeard`: the script has waited for its result. */
  restore(closed: Closed, isHeard: boolean): void {
    this.generation = closed.result.generation + 1
    this.#news = isHeard ? undefined : closed
    this.#noteLate(closed)
  }

  /** Notes that an agent has come there: it is not late any more. */
  came(agent: Agent): void {
    this.#late.delete(agent)
  }

  /** Notes that the script has got its result there. */
  heard(): void {
    this.#news = undefined
  }

  /** Writes a report into the log, where a script reads it. Nothing is delivered. */
  #report({ generation, arrived, missing, timedOut }: SyncResult, { text }: Why): void {
    const point = this.point.name
    const { memory, bytes } = this.#core.frames.make({
      kind: SEND,
      type: 'report',
      step: LOG_ONLY,
      recipient: ORCHESTRATOR_INDEX,
      run: this.run.index,
      content: `Generation ${generation} of sync point "${point}" went on without ${missing.join(', ')}: ${text}`,
      data: JSON.stringify({ event: 'sync', point, generation, arrived, missing, timedOut }),
    })
    this.#core.journal.appendOwned(this.run, memory, bytes)
  }
}

function settle(waiting: readonly Settling[], { result, error }: Closed): void {
  for (const { resolve, reject } of waiting) {
    if (error) reject(error)
    else resolve(result)
  }
}

const are = (names: readonly string[]) => (names.length === 1 ? 'is' : 'are')
const listed = (names: readonly string[]) => names.join(', ') || 'nobody'

function aborted({ point, run }: SyncGenerations, result: SyncResult, why: Why): SyncPointTimeoutError {
  const { generation, arrived, missing } = result
  return new SyncPointTimeoutError(
    `Generation ${generation} of sync point "${point.name}" was aborted: ${why.text} Arrived: ${listed(arrived)}; missing: ${listed(missing)}.${why.advice}`,
    { point: point.name, generation, runId: run.id, arrived, missing, timeoutMs: point.timeoutMs },
    why.cause,
  )
}

function tooLate(
  agent: string,
  { point, run, generation: next }: SyncGenerations,
  closed: Closed,
): SyncPointTimeoutError {
  const { generation, arrived } = closed.result
  const when = new Date(closed.at).toISOString()
  return new SyncPointTimeoutError(
    `Agent "${agent}" came too late to sync point "${point.name}": generation ${generation} was closed at ${when} without it; arrived: ${listed(arrived)}. If it comes again it arrives in generation ${next}.`,
    { agent, point: point.name, generation, runId: run.id, closedAt: closed.at, arrived, next },
  )
}

const twice = (agent: string, { point, generation }: SyncGenerations) =>
  new MessageRejectedError(
    `Agent "${agent}" waits at sync point "${point.name}" already (generation ${generation}); it can arrive once in each. Await that before it arrives again.`,
    { agent, point: point.name, generation },
  )

export const syncPointExits = (syncPoints: SyncPoints): Reader => ({
  kinds: ['agent.status'],
  next(batch) {
    for (const record of batch)
      if (record.kind === 'agent.status' && (record.status === 'failed' || record.status === 'stopped'))
        syncPoints.left(record.agent)
  },
})

export class SyncPoints {
  readonly #core: Core
  readonly #declared = new Map<string, SyncPointSettings>()
  #solitary: string | undefined
  readonly #open = new Set<SyncGenerations>()
  readonly #inRuns = new WeakMap<RunState, Map<string, SyncGenerations>>()

  constructor(core: Core) {
    this.#core = core
  }

  get verbs(): [Verb, HostVerb][] {
    return [
      [
        'sync',
        (args, caller, signal) => {
          const { point, data } = args as { point: unknown; data: unknown }
          return this.arrive(caller.run, point, caller, data, signal, caller.passedMs)
        },
      ],
      ['synced', (args, caller, signal) => this.watch(caller.run, (args as { point: unknown }).point, caller, signal)],
    ]
  }

  declare(points: readonly SyncPointSettings[]): void {
    for (const point of points) this.#declared.set(point.name, point)
  }

  /** Makes every undeclared point a point for that agent alone: a test of one agent has no other agents. */
  declareFor(agent: string): void {
    this.#solitary = agent
  }

  get open(): Iterable<SyncGenerations> {
    return this.#open
  }

  /**
   * Registers the arrival of a turn at the point, with its data (undefined: none), and waits for the others.
   * `passedMs`: time for which it has waited in earlier processes.
   */
  arrive(
    run: RunState,
    name: unknown,
    waiter: Waiter,
    data: unknown,
    signal: AbortSignal,
    passedMs = 0,
  ): Promise<SyncResult> {
    const point = this.#point(name, 'context.sync')
    const { agent, turn } = waiter
    if (!point.requiredAgents.includes(agent.name)) throw notRequired(agent.name, agent.index, point)
    if (run.ending) throw run.ending
    const envelope = agent.messageOf(turn)
    if (envelope?.run !== run)
      throw new TurnEndedError(`context.sync: agent "${agent.name}" has no such turn open.`, { agent: agent.name })
    return this.#in(run, point).arrive({ ...waiter, passedMs }, envelope.attempt, data, signal)
  }

  /** Waits, for the script, for the result of the point, without an arrival. */
  watch(run: RunState, name: unknown, waiter: Waiter, signal: AbortSignal): Promise<SyncResult> {
    const { agent } = waiter
    const point = this.#point(name, 'orchestrator.synced')
    if (agent.index !== ORCHESTRATOR_INDEX)
      throw new ConfigurationError(`synced: only a protocol script has that verb; agent "${agent.name}" is none.`, {
        path: 'synced',
        agent: agent.name,
      })
    if (run.ending) throw run.ending
    return this.#in(run, point).watch(waiter, signal)
  }

  /** Returns the generations of a point in that run; undefined if it is not declared any more. */
  of(run: RunState, name: string): SyncGenerations | undefined {
    const point = this.#declared.get(name)
    return point && this.#in(run, point)
  }

  /** Ends generations that wait for an agent, if it is gone permanently. */
  left(agent: string): void {
    for (const generations of [...this.#open]) if (generations.point.requiredAgents.includes(agent)) generations.judge()
  }

  #point(name: unknown, verb: string): SyncPointSettings {
    const point = typeof name === 'string' ? (this.#declared.get(name) ?? this.#undeclared(name)) : undefined
    if (point) return point
    const declared = [...this.#declared.keys()]
    const meant = typeof name === 'string' ? nearest(name, declared) : undefined
    const advice = meant === undefined ? '' : ` Did you mean "${meant}"?`
    const there =
      declared.length === 0 ? 'this team has none (option syncPoints)' : `syncPoints declares ${declared.join(', ')}`
    throw new ConfigurationError(`${verb}: there is no sync point ${shown(name)}; ${there}.${advice}`, {
      path: verb,
      point: shown(name),
      declared,
    })
  }

  #undeclared(name: string): SyncPointSettings | undefined {
    if (this.#solitary === undefined) return undefined
    return { name, requiredAgents: [this.#solitary], timeoutMs: 1, onTimeout: 'proceed', dataExchange: true }
  }

  #in(run: RunState, point: SyncPointSettings): SyncGenerations {
    const points = this.#inRuns.get(run) ?? new Map<string, SyncGenerations>()
    this.#inRuns.set(run, points)
    const generations = points.get(point.name) ?? new SyncGenerations(this.#core, run, point, this.#open)
    points.set(point.name, generations)
    return generations
  }
}

function notRequired(agent: string, index: number, { name, requiredAgents }: SyncPointSettings): ConfigurationError {
  const advice = index === ORCHESTRATOR_INDEX ? 'A script watches it with synced.' : 'Add it to requiredAgents.'
  return new ConfigurationError(
    `context.sync: "${agent}" is not required at sync point "${name}", so it cannot arrive there; required: ${requiredAgents.join(', ')}. ${advice}`,
    { path: 'context.sync', agent, point: name, requiredAgents: [...requiredAgents] },
  )
}
