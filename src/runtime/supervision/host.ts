/**
 * Reads what the threads have written, once: takes the frames in, dispatches what follows from them, and calls the
 * readers of the journal.
 */

import type { Logger } from '../../actors/definition/tool.ts'
import type { Directory } from '../../mailbox/codec.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { HOST_ASLEEP, HOST_CALLED, TeamMemory } from '../../mailbox/team-memory.ts'
import { type OwnScheduler, ownScheduler, type Scheduler } from '../../shared/clock.ts'
import { type DramatisError, describe } from '../../shared/errors.ts'
import { Admission, Broadcasts, HostMessages } from '../host/admission.ts'
import type { Cell } from '../host/agent.ts'
import { Cancellation } from '../host/cancellation.ts'
import { Commits, Recalls, Redelivery } from '../host/commits.ts'
import { HostLoop, Ready, WordRepairs } from '../host/core.ts'
import { Delegations } from '../host/delegation.ts'
import { AgentDirectory } from '../host/directory.ts'
import { Dispatcher, StopGrace } from '../host/dispatcher.ts'
import { HandedAnswers } from '../host/handed-answers.ts'
import { Journal, type Reader } from '../host/journal.ts'
import { KeptLimits, waitsForTurns } from '../host/limit-waits.ts'
import { BlockedTasks, Mailboxes, Receipts, Requests, SharedWords } from '../host/mailboxes.ts'
import { AgentStates, PartStore } from '../host/parts.ts'
import { type Gate, OPEN_GATE, Permits, Shelf } from '../host/permits.ts'
import { ReplyLane, RunNotices } from '../host/replies.ts'
import { type RunState, RunTable, readerOf } from '../host/run.ts'
import { CautiousStart } from '../host/staged-start.ts'
import { HostFrames } from '../log/host-frames.ts'
import type { Batch, LogEntry } from '../log/records.ts'
import { LimitNotices } from '../logging/limit-notices.ts'
import { guardedLogger } from '../logging/logger.ts'
import type { Redactor } from '../logging/redactor.ts'
import { DELEGATION_BOUND, type DelegationBound } from '../settings/agent-settings.ts'
import { type ThreadSettings, threadSettings } from '../settings/settings.ts'
import type { Spawner } from '../threads/thread.ts'
import { type BoardSettings, Boards } from '../verbs/boards.ts'
import { decisionVerbs, HostCalls, watchVerbs } from '../verbs/calls.ts'
import { DeadlinePauses } from '../verbs/deadline-pauses.ts'
import { Guards } from '../verbs/guards.ts'
import { escalationVerbs, Handoffs, Reassignments } from '../verbs/handoffs.ts'
import { HostTools } from '../verbs/host-tools.ts'
import { asksPerson, personVerbs } from '../verbs/questions.ts'
import { PersistentFile, SharedStates } from '../verbs/shared-state.ts'
import { SyncPoints } from '../verbs/sync-points.ts'
import { ChangedTurns, type SetAside } from './changed-turns.ts'
import { Exits } from './exits.ts'
import { Lifecycle } from './lifecycle.ts'
import { Passivation } from './passivation.ts'
import { type Provisioning, ThreadPlaces } from './pending-life.ts'
import { ForeignFrames, Router } from './router.ts'
import { Escalations } from './timeouts.ts'

/**
 * Number of looks in one turn of the event loop, each at a share of what every agent has written. After them timers and
 * sockets come first.
 */
const ROUNDS = 8

interface LookNeeds {
  readonly clock: OwnScheduler
  readonly directory: AgentDirectory
  readonly dispatcher: Dispatcher
  readonly gate: Gate
  readonly journal: Journal
  readonly loop: HostLoop
  readonly ready: Ready
  readonly router: Router
  readonly team: TeamMemory
}

class Look {
  readonly #needs: LookNeeds

  constructor(needs: LookNeeds) {
    this.#needs = needs
  }

