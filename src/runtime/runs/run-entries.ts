/** Runs that the team knows, by id and by state. */
import { USER_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { type MultiAgentResult, type RunEnding, resultOf } from './result.ts'
import type { RunOptions } from './run.ts'
import type { RunHandle } from './run-handle.ts'
import type { RunTime } from './run-time.ts'

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

  /** Makes the result of a run as of this moment. */
  resultOf<T>(state: RunState, ending: RunEnding<T>, executionTimeMs: number): MultiAgentResult<T> {
    const agents = this.#supervisor.directory.agents(state).map(({ name }) => name)
    return resultOf(state, ending, executionTimeMs, agents, this.#supervisor)
  }
}
