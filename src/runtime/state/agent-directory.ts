/** Who has which index: the agents of the team, and those of its runs. */
import { ConfigurationError } from '../../errors.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import { Cell } from './cell.ts'
import type { CellSettings } from './cell-settings.ts'
import type { RunState } from './run-state.ts'

export class Seats {
  readonly #team: TeamMemory
  /** The agents, by index; the first instance of each. */
  readonly cells: Cell[] = []
  /** All instances of all agents. */
  readonly actors: Cell[] = []
  /** Indices that agents of runs have had. */
  readonly #free: number[] = []
  readonly #byName = new Map<string, Cell>()
  #shortestQueueMs = Number.POSITIVE_INFINITY

  constructor(team: TeamMemory) {
    this.#team = team
  }

  /**
   * A name of the team keeps its index for ever, so that logs and threads that know it stay right when it comes again. A
   * name of a run has its index as long as the run.
   */
  add(name: string, settings: CellSettings, run?: RunState): Cell {
    const former = run ? this.#ownOf(run, name) : this.#byName.get(name)
    const index = former?.index ?? this.#free.shift() ?? this.cells.length
    const cell = new Cell(index, name, settings, run, former)
    if (cell.index >= this.#team.size)
      throw new ConfigurationError(
        `Agent "${name}" is one too many: a team has up to ${this.#team.size} names in its time, and these are used up. Names that were removed may be used again.`,
        { agent: name, names: this.#team.size },
      )
    this.#seat(cell)
    if (run) run.agents.set(name, index)
    else this.#byName.set(name, cell)
    if (settings.queueTimeoutMs !== false)
      this.#shortestQueueMs = Math.min(this.#shortestQueueMs, settings.queueTimeoutMs)
    const { capacity, bytes, maxMessageBytes } = settings.mailbox
    this.#team.open(cell.index, capacity, bytes, maxMessageBytes)
    return cell
  }

  /** In the place of who had the index before. */
  #seat(cell: Cell): void {
    const before = this.cells[cell.index]
    this.cells[cell.index] = cell
    const at = before ? this.actors.indexOf(before) : this.actors.length
    this.actors.splice(at, before?.instances.length ?? 0, ...cell.instances)
  }

  cell(name: string, run?: RunState): Cell | undefined {
    return (run && this.#ownOf(run, name)) ?? this.#byName.get(name)
  }

  #ownOf(run: RunState, name: string): Cell | undefined {
    const cell = run.agents.size === 0 ? undefined : this.cells[run.agents.get(name) ?? -1]
    return cell?.run === run ? cell : undefined // else somebody has the index by now
  }

  agents(run?: RunState): Cell[] {
    return this.cells.filter((cell) => cell.settings.counted && !cell.removed && (!cell.run || cell.run === run))
  }

  /** The agent of a run that had the index is gone. */
  vacate(index: number): void {
    this.#free.push(index)
  }

  get shortestQueueMs(): number | undefined {
    return Number.isFinite(this.#shortestQueueMs) ? this.#shortestQueueMs : undefined
  }

  names(): string[] {
    return this.cells.map((cell) => (cell.run ? '' : cell.name))
  }
}
