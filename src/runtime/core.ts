/**
 * The rooms of the supervisor, as they see each other: what each can be asked. The classes are in router.ts,
 * delivery.ts, lives.ts and host-calls.ts; supervisor.ts joins them.
 */
import type { Observable } from 'rxjs'
import type { PatchNotice, RosterEntry } from '../actors/assignment.ts'
import type { Logger } from '../actors/logger.ts'
import type { Scheduler } from '../clock.ts'
import type { DramatisError } from '../errors.ts'
import type { Directory } from '../mailbox/codec.ts'
import type { DeadLetterReason } from '../mailbox/dead-letters.ts'
import type { Envelope } from '../mailbox/mailbox.ts'
import type { Memory } from '../mailbox/memory.ts'
import { ORCHESTRATOR, RUNTIME, USER } from '../mailbox/message.ts'
import type { TeamMemory } from '../mailbox/room.ts'
import type { Cell, Life, OpenRequest } from './cell.ts'
import type { HostFrames, OwnFrame } from './host-frames.ts'
import type { Batch, FrameBlock, Unrecorded } from './records.ts'
import type { RunState } from './run-state.ts'
import type { Spawner } from './thread.ts'

/** The first names of every team, in this order. */
export const FIXED_NAMES = [RUNTIME, USER, ORCHESTRATOR] as const
export const USER_INDEX = 1
export const ORCHESTRATOR_INDEX = 2

/** Who may have a turn of a run now. The permits part takes this place; without it everybody may. */
export interface Gate {
  take(run: RunState, cell: Cell): boolean
  /** Nothing of the run is with that agent any more. */
  release(run: RunState, cell: Cell): void
  /** A turn that gave its permit up is to go on. */
  resume(cell: Cell): boolean
  /** Somebody may have parked, or ended: who waits is to try again. */
  reconsider(): void
}

export const OPEN_GATE: Gate = { take: () => true, release: () => {}, resume: () => true, reconsider: () => {} }

/** From the agents' outboxes to the mailboxes. */
export interface Routing {
  drain(cell: Cell, life: Life, share?: number): boolean
  message(sender: Cell, run: RunState, memory: Memory, at: number, settle: OpenRequest['settle']): void
  freed(callee: Cell, bytes: number): void
  requestOf(envelope: Envelope<RunState>): OpenRequest | undefined
  answerWithError(request: OpenRequest, error: DramatisError): void
  answerInstead(request: OpenRequest, frame: OwnFrame): void
  refuseParked(envelope: Envelope<RunState>, error: DramatisError): void
  cancel(caller: Cell, correlation: number, reason: DramatisError | undefined): void
  withdraw(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): void
  drop(envelope: Envelope<RunState>, reason: DeadLetterReason, errors: DramatisError[]): void
}

/** From the mailboxes into the windows. */
export interface Handing {
  touch(cell: Cell): void
  reply(cell: Cell, frame: OwnFrame): void
  runOver(run: RunState): void
}

/** The lives and deaths of agents. */
export interface LifeCycle {
  roster: () => RosterEntry[]
  begin(cell: Cell): Promise<void>
  kill(cell: Cell, verdict: DramatisError): void
  stopForGood(cell: Cell, error: DramatisError): void
  revive(cell: Cell): void
  tryAgain(cell: Cell, envelope: Envelope<RunState>, memory: Memory, at: number): boolean
  killAfterGrace(cell: Cell, envelope: Envelope<RunState>): void
  applyPatch(cell: Cell, run: RunState, notice: PatchNotice): void
  runNotice(cell: Cell, run: RunState): OwnFrame
  replayOf(cell: Cell, envelope: Envelope<RunState>): OwnFrame | undefined
}

/** The verbs that the host serves. */
export interface Serving {
  serve(cell: Cell, run: RunState, memory: Memory, at: number): void
  cancel(cell: Cell, correlation: number): void
}

/** The supervisor, as its rooms and parts see it. */
export interface Core extends Directory {
  readonly clock: Scheduler
  readonly logger: Logger
  readonly spawner: Spawner
  readonly team: TeamMemory
  readonly frames: HostFrames
  readonly cells: readonly Cell[]
  readonly runs: ReadonlyMap<number, RunState>
  readonly router: Routing
  readonly delivery: Handing
  readonly lives: LifeCycle
  readonly calls: Serving
  readonly records$: Observable<Batch>
  readonly closed: boolean
  /** The number of the next record. */
  readonly seq: number
  readonly hasQueueDeadlines: boolean
  gate: Gate
  cell(name: string): Cell | undefined
  names(): string[]
  idOf(envelope: { memory: Memory; at: number }): string
  appendFrames(run: RunState, memory: Memory, from: number, to: number, count: number): FrameBlock
  appendOwned(run: RunState, memory: Memory, bytes: number): FrameBlock
  record(run: RunState | undefined, fields: Unrecorded): void
  deadLetter(run: RunState, memory: Memory, at: number, reason: DeadLetterReason, errors: DramatisError[]): void
  kick(): void
  wake(): void
}

/** One responsibility. It sees records and acts through the core; when it is taken away, just that is gone. */
export type Part = (core: Core) => { next(batch: Batch): void; close?(): void }
