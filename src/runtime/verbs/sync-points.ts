/**
 * Sync points of a team: the agents that may arrive, and the state of each point in each run (sync-generation.ts). An
 * arrival is a call to the host, and so a logged step: it survives the exit of its agent's thread, and ends with its
 * turn. Rule 31.
 */
import type { SyncResult } from '../../actors/definition/context/context.ts'
import type { Verb } from '../../actors/definition/trust.ts'
import type { Scheduler } from '../../clock.ts'
import { ConfigurationError, shown, TurnEndedError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { SyncPointSettings } from '../settings/sync-points.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Cell, Waiter } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import type { HostVerb } from './host-verb.ts'
import { type Closed, SyncGenerations } from './sync-generation.ts'
import type { OpenGeneration } from './sync-rules.ts'

interface Needs {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
}

export class SyncPoints {
  readonly #needs: Needs
  readonly #declared = new Map<string, SyncPointSettings>()
  #solitary: string | undefined
  readonly #open = new Set<SyncGenerations>()
  readonly #inRuns = new WeakMap<RunState, Map<string, SyncGenerations>>()

  constructor(needs: Needs) {
    this.#needs = needs
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

  /** Generations that a turn waits for now. */
  get open(): Iterable<OpenGeneration> {
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
    const { cell, turn } = waiter
    if (!point.requiredAgents.includes(cell.name)) throw notRequired(cell.name, cell.index, point)
    if (run.ending) throw run.ending
    const envelope = cell.messageOf(turn)
    if (envelope?.run !== run)
      throw new TurnEndedError(`context.sync: agent "${cell.name}" has no such turn open.`, { agent: cell.name })
    return this.#in(run, point).arrive({ ...waiter, passedMs }, envelope.attempt, data, signal)
  }

  /** Waits, for the script, for the result of the point, without an arrival. */
  watch(run: RunState, name: unknown, waiter: Waiter, signal: AbortSignal): Promise<SyncResult> {
    const { cell } = waiter
    const point = this.#point(name, 'orchestrator.synced')
    if (cell.index !== ORCHESTRATOR_INDEX)
      throw new ConfigurationError(`synced: only a protocol script has that verb; agent "${cell.name}" is none.`, {
        path: 'synced',
        agent: cell.name,
      })
    if (run.ending) throw run.ending
    return this.#in(run, point).watch(waiter, signal)
  }

  /** Takes up a generation that an earlier process has ended. `isHeard`: the script has waited for its result. */
  restore(run: RunState, name: string, closed: Closed, isHeard: boolean): void {
    this.#known(run, name)?.restore(closed, isHeard)
  }

  /** Notes that an agent has come in an earlier process: it is not late any more. */
  came(run: RunState, name: string, cell: Cell): void {
    this.#known(run, name)?.came(cell)
  }

  /** Notes that the script has got a result in an earlier process. */
  heard(run: RunState, name: string): void {
    this.#known(run, name)?.heard()
  }

  #known(run: RunState, name: string): SyncGenerations | undefined {
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
    const generations = points.get(point.name) ?? new SyncGenerations(this.#needs, run, point, this.#open)
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
