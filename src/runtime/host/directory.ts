/** Directory of the agents of a team and of its runs, by index and by name. */
import type { Newcomer } from '../../actors/definition/assignment.ts'
import type { AgentStatus } from '../../actors/definition/task.ts'
import { MAX_AGENTS, type TeamMemory } from '../../mailbox/team-memory.ts'
import { ConfigurationError, shown, UnknownAgentError } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import { Cell, type CellSettings } from './agent.ts'
import type { Life } from './life.ts'
import type { RunState } from './run.ts'

export const USER_INDEX = 1
export const ORCHESTRATOR_INDEX = 2

/** An error names that many of the agents that there are. */
const MOST_NAMED = 20

export class AgentDirectory {
  readonly #team: TeamMemory
  readonly #newcomer: (name: string) => Cell | undefined
  /** Agents of the directory by index: the first instance of each. */
  readonly cells: Cell[] = []
  readonly actors: Cell[] = []
  /**
   * Instances that have a thread, by index. The list is replaced when one begins or ends, so that a reader keeps its
   * place.
   */
  living: readonly Cell[] = []
  #livingAt = new Map<number, readonly Cell[]>()
  /** Indices that run agents have had and that are free again. */
  readonly #free: number[] = []
  readonly #byName = new Map<string, Cell>()
  /** Places of names that the log of an earlier process has, and the team has not. */
  readonly #vacant = new Map<string, Cell>()
  /** Shortest `queueTimeoutMs` of the agents; undefined if none has one. To be read only. */
  shortestQueueMs: number | undefined
  #names: string | undefined
  /** Number of agents that were added so far. */
  additions = 0

  /** `newcomer` finds an agent that is in the registry but not in the team yet. */
  constructor(team: TeamMemory, newcomer: (name: string) => Cell | undefined = () => undefined) {
    this.#team = team
    this.#newcomer = newcomer
  }

  /**
   * Adds an agent. A team agent's name keeps its index for ever, so that logs and threads that know the index stay
   * right when the name is used again. It also takes the place, and the state, that an earlier process has left for its
   * name. The name of a run agent keeps its index only as long as the run.
   */
  add(name: string, settings: CellSettings, run?: RunState): Cell {
    const vacant = run ? undefined : this.#vacant.get(name)
    const former = run ? this.#ownOf(run, name) : (this.#byName.get(name) ?? vacant)
    const index = former?.index ?? this.#free.shift() ?? this.cells.length
    const cell = new Cell(index, name, settings, run, former)
    if (vacant) cell.state = vacant.state
    return this.#enter(cell)
  }

  /** Puts an agent of a run in the place, with the state, that an earlier process has left for it. */
  rejoin(name: string, settings: CellSettings, run: RunState, index: number): Cell {
    const former = this.cells[index]!
    const cell = new Cell(index, name, settings, run, former)
    cell.state = former.state
    return this.#enter(cell)
  }

  #enter(cell: Cell): Cell {
    const { index, name, run, settings } = cell
    if (cell.index >= this.#team.size)
      throw new ConfigurationError(
        `Agent "${name}" is one too many: a team has up to ${this.#team.size} names in its time, and these are used up. Names that were removed may be used again.`,
        { agent: name, names: this.#team.size },
      )
    this.additions += 1
    this.#place(cell)
    if (run) run.agents.set(name, index)
    else {
      this.#names = undefined
      this.#byName.set(name, cell)
      this.#vacant.delete(name)
    }
    if (settings.queueTimeoutMs !== false)
      this.shortestQueueMs = Math.min(this.shortestQueueMs ?? Number.POSITIVE_INFINITY, settings.queueTimeoutMs)
    const { capacity, bytes, maxMessageBytes } = settings.mailbox
    this.#team.open(cell.index, capacity, bytes, maxMessageBytes)
    return cell
  }

  /** Gives an instance a life, or takes note that it has none any more. */
  setLife(cell: Cell, life: Life | undefined): void {
    if (!cell.life !== !life) {
      const others = this.living.filter((each) => each !== cell)
      this.#setLiving(life ? [...others, cell] : others)
    }
    cell.life = life
    if (life) this.#team.wrote(cell.index) // what it has written before that was not read
  }

  #setLiving(cells: Cell[]): void {
    this.living = cells.sort((a, b) => a.index - b.index) // whichever thread was ready first
    this.#livingAt = new Map()
    for (const cell of cells) this.#livingAt.set(cell.index, [...this.livingAt(cell.index), cell])
  }

  livingAt(index: number): readonly Cell[] {
    return this.#livingAt.get(index) ?? []
  }

