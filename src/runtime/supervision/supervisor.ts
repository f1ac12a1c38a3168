/**
 * The host's side of a team: drains what the agents write, logs it, routes it into mailboxes, hands it over, and keeps
 * the agents alive. It is the one place that sees every wait, limit and record.
 *
 *   outboxes -> Router (log, checks, mailbox) -> Delivery (windows, bells)     Lives, Deaths (redelivery)
 *                        \-> records$ -> the parts: restarts, permits, deadlines, watchdog, tasks, events
 *
 * `records$` is the only ingress of the parts. It is trampolined: what a part records while it is told of something is
 * told after it. A part that throws is reported and goes on.
 */
import type { Observable } from 'rxjs'
import type { Logger } from '../../actors/definition/logger.ts'
import { type Scheduler, withTimersOf } from '../../clock.ts'
import { type DramatisError, describe } from '../../errors.ts'
import { DeadLetterList, type DeadLetterReason } from '../../mailbox/dead-letters.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Remains } from '../../mailbox/remains.ts'
import { HOST_ASLEEP, HOST_CALLED, TeamMemory } from '../../mailbox/room.ts'
import { Admission } from '../admission/admission.ts'
import { Copies } from '../admission/broadcast.ts'
import { HostSends } from '../admission/host-messages.ts'
import { Delivery } from '../dispatch/dispatcher.ts'
import { HostFrames } from '../log/host-frames.ts'
import {
  type Batch,
  type FrameBlock,
  type HostRecord,
  type LogEntry,
  SEQ_STEP,
  type Unrecorded,
} from '../log/records.ts'
import { Subject } from '../log/rx.ts'
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
import { letterOf, letterOfRemains, type MadeLetter } from '../state/dead-letter.ts'
import { RunState } from '../state/run-state.ts'
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
  readonly runs = new Map<number, RunState>()
  readonly deadLetters = new DeadLetterList()
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
  readonly records$: Observable<Batch>
  gate: Gate = OPEN_GATE
  delegationBound: DelegationBound = DELEGATION_BOUND
  closed = false
  ticks = 0
  readonly #records = new Subject<Batch>()
  readonly #parts: { overdue(run: RunState): void; close(): void }[] = []
  #pending: LogEntry[] = []
  #telling = false
  #ticking = false
  #scheduled = false
  #seq = 0
  #lastRun = 0
  #runIds = new Map<number, string>()

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
    this.records$ = this.#records.asObservable()
    for (const part of options.parts) this.attach(part)
  }

  /** From now on the part is told of every record. */
  attach(part: Part): void {
    const made = part(this)
    const subscription = this.#records.subscribe((batch) => {
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

  get shortestQueueMs(): number | undefined {
    return this.directory.shortestQueueMs
  }

  idOf(envelope: { memory: Memory; at: number }): string {
    return idOf(envelope.memory, envelope.at)
  }

  runId(index: number): string {
    return this.#runIds.get(index) ?? ''
  }

  /** A run, or what a message from outside has caused, as long as its log is kept. */
  run(id: string): RunState | undefined {
    for (const run of this.runs.values()) if (run.id === id) return run
    return undefined
  }

  openRun(id: string, query: string, metadata?: Readonly<Record<string, string>>, threadId?: string): RunState {
    const run = new RunState(++this.#lastRun, id, query, this.clock.now(), metadata, threadId)
    this.runs.set(run.index, run)
    this.#runIds.set(run.index, id)
    return run
  }

  /** The run is over and quiet, and its log is no longer kept. */
  forgetRun(run: RunState): void {
    this.runs.delete(run.index)
    this.#runIds.delete(run.index)
  }

  // ---- the log

  appendFrames(run: RunState, memory: Memory, from: number, to: number, count: number): FrameBlock {
    const block = run.log.appendFrames(this.#take(count), this.clock.now(), run.index, memory, from, to, count)
    this.#pending.push(block)
    return block
  }

  appendOwned(run: RunState, memory: Memory, bytes: number): FrameBlock {
    const block = run.log.appendOwned(this.#take(1), this.clock.now(), run.index, memory, bytes)
    this.#pending.push(block)
    return block
  }

  /**
   * Writes a record, made of `fields`, into the run's log. What happens to an agent belongs to no run and happens to every
   * run under way: each keeps it. Otherwise it is told and not kept; who wants it later is a part that counts it.
   */
  record(run: RunState | undefined, fields: Unrecorded): void {
    // In place: a copy of each costs a microsecond.
    const record: HostRecord = Object.assign(fields, { seq: this.#take(1), at: this.clock.now(), run: run?.index ?? 0 })
    if (run) run.log.append(record)
    else if (record.kind.startsWith('agent.'))
      for (const other of this.runs.values()) if (!other.over) other.log.append(record)
    this.#pending.push(record)
    this.wake()
  }

  /** The number of the next record. */
  get seq(): number {
    return this.#seq
  }

  #take(count: number): number {
    const seq = this.#seq
    this.#seq += count * SEQ_STEP
    return seq
  }

  /** The message that stands there will not be handled. */
  deadLetter(run: RunState, memory: Memory, at: number, reason: DeadLetterReason, errors: DramatisError[]): void {
    // A letter that was sent again and refused is in the list already, and who sent it is told.
    if (reason !== 'overflow' && this.deadLetters.replayed.has(idOf(memory, at))) return
    this.#bury(run, letterOf(this, memory, at, reason, errors))
  }

  /** A message was refused before it was one. */
  refused(run: RunState | undefined, remains: Remains, error: DramatisError): void {
    this.#bury(run, letterOfRemains(this, run, remains, error))
  }

  #bury(run: RunState | undefined, { letter, bytes }: MadeLetter): void {
    this.deadLetters.add(letter, bytes)
    this.record(run, { kind: 'message.dead', letter })
  }

  // ---- the tick

  /** Something may be there: look now, or as soon as the present look is over. */
  kick(): void {
    if (this.#telling)
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
        this.#tell()
      } while (this.#pending.length > 0 || this.delivery.waiting)
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

  /** Before a fold is read: what was logged has been told. */
  settleRecords(): void {
    this.#tell()
  }

  /** Tells the parts what was logged, also what they log meanwhile. */
  #tell(): void {
    if (this.#telling) return
    this.#telling = true
    for (let batch = this.#pending; batch.length > 0; batch = this.#pending) {
      this.#pending = []
      this.#records.next(batch)
    }
    this.#telling = false
  }

  overdue(run: RunState): void {
    for (const part of this.#parts) part.overdue(run)
  }

  // ---- the end

  /** After all lives have ended: nothing is left that could wake the process. */
  close(): void {
    this.#tell()
    this.closed = true
    for (const part of this.#parts) part.close()
    this.clock.cancelTimers()
    this.#records.complete()
  }
}
