/** Runs that the team knows, by id and by state. */
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { DramatisError } from '../../shared/errors.ts'
import type { Cell } from '../host/agent.ts'
import { USER_INDEX } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { AgentGuards } from '../settings/role-shape.ts'
import type { Supervisor } from '../supervision/host.ts'
import { type Guards, isBefore, isBeside } from '../verbs/guards.ts'
import { type MultiAgentResult, type RunEnding, resultOf } from './result.ts'
import type { RunOptions } from './run.ts'
import type { RunHandle } from './run-handle.ts'

/*
 * Keeps the process alive while somebody waits for the team, or work is under way in it. The threads of a team do not:
 * an idle team that was forgotten lets its process end.
 */

export class Holds {
  readonly #clock: Pick<Scheduler, 'hold'>
  #open = 0
  #hold: Timer | undefined

  constructor(clock: Pick<Scheduler, 'hold'>) {
    this.#clock = clock
  }

  /** Begins a hold. Each `begin` needs an `end`. */
  begin(): void {
    this.#open += 1
    this.#hold ??= this.#clock.hold()
  }

  end(): void {
    this.#open -= 1
    if (this.#open > 0) return
    this.#hold?.cancel()
    this.#hold = undefined
  }

  /** Holds the process while that work is under way. */
  until<T>(work: Promise<T>): Promise<T> {
    this.begin()
    const done = () => this.end()
    work.then(done, done)
    return work
  }
}

export interface RunEntry {
  handle: RunHandle<unknown>
  /** True if the durable log has its options. */
  isKept: boolean
  options: RunOptions<unknown>
  readonly target: Cell
  /** Time limit of the run. Undefined: this process does not go on with it. */
  time: RunTime | undefined
  readonly clear: () => void
  result: MultiAgentResult<unknown> | undefined
  /** Checks of the query beside the run: it has no answer before they have passed. */
  checked?: Promise<void>
  /** True if only the log knows the query. */
  readonly takesQuery?: boolean
}

export class RunEntries {
  readonly #supervisor: Supervisor
  readonly #byId = new Map<string, RunEntry>()
  readonly #byState = new Map<RunState, RunEntry>()

  constructor(supervisor: Supervisor) {
    this.#supervisor = supervisor
  }

  add(entry: RunEntry): void {
    this.addId(entry)
    this.#byState.set(entry.handle.state, entry)
  }

  /** Adds a run that has no state in this process yet. */
  addId(entry: RunEntry): void {
    this.#byId.set(entry.handle.id, entry)
  }

  /** Makes the entry of a run that this process does not go on with. */
  idle(handle: RunHandle<unknown>, target: Cell = this.#supervisor.directory.cells[USER_INDEX]!): RunEntry {
    return {
      handle,
      isKept: true,
      options: {},
      target,
      time: undefined,
      clear: () => {},
      result: undefined,
    }
  }

  find(runId: string): RunEntry | undefined {
    return this.#byId.get(runId)
  }

  of(state: RunState): RunEntry | undefined {
    return this.#byState.get(state)
  }

  get all(): RunEntry[] {
    return [...this.#byId.values()]
  }

  /** The id may be that of another run from now on. */
  deleteId(runId: string): void {
    this.#byId.delete(runId)
  }

  deleteState(state: RunState): void {
    this.#byState.delete(state)
  }

  resultOf<T>(state: RunState, ending: RunEnding<T>, executionTimeMs: number): MultiAgentResult<T> {
    const agents = this.#supervisor.directory.agents(state).map(({ name }) => name)
    return resultOf(state, ending, executionTimeMs, agents, this.#supervisor)
  }
}

interface RunGuardsNeeds {
  readonly guards: Guards
  /** Guardrails of the team. */
  readonly checks: AgentGuards
  /** Ends a run with an error. */
  fail(entry: RunEntry, error: DramatisError): void
}

export class RunGuards {
  readonly #needs: RunGuardsNeeds

  constructor(needs: RunGuardsNeeds) {
    this.#needs = needs
  }

  /** True if queries are checked. */
  get asks(): boolean {
    return this.#needs.checks.input.length > 0
  }

  /**
   * Has the query checked, and begins the checks beside the run. Resolves to it, changed or not; to undefined if it is
   * refused.
   */
  async query(entry: RunEntry): Promise<string | undefined> {
    const { checks, guards } = this.#needs
    const { state } = entry.handle
    const place = { run: state, agent: null, on: 'input' } as const
    try {
      const query = await guards.inOrder(checks.input.filter(isBefore), state.query, place, state.ended)
      this.beside(entry, query)
      return query
    } catch (error) {
      this.#failed(entry, error)
      return undefined
    }
  }

  beside(entry: RunEntry, query = entry.handle.state.query): void {
    const { checks, guards } = this.#needs
    const { state } = entry.handle
    const besides = checks.input.filter(isBeside)
    if (besides.length === 0) return
    entry.checked = guards.atOnce(besides, query, { run: state, agent: null, on: 'input' }, state.ended)
    entry.checked.catch((error: unknown) => this.#failed(entry, error))
  }

  /** Checks whether an answer has to wait. */
  holds({ checked }: RunEntry): boolean {
    return checked !== undefined || this.#needs.checks.output.length > 0
  }

  /** Has the answer of a run checked, by all that checks it. Resolves to it, changed or not. */
  async answer({ handle, checked }: RunEntry, content: string): Promise<string> {
    const { checks, guards } = this.#needs
    if (checked) await checked
    if (checks.output.length === 0) return content
    const { state } = handle
    return guards.inOrder(checks.output, content, { run: state, agent: null, on: 'output' }, state.ended)
  }

  #failed(entry: RunEntry, error: unknown): void {
    if (entry.handle.state.over) return
    if (!(error instanceof DramatisError)) throw error
    this.#needs.fail(entry, error)
  }
}

interface RunTimeNeeds {
  readonly clock: Scheduler
  /** Called when the time is up. */
  expire(): void
}

export class RunTime {
  readonly #needs: RunTimeNeeds
  #leftMs: number
  /** Time since which the clock goes, monotonic ms. */
  #since: number
  #timer: Timer | undefined
  #isOver = false
  /** Time for which the clock has stood still, in ms. */
  #pausedMs = 0

  constructor(needs: RunTimeNeeds, limitMs: number) {
    this.#needs = needs
    this.#leftMs = limitMs
    this.#since = needs.clock.monotonic()
    this.#go()
  }

  /** Time that the run still has, in ms. */
  get leftMs(): number {
    return this.#timer ? this.#leftMs - (this.#needs.clock.monotonic() - this.#since) : this.#leftMs
  }

  get pausedMs(): number {
    return this.#pausedMs
  }

  pause(): void {
    if (!this.#timer) return
    this.#leftMs = this.leftMs
    this.#since = this.#needs.clock.monotonic()
    this.#timer.cancel()
    this.#timer = undefined
  }

  resume(): void {
    if (this.#timer || this.#isOver) return
    const now = this.#needs.clock.monotonic()
    this.#pausedMs += now - this.#since
    this.#since = now
    this.#go()
  }

  #go(): void {
    this.#timer = this.#needs.clock.timer(Math.max(0, this.#leftMs), () => this.#needs.expire(), true)
  }

  cancel(): void {
    this.pause()
    this.#isOver = true
  }
}
