/** Runs that the team knows, by id and by state: those under way, those that queue, and those that are over. */
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { DramatisError, TeamOverloadedError } from '../../shared/errors.ts'
import { Turns } from '../../shared/turns.ts'
import type { Agent } from '../host/agent.ts'
import { USER_INDEX } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { Tracing } from '../observers/tracing.ts'
import type { AgentGuards } from '../settings/role-shape.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { Supervisor } from '../supervision/host.ts'
import { type Guards, isBefore, isBeside } from '../verbs/guards.ts'
import { type MultiAgentResult, type RunEnding, resultOf } from './result.ts'
import type { RunOptions } from './run.ts'
import { type RunHandle, RunViews } from './run-handle.ts'
import type { RunTime } from './run-time.ts'

/*
 * Keeps the process alive while somebody waits for the team, or work is under way in it. The threads of a team do not:
 * an idle team that was forgotten lets its process end.
 */

export class Holds {
  readonly #clock: Pick<Scheduler, 'hold'>
  #open = 0
  #hold: Timer | undefined
  #isOver = false

  constructor(clock: Pick<Scheduler, 'hold'>) {
    this.#clock = clock
  }

  /** Begins a hold. Each `begin` needs an `end`. */
  begin(): void {
    this.#open += 1
    if (!this.#isOver) this.#hold ??= this.#clock.hold()
  }

  /** Holds nothing any more: the team is closed, and turns that were set aside in it never end here. */
  over(): void {
    this.#isOver = true
    this.#hold?.cancel()
    this.#hold = undefined
  }

  end(): void {
    this.#open -= 1
    if (this.#open > 0) return
    this.#hold?.cancel()
    this.#hold = undefined
  }

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
  readonly target: Agent
  /** Time limit of the run. Undefined: this process does not go on with it. */
  time: RunTime | undefined
  readonly clear: () => void
  result: MultiAgentResult<unknown> | undefined
  /** Checks of the query beside the run: it has no answer before they have passed. */
  checked?: Promise<void>
  /** True if only the log knows the query. */
  readonly takesQuery?: boolean
}

/** Number of runs that may be under way at the same time, in one team or in all that share it. */
export class RunRoom {
  /** Number for all processes together. */
  readonly #limit: number
  readonly #lines = new Set<RunLine>()
  readonly #turns = new Turns()
  most: number

  constructor(limit: number) {
    this.#limit = limit
    this.most = limit
  }

  /** Divides the number among so many processes. */
  divide(processes: number): void {
    this.most = Math.max(1, Math.floor(this.#limit / processes))
    this.startNext()
  }

  enter(line: RunLine): void {
    this.#lines.add(line)
  }

  leave(line: RunLine): void {
    this.#lines.delete(line)
  }

  get isFull(): boolean {
    let taken = 0
    for (const line of this.#lines) taken += line.taken
    return taken >= this.most
  }

  /**
   * Lets runs begin that queue: those of the tenants in turns, and within a tenant by their priority, then in the order
   * in which they came.
   */
  startNext(): void {
    while (!this.isFull) {
      const heads = new Map<string, { line: RunLine; entry: RunEntry }>()
      for (const line of this.#lines)
        for (const entry of line.heads()) {
          const tenant = tenantOf(entry)
          const other = heads.get(tenant)
          if (!other || compared(entry, other.entry) < 0) heads.set(tenant, { line, entry })
        }
      const next = this.#turns.next(heads.keys())
      if (next === undefined) return
      const { line, entry } = heads.get(next)!
      this.#turns.served(next, 1, line.weights)
      line.startQueued(entry)
    }
  }
}

const tenantOf = ({ handle }: RunEntry): string => handle.state.tenant ?? ''

const compared = (one: RunEntry, other: RunEntry): number =>
  (other.options.priority ?? 0) - (one.options.priority ?? 0) ||
  one.handle.state.startedAt - other.handle.state.startedAt

/** Runs that are under way, and runs that queue until there is room (`maxConcurrentRuns`, `maxQueuedRuns`). */
export class RunLine {
  readonly #limits: LineLimits
  readonly #holds: Holds
  readonly #start: (next: RunEntry) => void
  readonly room: RunRoom
  /** Runs that wait, by their tenants. */
  readonly #queue = new Map<string, RunEntry[]>()
  #queued = 0
  readonly #running = new Set<RunEntry>()
  /** Runs under way that wait for a person: they do not count. */
  readonly #asking = new Set<RunEntry>()
  /** Requests with a key under way that wait for nobody: who waits for them has a place, so they do not count. */
  readonly #keyed = new Set<RunEntry>()
  refusals = 0

  /** `start`: called with each queued run that may start now, which it starts at once. */
  constructor(
    limits: LineLimits,
    holds: Holds,
    start: (next: RunEntry) => void,
    room = new RunRoom(limits.maxConcurrentRuns),
  ) {
    this.#limits = limits
    this.#holds = holds
    this.#start = start
    this.room = room
    room.enter(this)
  }

  get queued(): readonly RunEntry[] {
    return [...this.#queue.values()].flat().sort(compared)
  }

  get all(): RunEntry[] {
    return [...this.queued, ...this.#running]
  }

  /** Weights of tenants in their turns. */
  get weights(): Readonly<Record<string, number>> | undefined {
    return this.#limits.tenants.weights
  }

  /** Yields the next run of each tenant that has room for one. */
  *heads(): IterableIterator<RunEntry> {
    for (const [tenant, [first]] of this.#queue) if (first && !this.#isFullFor(tenant)) yield first
  }

  /** Number of runs of a tenant under way that count. */
  #takenBy(tenant: string): number {
    let taken = 0
    for (const entry of this.#running)
      if (tenantOf(entry) === tenant && !this.#asking.has(entry) && !this.#keyed.has(entry)) taken += 1
    return taken
  }

  #isFullFor(tenant: string): boolean {
    const { maxConcurrentRuns } = this.#limits.tenants
    return tenant !== '' && maxConcurrentRuns !== undefined && this.#takenBy(tenant) >= maxConcurrentRuns
  }

  get isFull(): boolean {
    return this.room.isFull
  }

  /** Number of runs under way that count. */
  get taken(): number {
    return this.#running.size - this.#asking.size - this.#keyed.size
  }

  get isEmpty(): boolean {
    return this.#running.size + this.#queued === 0
  }

  /** True if no run is under way but those that wait for a person. */
  get onlyAsks(): boolean {
    return this.#running.size + this.#queued === this.#asking.size
  }

  get counts(): { running: number; queued: number } {
    return { running: this.#running.size, queued: this.#queued }
  }

  /**
   * Checks whether a new run of a tenant has to wait.
   *
   * @throws TeamOverloadedError when the queue is full, that of the team or that of the tenant.
   */
  admit(tenant = ''): boolean {
    const { running, queued } = this.counts
    const waits = this.isFull || this.#isFullFor(tenant)
    if (waits && tenant !== '') this.#admitOf(tenant)
    if (waits && queued >= this.#limits.maxQueuedRuns) {
      this.refusals += 1
      throw new TeamOverloadedError(
        `${tenant === '' ? `${running} runs are under way and ${queued} wait; that is` : 'The runs under way and those that wait are'} all this team takes (maxConcurrentRuns, maxQueuedRuns). Try again later.`,
        tenant === '' ? { running, queued } : {},
      )
    }
    return waits
  }

  #admitOf(tenant: string): void {
    const { maxQueuedRuns } = this.#limits.tenants
    const queued = this.#queue.get(tenant)?.length ?? 0
    if (maxQueuedRuns === undefined || queued < maxQueuedRuns) return
    this.refusals += 1
    const running = this.#takenBy(tenant)
    const option = 'tenants.maxQueuedRuns'
    throw new TeamOverloadedError(
      `${running} runs of tenant "${tenant}" are under way and ${queued} wait; that is all it may have (${option}). Try again later.`,
      { option, tenant, running, queued, limit: maxQueuedRuns },
    )
  }

  /** Adds a run to the queue, behind those of its tenant with its priority. */
  enqueue(entry: RunEntry): void {
    const tenant = tenantOf(entry)
    const queue = this.#queue.get(tenant) ?? []
    const priority = entry.options.priority ?? 0
    const at = queue.findIndex((other) => (other.options.priority ?? 0) < priority)
    queue.splice(at < 0 ? queue.length : at, 0, entry)
    this.#queue.set(tenant, queue)
    this.#queued += 1
  }

  #dequeue(entry: RunEntry): boolean {
    const tenant = tenantOf(entry)
    const queue = this.#queue.get(tenant) ?? []
    const at = queue.indexOf(entry)
    if (at < 0) return false
    queue.splice(at, 1)
    if (queue.length === 0) this.#queue.delete(tenant)
    this.#queued -= 1
    return true
  }

  /** Option that a queued run waits for. */
  optionOf(entry: RunEntry): { option: string; limit: number } {
    const { tenants } = this.#limits
    if (this.isFull || tenants.maxConcurrentRuns === undefined || !this.#isFullFor(tenantOf(entry)))
      return { option: 'maxConcurrentRuns', limit: this.room.most }
    return { option: 'tenants.maxConcurrentRuns', limit: tenants.maxConcurrentRuns }
  }

  /** Checks whether a run has to wait for others, also for those of its tenant. */
  waits(entry: RunEntry): boolean {
    return this.isFull || this.#isFullFor(tenantOf(entry))
  }

  /** All agents of a run under way may be between two threads: it holds the process itself. */
  begin(entry: RunEntry): void {
    if (this.#running.has(entry)) return
    this.#running.add(entry)
    if (entry.handle.state.asked) this.#keyed.add(entry)
    this.#holds.begin()
  }

  asks(entry: RunEntry): void {
    if (!this.#running.has(entry)) return
    this.#asking.add(entry)
    this.#keyed.delete(entry)
    this.room.startNext()
  }

  /** Notes that a run goes on: at once, also if others have begun in its place. */
  goesOn(entry: RunEntry): void {
    this.#asking.delete(entry)
    if (this.#running.has(entry) && entry.handle.state.asked) this.#keyed.add(entry)
  }

  leave(entry: RunEntry): void {
    if (this.#running.delete(entry)) this.#holds.end()
    this.#asking.delete(entry)
    this.#keyed.delete(entry)
    this.#dequeue(entry)
    this.room.startNext()
  }

  startQueued(entry: RunEntry): void {
    if (this.#dequeue(entry)) this.#start(entry)
  }
}

type LineLimits = Pick<TeamSettings, 'maxConcurrentRuns' | 'maxQueuedRuns' | 'tenants'>

interface Acts {
  begin(entry: RunEntry): void
  cancel(run: RunState, reason: string): void
  started(): Promise<void>
}

/** Runs that the team knows, with what all parts of the run book share. */
export class RunEntries {
  readonly supervisor: Supervisor
  readonly settings: TeamSettings
  readonly tracing: Tracing | undefined
  /** Keeps the process alive while work is under way beside the runs, or somebody waits. */
  readonly holds: Holds
  readonly line: RunLine
  /** State of the team as handles of runs and readers of events look it up. */
  readonly host: RunViews
  readonly #byId = new Map<string, RunEntry>()
  readonly #byState = new Map<RunState, RunEntry>()

  constructor(
    supervisor: Supervisor,
    settings: TeamSettings,
    tracing: Tracing | undefined,
    acts: Acts,
    room: RunRoom | undefined,
  ) {
    this.supervisor = supervisor
    this.settings = settings
    this.tracing = tracing
    this.holds = new Holds(supervisor.clock)
    this.line = new RunLine(settings, this.holds, acts.begin, room)
    const resultOf = (runId: string) => this.find(runId)?.result
    this.host = new RunViews(supervisor, { ...acts, inputChecks: settings.guards.input, resultOf })
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
  idle(handle: RunHandle<unknown>, target: Agent = this.supervisor.directory.byIndex[USER_INDEX]!): RunEntry {
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
    const agents = this.supervisor.directory.agents(state).map(({ name }) => name)
    return resultOf(state, ending, executionTimeMs, agents, this.supervisor)
  }
}

export class RunGuards {
  readonly #guards: Guards
  readonly #checks: AgentGuards
  readonly #fail: (entry: RunEntry, error: DramatisError) => void

  /** `checks`: guardrails of the team. `fail`: ends a run with an error. */
  constructor(guards: Guards, checks: AgentGuards, fail: (entry: RunEntry, error: DramatisError) => void) {
    this.#guards = guards
    this.#checks = checks
    this.#fail = fail
  }

  get asks(): boolean {
    return this.#checks.input.length > 0
  }

  /**
   * Has the query checked, and begins the checks beside the run. Resolves to it, changed or not; to undefined if it is
   * refused.
   */
  async query(entry: RunEntry): Promise<string | undefined> {
    const { state } = entry.handle
    const place = { run: state, agent: null, on: 'input' } as const
    try {
      const query = await this.#guards.inOrder(this.#checks.input.filter(isBefore), state.query, place, state.ended)
      this.beside(entry, query)
      return query
    } catch (error) {
      this.#failed(entry, error)
      return undefined
    }
  }

  beside(entry: RunEntry, query = entry.handle.state.query): void {
    const { state } = entry.handle
    const besides = this.#checks.input.filter(isBeside)
    if (besides.length === 0) return
    entry.checked = this.#guards.atOnce(besides, query, { run: state, agent: null, on: 'input' }, state.ended)
    entry.checked.catch((error: unknown) => this.#failed(entry, error))
  }

  holds({ checked }: RunEntry): boolean {
    return checked !== undefined || this.#checks.output.length > 0
  }

  /** Has the answer of a run checked, by all that checks it. Resolves to it, changed or not. */
  async answer({ handle, checked }: RunEntry, content: string): Promise<string> {
    if (checked) await checked
    if (this.#checks.output.length === 0) return content
    const { state } = handle
    return this.#guards.inOrder(this.#checks.output, content, { run: state, agent: null, on: 'output' }, state.ended)
  }

  #failed(entry: RunEntry, error: unknown): void {
    if (entry.handle.state.over) return
    if (!(error instanceof DramatisError)) throw error
    this.#fail(entry, error)
  }
}