  /**
   * Gives the agents of the team the indices that the log of an earlier process has for their names. `ofRuns`: indices
   * of agents that belonged to runs. `free`: those of them that may be given to others.
   */
  reseat(wanted: ReadonlyMap<string, number>, ofRuns: Iterable<number>, free: Iterable<number>): void {
    this.#names = undefined
    const taken = new Set([...wanted.values(), ...ofRuns])
    const nameAt = new Map(Array.from(wanted, ([name, index]) => [index, name]))
    let next = 0
    const cells = [...this.cells]
    const seats = cells.map((cell) => {
      let index = wanted.get(cell.name)
      while (index === undefined) {
        if (!taken.has(next)) index = next
        next += 1
      }
      return { cell, index }
    })
    this.#makeRoom([...taken, ...seats.map(({ index }) => index)].reduce((most, index) => Math.max(most, index + 1), 0))
    for (const { cell, index } of seats) for (const each of cell.instances) each.index = index
    cells.sort((a, b) => a.index - b.index)
    this.cells.length = 0
    for (const cell of cells) {
      while (this.cells.length < cell.index) this.#leaveOut(nameAt.get(this.cells.length))
      this.cells.push(cell)
      const { capacity, bytes, maxMessageBytes } = cell.settings.mailbox
      this.#team.open(cell.index, capacity, bytes, maxMessageBytes)
    }
    for (const index of taken) while (this.cells.length <= index) this.#leaveOut(nameAt.get(this.cells.length))
    this.#setLiving([...this.living])
    this.#free.push(...free)
    this.actors.splice(0, this.actors.length, ...this.cells.flatMap((cell) => (cell.removed ? [] : cell.instances)))
  }

  /** Leaves room for as many further names as there was before the log of an earlier process had some. */
  #makeRoom(names: number): void {
    if (names > MAX_AGENTS)
      throw new ConfigurationError(
        `The durable log has had so many names of agents that ${names} are needed with those of this team, and ${MAX_AGENTS} are possible. Begin another log (stateManagement.path).`,
        { path: 'stateManagement', names, most: MAX_AGENTS },
      )
    const spare = this.#team.size - this.cells.length
    for (const { index } of this.cells) this.#team.close(index)
    this.#team.grow(Math.min(MAX_AGENTS, names + spare))
  }

  /** Keeps the next index for a name of the log that no agent has any more, or for an agent of a run. */
  #leaveOut(name = ''): void {
    const cell = new Cell(this.cells.length, name, this.cells[0]!.settings)
    cell.removed = true
    this.cells.push(cell)
    if (name !== '') this.#vacant.set(name, cell)
  }

  /** Puts an agent in the place of the one that had its index before. */
  #place(cell: Cell): void {
    const before = this.cells[cell.index]
    this.cells[cell.index] = cell
    const at = before ? this.actors.indexOf(before) : -1
    if (before && at >= 0) this.actors.splice(at, before.instances.length, ...cell.instances)
    else this.actors.push(...cell.instances) // nobody was there, or only the place of an earlier process
  }

  present(index: number): Cell | undefined {
    const cell = this.cells[index]
    return cell?.removed ? undefined : cell
  }

  /** Returns the agent of that name. If no agent has the name now, returns the last one that had it. */
  cell(name: string, run?: RunState): Cell | undefined {
    return (run && this.#ownOf(run, name)) ?? this.#byName.get(name)
  }

  /** Returns the agent of that name. An agent that only the registry knows joins the team. */
  find(name: string, run?: RunState): Cell | undefined {
    return this.cell(name, run) ?? this.#newcomer(name)
  }

  /** Returns the agent of that name, even if it was removed. Throws `UnknownAgentError` if there is none. */
  require(name: string, run?: RunState): Cell {
    const cell = this.find(name, run)
    if (cell?.settings.isAgent) return cell
    throw this.unknown(name, run)
  }

  /** Returns the agent of that name if it was not removed. Throws `UnknownAgentError` if there is none. */
  requirePresent(name: string, run?: RunState): Cell {
    const cell = this.require(name, run)
    if (!cell.removed) return cell
    throw this.unknown(name, run)
  }

  unknown(name: string, run?: RunState): UnknownAgentError {
    const agents = this.agents(run).map((cell) => cell.name)
    const near = typeof name === 'string' ? nearest(name, agents) : undefined // JavaScript callers can pass anything
    const named = agents.slice(0, MOST_NAMED)
    const others = agents.length - named.length
    const all = `${named.join(', ')}${others > 0 ? ` and ${others} others` : ''}`
    return new UnknownAgentError(
      `No agent of this team is named ${shown(name)}${near ? `; did you mean "${near}"?` : `; there are ${all}.`}`,
      { agent: name, agents: named },
    )
  }

  #ownOf(run: RunState, name: string): Cell | undefined {
    const cell = run.agents.size === 0 ? undefined : this.cells[run.agents.get(name) ?? -1]
    return cell?.run === run ? cell : undefined // otherwise another agent has the index by now
  }

  /** Returns the present agents of the team, and those that belong to this run alone. */
  agents(run?: RunState): Cell[] {
    return this.cells.filter((cell) => cell.settings.isAgent && !cell.removed && (!cell.run || cell.run === run))
  }

  vacate(index: number): void {
    this.#free.push(index)
  }

  name(index: number): string {
    return this.cells[index]?.name ?? `#${index}`
  }

  /** Names by index, one a line, for the threads that start now. The same text until an agent joins the team. */
  get names(): string {
    this.#names ??= this.cells.map((cell) => (cell.run ? '' : cell.name)).join('\n')
    return this.#names
  }

  /** Returns the agents that have joined the team since it had these names. */
  newcomersTo(names: string): Newcomer[] {
    const now = this.names
    if (now === names) return []
    const before = names.split('\n')
    return now.split('\n').flatMap((name, index) => (name === '' || name === before[index] ? [] : [{ name, index }]))
  }
}

