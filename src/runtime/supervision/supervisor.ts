/**
 * The host's side of a team: drains what the agents write, logs it, routes it into mailboxes, hands it over, and keeps the agents
 * alive. It makes all that takes part in this, and has the tick.
 *
 *   outboxes -> Router (journal, admission, mailboxes) -> dispatcher (windows, bells)     life cycle, exits (redelivery)
 *                        \-> records$ of the journal -> the parts: restarts, permits, deadlines, watchdog, tasks, events
 *
 * A part that throws is reported, and the others go on.
 */
import type { Logger } from '../../actors/definition/logger.ts'
import { type Scheduler, withTimersOf } from '../../clock.ts'
import { describe } from '../../errors.ts'
import { HOST_ASLEEP, HOST_CALLED, TeamMemory } from '../../mailbox/room.ts'
import { Admission } from '../admission/admission.ts'
import { Copies } from '../admission/broadcast.ts'
import { HostSends } from '../admission/host-messages.ts'
import { Delivery } from '../dispatch/dispatcher.ts'
import { HostFrames } from '../log/host-frames.ts'
import { guardedLogger } from '../logging/guarded-logger.ts'
import { LimitNotices } from '../logging/limit-notices.ts'
import type { Redactor } from '../logging/redactor.ts'
import { HeldTasks } from '../mailboxes/blocked-tasks.ts'
import { MailboxRoom } from '../mailboxes/mailbox-room.ts'
import { Verdicts } from '../mailboxes/receipts.ts'
import { SharedWords } from '../mailboxes/shared-words.ts'
import { DELEGATION_BOUND, type DelegationBound } from '../settings/delegation-bound.ts'
import { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import { type Core, type Gate, OPEN_GATE, type Part } from '../state/core.ts'
import { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import { RunTable } from '../state/run-table.ts'
import { escalationVerbs } from '../tasks/escalation.ts'
import { Handoffs } from '../tasks/handoffs.ts'
import { Reassignments } from '../tasks/reassignments.ts'
import type { Spawner } from '../threads/thread.ts'
import { HostTools } from '../tools/host-tools.ts'
import { Withdrawals } from '../turns/cancellation.ts'
import { Redelivery } from '../turns/redelivery.ts'
import { Settlement } from '../turns/settlement.ts'
import { type BoardSettings, Boards } from '../verbs/boards.ts'
import { HostCalls } from '../verbs/calls.ts'
import { DeadlinePauses } from '../verbs/deadline-pauses.ts'
import { watchVerbs } from '../verbs/death-watch.ts'
import { decisionVerbs } from '../verbs/decisions.ts'
import { asksPerson, personVerbs } from '../verbs/questions.ts'
import { SyncPoints } from '../verbs/sync-points.ts'
import { Deaths } from './exits.ts'
import { Lives } from './lifecycle.ts'
import { Router } from './router.ts'

/** How often it looks in one turn of the event loop, at a share of what each agent has written; then timers and sockets come first. */
const LOOKS = 8

export interface SupervisorOptions {
  clock: Scheduler
  logger: Logger
  /** Knows the team's keys. */
  redactor: Redactor
  spawner: Spawner
  /** Of the team; names beyond it are refused. */
  capacity: number
  parts: readonly Part[]
  /** Finds an agent that the registry has and the team does not have yet; nobody. */
  newcomer?: (name: string) => Cell | undefined
  /** Whether somebody can have a handle of that run, and so answer the questions of its agents; always. */
  hasHandle?: (run: RunState) => boolean
  /** Whose the blackboards are; there is none. */
  blackboard?: BoardSettings
}

export class Supervisor implements Core {
  readonly clock: ReturnType<typeof withTimersOf>
  readonly logger: Logger
  readonly redactor: Redactor
  readonly spawner: Spawner
  readonly team: TeamMemory
  readonly directory: AgentDirectory
  readonly cells: readonly Cell[]
  readonly actors: readonly Cell[]
  readonly runs: RunTable
  readonly journal: Journal
  readonly frames: HostFrames
  readonly router: Router
  readonly admission: Admission
  readonly mailboxRoom: MailboxRoom
  readonly verdicts: Verdicts
  readonly held: HeldTasks
  readonly sends: HostSends
  readonly copies: Copies
  readonly settlement: Settlement
  readonly withdrawals: Withdrawals
  readonly delivery: Delivery
  readonly lives: Lives
  readonly deaths: Deaths
  readonly redelivery: Redelivery
  readonly boards: Boards
  readonly tools: HostTools
  readonly calls: HostCalls
  readonly pauses: DeadlinePauses
  readonly sharedWords: SharedWords
  readonly limits: LimitNotices
  readonly syncPoints: SyncPoints
  gate: Gate = OPEN_GATE
  delegationBound: DelegationBound = DELEGATION_BOUND
  closed = false
  ticks = 0
  readonly #parts: { overdue(run: RunState): void; close(): void }[] = []
  #ticking = false
  #scheduled = false

  constructor(options: SupervisorOptions) {
    this.clock = withTimersOf(options.clock)
    this.redactor = options.redactor
    this.logger = guardedLogger(options.logger, options.redactor)
    this.limits = new LimitNotices(this.clock, this.logger)
    this.spawner = options.spawner
    this.team = new TeamMemory(options.capacity)
    this.directory = new AgentDirectory(this.team, options.newcomer)
    this.cells = this.directory.cells
    this.actors = this.directory.actors
    this.frames = new HostFrames(options.clock)
    this.runs = new RunTable(this.clock)
    this.journal = new Journal({
      clock: this.clock,
      frames: this.frames,
      runs: this.runs,
      names: this,
      wake: () => this.wake(),
    })
    this.router = new Router(this)
    this.admission = new Admission(this)
    this.mailboxRoom = new MailboxRoom(this)
    this.verdicts = new Verdicts(this)
    this.held = new HeldTasks(this)
    this.sends = new HostSends(this)
    this.copies = new Copies(this)
    this.settlement = new Settlement(this)
    this.withdrawals = new Withdrawals(this)
    this.delivery = new Delivery(this)
    this.lives = new Lives(this)
    this.deaths = new Deaths(this)
    this.redelivery = new Redelivery(this)
    this.pauses = new DeadlinePauses(this)
    this.sharedWords = new SharedWords(this)
    this.syncPoints = new SyncPoints(this)
    this.boards = new Boards(this, options.blackboard ?? { scope: false, waitTimeoutMs: 600_000 })
    const ask = asksPerson(this, options.hasHandle ?? (() => true))
    this.tools = new HostTools(this, ask)
    this.calls = new HostCalls(this)
    for (const { verbs } of [this.boards, this.syncPoints, this.tools, new Handoffs(this), new Reassignments(this)])
      this.calls.register(verbs)
    this.calls.register([...personVerbs(ask), ...watchVerbs(this), ...decisionVerbs(this), ...escalationVerbs(this)])
    for (const part of options.parts) this.attach(part)
  }

  /** From now on the part is told of every record. */
  attach(part: Part): void {
    const made = part(this)
    const subscription = this.journal.records$.subscribe((batch) => {
      try {
        made.next(batch)
      } catch (error) {
        this.logger.error({ error: describe(error) }, 'a part of the supervisor threw; the others go on')
      }
    })
    this.#parts.push({
      overdue: (run) => made.overdue?.(run),
      close() {
        subscription.unsubscribe()
        made.close?.()
      },
    })
  }

  // ---- who is there

  cell(name: string, run?: RunState): Cell | undefined {
    return this.directory.cell(name, run)
  }

  agents(run?: RunState): Cell[] {
    return this.directory.agents(run)
  }

  name(index: number): string {
    return this.directory.name(index)
  }

  names(): string[] {
    return this.directory.names()
  }

  runId(index: number): string {
    return this.runs.idOf(index)
  }

  get shortestQueueMs(): number | undefined {
    return this.directory.shortestQueueMs
  }

  // ---- the tick

  /** Something may be there: look now, or as soon as the present look is over. */
  kick(): void {
    if (this.journal.isTelling)
      this.wake() // what is being told has to be told to its end first
    else if (!this.#ticking) this.#tick()
  }

  /** Look in a later turn of the event loop. */
  wake(): void {
    if (this.#ticking || this.#scheduled || this.closed) return // the tick looks again by itself
    this.#scheduled = true
    this.clock.defer(() => {
      this.#scheduled = false
      if (!this.#ticking) this.#tick()
    })
  }

  #tick(): void {
    this.#ticking = true
    this.ticks += 1
    const { words } = this.team
    Atomics.store(words, HOST_ASLEEP, 0)
    let more = true
    for (let looks = 0; more && looks < LOOKS && !this.closed; ) {
      Atomics.store(words, HOST_CALLED, 0)
      while (more && looks++ < LOOKS) {
        more = this.#drain()
        if (more) this.delivery.hurry()
      }
      this.gate.reconsider()
      do {
        this.delivery.flush()
        this.journal.tell()
      } while (this.journal.hasNews || this.delivery.waiting)
      more ||= !this.#sleep()
    }
    this.#ticking = false
    if (more) this.wake()
  }

  /** Takes a share of what each agent has written; true: somebody has more. */
  #drain(): boolean {
    let more = false
    for (const cell of this.actors) if (cell.life && this.router.drain(cell, cell.life)) more = true
    return more
  }

  /** Announces sleep, then looks again. False: something came in between. */
  #sleep(): boolean {
    const { words } = this.team
    Atomics.store(words, HOST_ASLEEP, 1)
    if (Atomics.load(words, HOST_CALLED) === 0 && !this.delivery.roomAgain()) return true
    Atomics.store(words, HOST_ASLEEP, 0)
    return false
  }

  overdue(run: RunState): void {
    for (const part of this.#parts) part.overdue(run)
  }

  // ---- the end

  /** After all lives have ended: nothing is left that could wake the process. */
  close(): void {
    this.journal.tell()
    this.closed = true
    for (const part of this.#parts) part.close()
    this.clock.cancelTimers()
    this.journal.close()
  }
}