  /** Looks at all agents that have written something. True: there is more. */
  all(): boolean {
    const { clock, dispatcher, gate, journal, loop, ready, team } = this.#needs
    const { words } = team
    try {
      Atomics.store(words, HOST_ASLEEP, 0)
      let more = true
      for (let rounds = 0; more && rounds < ROUNDS && !loop.closed; ) {
        Atomics.store(words, HOST_CALLED, 0)
        while (more && rounds++ < ROUNDS) {
          clock.holdStill()
          more = this.#drain()
          if (more) dispatcher.hurry()
        }
        if (gate.contended.size > 0) gate.reconsider()
        do {
          if (ready.marked.size + dispatcher.cramped.size > 0) dispatcher.flush()
          if (journal.hasNews) journal.tell()
        } while (journal.hasNews || ready.marked.size > 0)
        if (more) continue
        // Announces sleep, then looks again: something may have come in between.
        Atomics.store(words, HOST_ASLEEP, 1)
        more = Atomics.load(words, HOST_CALLED) !== 0 || (dispatcher.cramped.size > 0 && dispatcher.roomAgain())
        if (more) Atomics.store(words, HOST_ASLEEP, 0)
      }
      return more
    } finally {
      clock.runOn()
    }
  }

  /** Takes a share of what each agent has written. True: some agent has more. */
  #drain(): boolean {
    const { directory, router, team } = this.#needs
    const words = (directory.cells.length + 31) >> 5
    let more = false
    for (let word = 0; word < words; word++)
      for (let bits = team.takeWriters(word); bits !== 0; bits &= bits - 1) {
        const index = word * 32 + 31 - Math.clz32(bits & -bits)
        let has = false
        for (const cell of directory.livingAt(index)) {
          const { life } = cell
          if (life?.window.outbox.more() && router.drain(cell, life)) has = true
        }
        if (!has) continue
        team.wrote(index)
        more = true
      }
    return more
  }
}

/*
 * Readers of a team's journal. Each gets only batches with a kind of record that it handles. A reader that throws is
 * reported, and the others continue.
 */

interface ReadersNeeds {
  readonly journal: Journal
  readonly logger: Logger
}

export class Readers {
  readonly #journal: Journal
  readonly #logger: Logger
  /** `kinds` of records and of frames, as bits. */
  readonly #all: { readonly reader: Reader; readonly kinds: number; readonly frames: number }[] = []

  constructor({ journal, logger }: ReadersNeeds) {
    this.#journal = journal
    this.#logger = logger
    journal.readWith(this.#next.bind(this))
  }

  /** Adds a reader: from now on it gets the batches that concern it. */
  add(reader: Reader): void {
    const { kinds, frames = ALL } = reader
    const records = kinds?.reduce((bits, kind) => (kind === 'frames' ? bits : bits | bitOf(kind)), 0)
    this.#all.push({ reader, kinds: records ?? ALL, frames: !kinds || kinds.includes('frames') ? frames : 0 })
  }

  /** `seen`: kinds of the frames in the batch. */
  #next(batch: Batch, seen: number): void {
    let present = 0
    for (const { kind } of batch) if (kind !== 'frames') present |= bitOf(kind)
    for (const each of this.#all) {
      if (((each.kinds & present) | (each.frames & seen)) === 0 || each.reader.isIdle) continue
      try {
        each.reader.next(batch)
      } catch (error) {
        this.#logger.error({ error: describe(error) }, 'a part of the supervisor threw; the others go on')
      }
    }
  }