const BY_WORK: readonly AgentStatus[] = [
  'running',
  'waiting',
  'idle',
  'starting',
  'restarting',
  'passivated',
  'failed',
  'stopped',
]

export const busiest = (statuses: readonly AgentStatus[]): AgentStatus =>
  statuses.length === 1 ? statuses[0]! : (BY_WORK.find((status) => statuses.includes(status)) ?? 'idle')

/** Checks whether an instance takes messages: with its thread, or passivated. */
export const isReady = ({ life, dormant }: Cell): boolean => life?.ready === true || dormant !== false

export const sumOf = ({ instances }: Cell, figure: (each: Cell) => number): number =>
  instances.reduce((sum, each) => sum + figure(each), 0)

/** Returns the status of an agent: that of its busiest instance. */
export const statusOf = ({ instances }: Cell): AgentStatus => busiest(instances.map(statusOfOne))

/**
 * Returns the status of one instance. Its thread is the same between turns and within them, so the status follows from
 * its mailbox.
 */
function statusOfOne(cell: Cell): AgentStatus {
  if (cell.status !== 'idle' || cell.mailbox.handed.isEmpty) return cell.status
  return waitsForOthers(cell) ? 'waiting' : 'running'
}

/**
 * Checks whether each turn that an instance has under way waits: for other agents, for a person, for its reader, or,
 * when the person has answered, for the turn that has its place.
 */
export function waitsForOthers(cell: Cell): boolean {
  const calls = [...cell.first.calls.values()].filter(({ isOwnWork }) => !isOwnWork)
  const waiting = new Set([...cell.first.open.values(), ...calls].map(({ turn }) => turn))
  const { life } = cell
  for (const { turn, run } of cell.underWay)
    if (!waiting.has(turn) && !life?.parked(run) && !life?.awaitReader.has(turn) && !lacksPlace(cell, turn, run))
      return false
  return true
}

const lacksPlace = (cell: Cell, turn: number, run: RunState): boolean =>
  cell.mailbox.handed.shelved.has(turn) && !cell.mayReturn(run)

/*
 * Owners of threads: a thread belongs to the caller of the run that began it. One that was begun without a caller, or
 * of which none is known, belongs to nobody.
 */

/** Threads whose owners are kept, beside those in use. */
const MOST = 10_000

export class ThreadOwners {
  /** Owners by thread; the thread that was used last is last. */
  readonly #owners = new Map<string, string | null>()
  readonly #isInUse: (threadId: string) => boolean
  readonly #forgotten: (threadId: string) => void

  /** `isInUse` keeps a thread. `forgotten`: called with each that is not kept, so that nothing of it is left. */
  constructor(isInUse: (threadId: string) => boolean, forgotten: (threadId: string) => void) {
    this.#isInUse = isInUse
    this.#forgotten = forgotten
  }

  has(threadId: string): boolean {
    return this.#owners.has(threadId)
  }

  /** Returns whom a thread belongs to. One that nobody has begun begins now. */
  begin(threadId: string, caller: string | null): string | null {
    const owner = this.#owners.get(threadId)
    this.set(threadId, owner === undefined ? caller : owner)
    return this.#owners.get(threadId)!
  }

  set(threadId: string, owner: string | null): void {
    this.#owners.delete(threadId)
    this.#owners.set(threadId, owner)
    if (this.#owners.size > MOST) this.#forgetOldest()
  }

  #forgetOldest(): void {
    for (const oldest of this.#owners.keys()) {
      if (this.#isInUse(oldest)) continue
      this.#owners.delete(oldest)
      return this.#forgotten(oldest)
    }
  }

  all(): Iterable<[threadId: string, owner: string | null]> {
    return this.#owners
  }
}
