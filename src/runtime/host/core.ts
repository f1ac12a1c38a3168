/**
 * State and services that all parts of a team's host share: its agents and runs, the record of what happens, and when
 * the host reads what its threads have written.
 */

import type { RosterEntry } from '../../actors/definition/assignment.ts'
import type { Logger } from '../../actors/definition/tool.ts'
import type { Directory } from '../../mailbox/codec.ts'
import { idOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { HOST_ASLEEP, type Room, TeamMemory } from '../../mailbox/team-memory.ts'
import { type OwnScheduler, ownScheduler, type Scheduler } from '../../shared/clock.ts'
import type { DramatisError } from '../../shared/errors.ts'
import { HostFrames } from '../log/host-frames.ts'
import { LimitNotices } from '../logging/limit-notices.ts'
import { guardedLogger } from '../logging/logger.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { Agent, HeldTask } from './agent.ts'
import { AgentDirectory } from './directory.ts'
import { DueTimes } from './due-times.ts'
import { Journal } from './journal.ts'
import { waitsForTurns } from './limit-waits.ts'
import { AgentStates, PartStore } from './parts.ts'
import { type RunState, RunTable, readerOf } from './run.ts'

export class HostLoop {
  readonly #clock: Pick<Scheduler, 'defer'>
  readonly #journal: { readonly isTelling: boolean }
  readonly #poll: () => boolean
  /** True when the team is closed: there is nothing to read any more. */
  closed = false
  /** Number of times that the host has polled. */
  ticks = 0
  #isPolling = false
  #isScheduled = false

  /**
   * `journal.isTelling`: true while its readers are called, which must end before the next poll. `poll` reads what
   * threads have written; true: there is more than it took in this turn of the event loop.
   */
  constructor(clock: Pick<Scheduler, 'defer'>, journal: { readonly isTelling: boolean }, poll: () => boolean) {
    this.#clock = clock
    this.#journal = journal
    this.#poll = poll
  }

  /** Polls now, or as soon as the present poll is over, because something may be there. */
  kick(): void {
    if (this.#journal.isTelling) this.wake()
    else if (!this.#isPolling) this.#pollNow()
  }

  wake(): void {
    if (this.#isPolling || this.#isScheduled || this.closed) return // the present poll schedules the next one
    this.#isScheduled = true
    this.#clock.defer(() => {
      this.#isScheduled = false
      if (!this.#isPolling) this.#pollNow()
    })
  }

  #pollNow(): void {
    this.#isPolling = true
    this.ticks += 1
    let hasMore = true // also of a poll that throws: threads do not call a host that was awake when it broke off
    try {
      hasMore = this.#poll()
    } finally {
      this.#isPolling = false
      if (hasMore) this.wake()
    }
  }
}

const NOBODY: readonly Agent[] = []

class Ready {
  /** All marked agents. To be changed by the methods alone. */
  readonly marked = new Set<Agent>()
  /** Agents with something that a turn waits for. */
  readonly #hurried = new Set<Agent>()

  /** Marks an agent as ready. Any free instance may take what there is. */
  touch(agent: Agent): void {
    const { instances } = agent
    if (instances.length === 1) this.marked.add(agent)
    else for (const each of instances) this.marked.add(each)
  }

  /** Marks one instance alone as ready. */
  touchInstance(agent: Agent): void {
    this.marked.add(agent)
  }

  /** Marks an instance as ready with priority: what it gets must not wait behind what others have written. */
  hasten(agent: Agent): void {
    this.marked.add(agent)
    this.#hurried.add(agent)
  }

  takeAll(): Agent[] {
    const agents = [...this.marked]
    this.marked.clear()
    this.#hurried.clear()
    return agents
  }

  /** Returns the agents with priority, and removes only them from the list. */
  takeHurried(): readonly Agent[] {
    if (this.#hurried.size === 0) return NOBODY
    const agents = [...this.#hurried]
    for (const agent of agents) this.marked.delete(agent)
    this.#hurried.clear()
    return agents
  }
}

/*
 * Repairs of words in the memory that all threads of a team share: words that differed from what the host knows and
 * were set right.
 */

export class WordRepairs {
  readonly #logger: Logger
  count = 0

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Counts a repair and logs it. In a flood it logs ever more rarely (1st, 2nd, 4th ...). */
  report(fields: { word: string; agent?: string; expected?: Room; found?: Room }): void {
    this.count += 1
    if ((this.count & (this.count - 1)) !== 0) return
    this.#logger.error(
      { ...fields, repairs: this.count },
      'a word of the memory that all threads of the team share was not what the host knows; it was set right. Only the runtime writes there: look for code in a thread that gets hold of shared memory',
    )
  }
}

/**
 * Tasks that their agents get only when other tasks are done. Such a task is in no mailbox, so it takes no room and
 * blocks nothing. task-board.ts decides when it is released.
 */
class BlockedTasks {
  readonly #held = new Map<string, HeldTask>()

  /**
   * Holds a task. Returns false if a task of that id is held already: only a thread that forges frames can cause that.
   */
  hold(callee: Agent, envelope: Envelope<RunState>): boolean {
    const id = idOf(envelope.memory, envelope.at)
    if (this.#held.has(id)) return false
    this.#held.set(id, { callee, envelope, waitsFor: new Set() })
    return true
  }

  get(id: string): HeldTask | undefined {
    return this.#held.get(id)
  }

  of(envelope: Envelope<RunState>): HeldTask | undefined {
    if (this.#held.size === 0) return undefined
    const held = this.#held.get(idOf(envelope.memory, envelope.at))
    return held?.envelope === envelope ? held : undefined
  }

  get all(): HeldTask[] {
    return [...this.#held.values()]
  }

  remove(envelope: Envelope<RunState>): boolean {
    return this.of(envelope) !== undefined && this.#held.delete(idOf(envelope.memory, envelope.at))
  }
}

export interface CoreOptions {
  clock: Scheduler
  logger: Logger
  /** Redactor that knows the team's keys. */
  redactor: Redactor
  /** Notices of limits that something waits for, among them those of models. Default: it makes its own. */
  limits?: LimitNotices
  /** Number of names that the team can have; more are refused. */
  capacity: number
  /** Maximum bytes of the large parts that are stored at a time. Default: no limit. */
  maxStoredBytes?: number
  /** Finds an agent that is in the registry but not in the team yet. Default: finds none. */
  newcomer?: (name: string) => Agent | undefined
}

const NO_BYTES = new Map<string, Uint8Array>()

/** State and services that all parts of the host share, made before them; and what they call of parts made later. */
export abstract class Core<Options extends CoreOptions = CoreOptions> {
  protected readonly options: Options
  readonly clock: OwnScheduler
  readonly logger: Logger
  readonly redactor: Redactor
  readonly limits: LimitNotices
  readonly due: DueTimes
  readonly team: TeamMemory
  readonly directory: AgentDirectory
  readonly runs: RunTable
  readonly names: Directory
  readonly frames: HostFrames
  readonly journal: Journal
  readonly loop: HostLoop
  readonly parts: PartStore
  readonly agentStates: AgentStates
  readonly ready = new Ready()
  readonly blocked = new BlockedTasks()
  readonly repairs: WordRepairs
  /** True when a team that closes lets steps end that may not be repeated: no other of that kind begins here. */
  isHandingOver = false
  /** Why this process gives its runs up, which a later one goes on with. */
  interruption: DramatisError | undefined

  constructor(options: Options) {
    const { clock, logger, redactor, limits, capacity, maxStoredBytes, newcomer } = options
    this.options = options
    // The wake-up for what a thread has written can be late, or suppressed.
    this.clock = ownScheduler(clock, () => {
      if (Atomics.load(this.team.words, HOST_ASLEEP) !== 1) this.loop.kick()
    })
    this.logger = guardedLogger(logger, redactor)
    this.redactor = redactor
    this.due = new DueTimes(this.clock)
    this.limits = limits ?? new LimitNotices(this.clock, this.logger)
    this.repairs = new WordRepairs(this.logger)
    this.team = new TeamMemory(capacity)
    this.directory = new AgentDirectory(this.team, newcomer)
    this.runs = new RunTable(this.clock)
    this.names = {
      name: (index) => this.directory.name(index),
      runId: (index) => this.runs.idOf(index),
      bytesOf: (run, hash) => readerOf(this.runs.get(run)?.stored ?? NO_BYTES, hash),
    }
    this.frames = new HostFrames(this.clock)
    this.journal = new Journal(this.clock, this.frames, this.runs, this.names, () => this.loop.wake())
    this.loop = new HostLoop(this.clock, this.journal, () => this.poll())
    this.parts = new PartStore(this.journal, this.limits, maxStoredBytes)
    this.agentStates = new AgentStates(this.parts, this.runs)
    this.limits.onReached(({ option, limit, runId, agent }) => {
      const run = runId === undefined ? undefined : this.runs.find(runId)
      this.journal.record(run, { kind: 'limit.reached', option, limit, agent: agent ?? null })
    })
    this.limits.watch(() => waitsForTurns(this.directory))
  }

  // ---- calls to parts that are made later

  /** Reads what the threads have written. True: there is more. */
  protected abstract poll(): boolean
  /** Begins threads for agents that have none and for which there is something. */
  abstract awaken(agents: readonly Agent[]): void
  /** Handles a thread that ended before it was ready. `blameless`: because of another agent. */
  abstract cannotStart(agent: Agent, error: DramatisError, blameless: boolean): void
  /** Checks whether a message that is tried again has to wait for what its earlier attempts have done. */
  abstract recalls(agent: Agent, envelope: Envelope<RunState>): boolean
  /** Gives up a turn whose thread cannot be ended: a script in the host's own thread. */
  abstract abandon(agent: Agent, envelope: Envelope<RunState>): void
  /** Handles a turn that ends in an error, and is not tried again. */
  abstract turnFailed(agent: Agent, envelope: Envelope<RunState>, error: DramatisError): void
  /** Handles a turn whose code has changed since an earlier process began it. */
  abstract turnChanged(agent: Agent, envelope: Envelope<RunState>, error: DramatisError): void
  /** Returns the name of a tool that the host runs for that turn, and that may not run twice. */
  abstract unrepeatableTool(agent: Agent, turn: number): string | undefined
  /** Returns the agents as a protocol script sees them. */
  abstract roster(run: RunState): RosterEntry[]
  /** Notifies the readers that a wait in that run, or the run itself, has ended only because its time was up. */
  abstract overdue(run: RunState): void
}