  /** Notifies the readers that a wait in that run, or the run itself, has ended only because its time was up. */
  overdue(run: RunState): void {
    for (const { reader } of this.#all) reader.overdue?.(run)
  }

  /** Notifies the readers that these runs of an earlier process were put in place. */
  restored(runs: ReadonlySet<RunState>): void {
    for (const { reader } of this.#all) reader.restored?.(runs)
  }

  close(): void {
    this.#journal.readWith(undefined)
    for (const { reader } of this.#all) reader.close?.()
  }
}

const ALL = ~0
const BITS = new Map<LogEntry['kind'], number>()
const MOST_BITS = 31

/**
 * Returns a bit for each kind of record, so that the kinds of a batch are one number. The last kinds share one: who
 * gets a batch by it still has to look.
 */
function bitOf(kind: LogEntry['kind']): number {
  let bit = BITS.get(kind)
  if (bit === undefined) {
    bit = 1 << Math.min(BITS.size, MOST_BITS)
    BITS.set(kind, bit)
  }
  return bit
}

/*
 * Builds the host's side of a team: it creates the owners of all host state and work, in order. Each owner takes what
 * it uses by name. Calls go down this list; a call upwards is a function.
 *
 *   outboxes -> Router (journal, admission, mailboxes) -> dispatcher (windows, bells)    life cycle, exits (redelivery)
 *                        \-> records$ of the journal -> the readers: restarts, timeouts, watchdog, tasks, events
 */

export interface SupervisorOptions {
  clock: Scheduler
  logger: Logger
  /** Redactor that knows the team's keys. */
  redactor: Redactor
  spawner: Spawner
  provisioning: Provisioning
  /** Notices of limits that something waits for, among them those of models. Default: it makes its own. */
  limits?: LimitNotices
  /** Number of names that the team can have; more are refused. */
  capacity: number
  parts: readonly Part[]
  /** Bounds of the agents' threads. Default: there are none. */
  threads?: Pick<ThreadSettings, 'max' | 'idleMs' | 'tools'>
  /** Number of agents that may have a turn of one run at the same time. Default: no limit. */
  maxConcurrentAgents?: number
  /** Maximum bytes of the large parts that are stored at a time. Default: no limit. */
  maxStoredBytes?: number
  /** Depth to which agents may delegate by themselves. */
  delegationBound?: DelegationBound
  /** Finds an agent that is in the registry but not in the team yet. Default: finds none. */
  newcomer?: (name: string) => Cell | undefined
  /**
   * Checks whether a caller can have a handle of that run, and so answer the questions of its agents. Default: always.
   */
  hasHandle?: (run: RunState) => boolean
  /** Called when a run is interrupted because the code of a turn has changed. */
  interrupted?: (run: RunState, error: DramatisError, turn: SetAside) => void
  /** Scope of the blackboards. Default: there are none. */
  blackboard?: BoardSettings
  /** File of the state 'persistent'. Default: none. */
  persistentFile?: string
}

const NO_BYTES = new Map<string, Uint8Array>()

/**
 * Makes a reader of the journal out of the owners that it needs. If a part is left out, only its own work is missing.
 */
export type Part = (owners: Supervisor) => Reader

export class Supervisor {
  readonly clock: OwnScheduler
  readonly logger: Logger
  readonly redactor: Redactor
  readonly limits: LimitNotices
  readonly spawner: Spawner
  readonly provisioning: Provisioning
  readonly team: TeamMemory
  readonly repairs: WordRepairs
  readonly directory: AgentDirectory
  readonly runs: RunTable
  /** Names agents and runs by their indices. */
  readonly names: Directory
  /** Bytes of large parts. */
  readonly parts: PartStore
  readonly frames: HostFrames
  readonly loop: HostLoop
  readonly journal: Journal
  readonly agentStates: AgentStates
  readonly ready: Ready
  readonly replies: ReplyLane
  readonly gate: Gate
  readonly caution: CautiousStart
  readonly dispatcher: Dispatcher
  readonly requests: Requests
  readonly receipts: Receipts
  readonly blocked: BlockedTasks
  readonly sharedWords: SharedWords
  readonly mailboxes: Mailboxes
  readonly cancellation: Cancellation
  readonly handedAnswers: HandedAnswers
  readonly redelivery: Redelivery
  readonly commits: Commits
  readonly delegations: Delegations
  readonly admission: Admission
  readonly hostMessages: HostMessages
  readonly escalations: Escalations
  readonly broadcasts: Broadcasts
  readonly calls: HostCalls
  readonly pauses: DeadlinePauses
  readonly syncPoints: SyncPoints
  readonly boards: Boards
  readonly sharedStates: SharedStates
  readonly guards: Guards
  readonly tools: HostTools
  readonly router: Router
  readonly exits: Exits
  readonly places: ThreadPlaces
  readonly lifecycle: Lifecycle
  readonly passivation: Passivation
  readonly #readers: Readers

  constructor(options: SupervisorOptions) {
    // The wake-up for what a thread has written can be late, or suppressed.
    const clock = ownScheduler(options.clock, () => {
      if (Atomics.load(team.words, HOST_ASLEEP) !== 1) loop.kick()
    })
    const logger = guardedLogger(options.logger, options.redactor)
    const { provisioning, redactor, spawner } = options
    this.clock = clock
    this.logger = logger
    this.redactor = redactor
    this.spawner = spawner
    this.provisioning = provisioning

    // State: agents, runs, and the record of what happened.
    const limits = options.limits ?? new LimitNotices(clock, logger)
    const team = new TeamMemory(options.capacity)
    const repairs = new WordRepairs(logger)
    const directory = new AgentDirectory(team, options.newcomer)
    const runs = new RunTable(clock)
    const parts = new PartStore({
      limit: options.maxStoredBytes ?? Number.POSITIVE_INFINITY,
      taken: (run, hash, bytes) => journal.keepPart(run, hash, bytes),
      full: (run, bytes) =>
        limits.reached(
          { option: 'maxStoredBytes', limit: options.maxStoredBytes ?? 0, runId: run.id },
          `no room for a part of ${bytes} bytes`,
        ),
    })
    const names: Directory = {
      name: (index) => directory.name(index),
      runId: (index) => runs.idOf(index),
      bytesOf: (run, hash) => readerOf(runs.get(run)?.stored ?? NO_BYTES, hash),
    }
    const frames = new HostFrames(clock)
    const journal = new Journal({ clock, frames, runs, names, wake: () => loop.wake() })
    const loop = new HostLoop({ clock, look: () => look.all(), journal })
    limits.onReached(({ option, limit, runId, agent }) => {
      const run = runId === undefined ? undefined : runs.find(runId)
      journal.record(run, { kind: 'limit.reached', option, limit, agent: agent ?? null })
    })
    const agentStates = new AgentStates(parts, runs)
    const ready = new Ready()
    limits.watch(() => waitsForTurns(directory))
    this.limits = limits
    this.team = team
    this.repairs = repairs
    this.directory = directory
    this.runs = runs
    this.names = names
    this.parts = parts
    this.frames = frames
    this.loop = loop
    this.journal = journal
    this.agentStates = agentStates
    this.ready = ready

    // From the mailboxes to the threads.
    const replies = new ReplyLane({ directory, frames, loop, ready })
    const { maxConcurrentAgents: most } = options
    const gate = most === undefined ? OPEN_GATE : new Permits({ clock, limits, ready, repairs, team }, most)
    const roster = (run: RunState) => provisioning.roster(run)
    const runNotices = new RunNotices({ agentStates, frames, roster })
    const stopGrace = new StopGrace({ clock, abandon: (cell, envelope) => this.cancellation.abandon(cell, envelope) })
    const caution = new CautiousStart({ clock, directory, journal, loop, ready, replies })
    const requestOf = (envelope: Envelope<RunState>) => this.requests.of(envelope)
    const shelf = new Shelf({ frames, gate, loop, ready, replies, requestOf })
    const dispatcher = new Dispatcher({
      awaken: (cells) => this.passivation.awaken(cells),
      caution,
      recalls: (cell, envelope) => recalls.holds(cell, envelope),
      clock,
      frames,
      gate,
      journal,
      limits,
      loop,
      ready,
      replies,
      runNotices,
      shelf,
      stopGrace,
    })
    this.replies = replies
    this.gate = gate
    this.caution = caution
    this.dispatcher = dispatcher

    // Waits: what waits, and which caller waits for it.
    const requests = new Requests({ directory, frames, journal, loop, replies })
    const receipts = new Receipts({ directory, frames, journal, replies, requests })
    const blocked = new BlockedTasks()
    const admit = (callee: Cell) => this.mailboxes.admit(callee)
    const sharedWords = new SharedWords({ admit, clock, directory, loop, repairs, team })
    const mailboxes = new Mailboxes({
      blocked,
      clock,
      directory,
      journal,
      ready,
      receipts,
      requests,
      sharedWords,
      team,
    })
    this.requests = requests
    this.receipts = receipts
    this.blocked = blocked
    this.sharedWords = sharedWords
    this.mailboxes = mailboxes

    // Ends of turns.
    const cancellation = new Cancellation({
      blocked,
      directory,
      dispatcher,
      frames,
      journal,
      logger,
      loop,
      mailboxes,
      requests,
    })
    const recalls = new Recalls({ cancellation, journal, loop, ready })
    const redelivery = new Redelivery({
      cancellation,
      dispatcher,
      gate,
      journal,
      ready,
      requests,
      unrepeatableTool: (cell, turn) => this.tools.unrepeatableIn(cell, turn),
    })
    const handedAnswers = new HandedAnswers({ agentStates, directory, frames, journal })
    const commits = new Commits({
      agentStates,
      cancellation,
      changed: (cell, envelope, error) => changedTurns.setAside(cell, envelope, error),
      clock,
      directory,
      failed: (cell, envelope, error) => escalations.failed(cell, envelope, error),
      gate,
      handedAnswers,
      journal,
      logger,
      mailboxes,
      ready,
      redelivery,
      requests,
    })
    this.handedAnswers = handedAnswers
    this.cancellation = cancellation
    this.redelivery = redelivery
    this.commits = commits

    // Admission of messages.
    const delegations = new Delegations({ clock, requests, bound: options.delegationBound ?? DELEGATION_BOUND })
    const admission = new Admission({
      blocked,
      cancellation,
      delegations,
      directory,
      loop,
      mailboxes,
      receipts,
      requests,
      team,
    })
    const hostMessages = new HostMessages({ admission, directory, frames, journal, loop, team })
    const escalations = new Escalations({ directory, frames, hostMessages, journal })
    const broadcasts = new Broadcasts({ directory, hostMessages, receipts })
    this.delegations = delegations
    this.admission = admission
    this.hostMessages = hostMessages
    this.escalations = escalations
    this.broadcasts = broadcasts

    // Work that the host does for the agents.
    const { threads = threadSettings() } = options
    const calls = new HostCalls({ clock, frames, journal, logger, replies })
    const pauses = new DeadlinePauses({ clock, directory, requests })
    const { interrupted = () => {} } = options
    const changedTurns = new ChangedTurns({
      directory,
      gate,
      interrupted,
      journal,
      loop,
      mailboxes,
      pauses,
      ready,
      redelivery,
      team,
    })
    const syncPoints = new SyncPoints({ clock, directory, frames, journal })
    const boards = new Boards(
      { admission, clock, directory, frames, journal, logger, runs, team },
      options.blackboard ?? { scope: false, waitTimeoutMs: 600_000 },
    )
    const { persistentFile } = options
    const file = persistentFile === undefined ? undefined : new PersistentFile(persistentFile)
    const sharedStates = new SharedStates({ directory, journal, file })
    const ask = asksPerson({ clock, frames, journal, loop, pauses, shelf }, options.hasHandle ?? (() => true))
    const guards = new Guards({ clock, journal })
    const tools = new HostTools({ clock, guards, journal, limits, logger, parts, toolThreads: threads.tools }, ask)
    const moving = { cancellation, delegations, directory, hostMessages, journal, requests }
    for (const { verbs } of [boards, sharedStates, syncPoints, tools, new Handoffs(moving), new Reassignments(moving)])
      calls.register(verbs)
    calls.register(personVerbs(ask))
    this.guards = guards
    calls.register(guards.verbs)
    calls.register(watchVerbs({ directory, hostMessages, runs }))
    calls.register(decisionVerbs({ journal }))
    calls.register(escalationVerbs({ directory }))
    this.calls = calls
    this.pauses = pauses
    this.syncPoints = syncPoints
    this.boards = boards
    this.sharedStates = sharedStates
    this.tools = tools

    // Lifecycle of the agents.
    const foreign = new ForeignFrames({ directory, journal, logger, mailboxes, names, receipts, requests })
    const router = new Router({
      admission,
      broadcasts,
      calls,
      cancellation,
      commits,
      directory,
      dispatcher,
      foreign,
      frames,
      journal,
      keptLimits: new KeptLimits(directory, limits),
      logger,
      parts,
      ready,
      replies,
      requests,
      runs,
      shelf,
    })
    const exits = new Exits({
      cannotStart: (cell, error, blameless) => this.lifecycle.cannotStart(cell, error, blameless),
      clock,
      directory,
      gate,
      journal,
      logger,
      loop,
      mailboxes,
      redactor,
      redelivery,
      router,
      runs,
    })
    this.router = router
    this.exits = exits
    const places = new ThreadPlaces(threads.max, clock, () => this.passivation.makeRoom())
    this.places = places
    const lifecycle = new Lifecycle({
      cancellation,
      clock,
      directory,
      exits,
      frames,
      journal,
      logger,
      loop,
      mailboxes,
      parts,
      places,
      provisioning,
      redactor,
      ready,
      receipts,
      router,
      team,
    })
    this.lifecycle = lifecycle
    this.passivation = new Passivation({ clock, directory, lifecycle, limits, loop, places, ready }, threads)
    const look = new Look({ clock, directory, dispatcher, gate, journal, loop, ready, router, team })
    this.#readers = new Readers({ journal, logger })
    for (const part of options.parts) this.attach(part)
    this.#readers.add(caution)
    if (places.isBounded || threads.idleMs !== false) this.#readers.add(this.passivation)
  }

  /** Adds a part: from now on its reader gets every record. */
  attach(part: Part): void {
    this.#readers.add(part(this))
  }

  /** Notifies the readers that a wait in that run, or the run itself, has ended only because its time was up. */
  overdue(run: RunState): void {
    this.#readers.overdue(run)
  }

  /** Notifies the readers that these runs of an earlier process were put in place. */
  readersRestored(runs: ReadonlySet<RunState>): void {
    this.#readers.restored(runs)
  }

  /** Closes the host after all threads have ended: nothing is left that could wake the process. */
  close(): void {
    this.journal.tell()
    this.loop.closed = true
    this.#readers.close()
    this.clock.cancelTimers()
    this.journal.close()
  }
}
