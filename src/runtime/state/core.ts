/**
 * The rooms of the supervisor, as they see each other: what each can be asked. Each interface has its class in the
 * file of that name; supervision/supervisor.ts joins them.
 */

import type { PatchNotice, RosterEntry } from '../../actors/definition/assignment.ts'
import type { SyncResult } from '../../actors/definition/context/context.ts'
import type { Logger } from '../../actors/definition/logger.ts'
import type { Scheduler } from '../../clock.ts'
import type { AgentTerminatedError, DramatisError } from '../../errors.ts'
import type { Directory } from '../../mailbox/codec.ts'
import type { DeadLetterReason } from '../../mailbox/dead-letters.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { ORCHESTRATOR, RUNTIME, USER } from '../../mailbox/message.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import type { HostFrames, OwnFrame, Question } from '../log/host-frames.ts'
import type { Batch } from '../log/records.ts'
import type { LimitNotices } from '../logging/limit-notices.ts'
import type { DelegationBound } from '../settings/delegation-bound.ts'
import type { SyncPointSettings } from '../settings/sync-points.ts'
import type { Spawner, ThreadExit } from '../threads/thread.ts'
import type { AgentDirectory } from './agent-directory.ts'
import type { Cell, HeldTask, OpenRequest, Waiter } from './cell.ts'
import type { Journal } from './journal.ts'
import type { Life } from './life.ts'
import type { RunState } from './run-state.ts'
import type { RunTable } from './run-table.ts'

/** The first names of every team, in this order. */
export const FIXED_NAMES = [RUNTIME, USER, ORCHESTRATOR] as const
export const USER_INDEX = 1
export const ORCHESTRATOR_INDEX = 2

/** Who may have a turn of a run now. The permits part takes this place; without it everybody may. */
export interface Gate {
  take(run: RunState, cell: Cell): boolean
  /** Whether messages of other runs may go before the one that waits: not when its permit was free while it could not come. */
  mayPass(cell: Cell): boolean
  /** Nothing of the run is with that agent any more. */
  release(run: RunState, cell: Cell): void
  /** The turn of that run gave its permit up and is to go on. */
  resume(run: RunState, cell: Cell): boolean
  /** Somebody may have parked. */
  reconsider(): void
}

export const OPEN_GATE: Gate = {
  take: () => true,
  mayPass: () => true,
  release: () => {},
  resume: () => true,
  reconsider: () => {},
}

/** From the agents' outboxes to the mailboxes. */
export interface Routing {
  drain(cell: Cell, life: Life, share?: number): boolean
}

/** Into the mailboxes. */
export interface Admitting {
  message(sender: Cell, run: RunState, memory: Memory, at: number, settle: OpenRequest['settle'], giver?: Cell): void
  accept(callee: Cell, envelope: Envelope<RunState>): void
  waits(callee: Cell, envelope: Envelope<RunState>): void
  release(held: HeldTask): void
}

/** Where the mailboxes are full. */
export interface MakingRoom {
  ask(callee: Cell, envelope: Envelope<RunState>): void
  freed(callee: Cell, bytes: number): void
  /** There is room: lets those in that wait for it. */
  admit(callee: Cell): void
  withdrawParked(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): boolean
}

/** What the words say that all threads share, and what the host knows. */
export interface Comparing {
  /** At least so often the watchdog is to look. */
  readonly lookMs: number
  /** There was no room for a message to that agent. */
  doubt(callee: Cell): void
  look(): void
  /** A word was set right. */
  report(fields: { word: string }): void
}

/** Why a message does not get into a mailbox. */
export type Refusal = 'unknown_agent' | 'stopped' | 'rejected' | 'cancelled' | 'overflow'

/** What senders are told. */
export interface Judging {
  give(sender: Cell, run: RunState, memory: Memory, at: number, error: DramatisError | undefined): void
  refuse(
    sender: Cell,
    run: RunState,
    memory: Memory,
    at: number,
    reason: Refusal,
    error: DramatisError,
    settle: OpenRequest['settle'],
  ): void
  refuseParked(envelope: Envelope<RunState>, error: DramatisError): void
}

/** Tasks that wait for others before their agents get them. */
export interface Holding {
  hold(callee: Cell, envelope: Envelope<RunState>): boolean
  get(id: string): HeldTask | undefined
  of(envelope: Envelope<RunState>): HeldTask | undefined
  readonly all: readonly HeldTask[]
  remove(envelope: Envelope<RunState>): boolean
  fail(held: HeldTask, error: DramatisError): void
  bury(agent: Cell, gone: DramatisError): void
}

/** Messages of the host's own making. */
export interface Sending {
  number(): number
  post(sender: Cell, run: RunState, frame: OwnFrame, verdict: (error: DramatisError | undefined) => void): void
  ask(
    target: Cell,
    run: RunState,
    question: Question,
    settle: (memory: Memory, at: number) => void,
    sender?: Cell,
    giver?: Cell,
  ): OpenRequest | undefined
}

/** Messages to all. */
export interface Copying {
  broadcast(sender: Cell, run: RunState, memory: Memory, at: number): void
}

/** How turns and requests end. */
export interface Settling {
  end(cell: Cell, life: Life, run: RunState, memory: Memory, at: number): void
  patch(life: Life, memory: Memory, at: number): void
  requestOf(envelope: Envelope<RunState>): OpenRequest | undefined
  move(duty: OpenRequest, offer: OpenRequest): void
  conclude(duty: OpenRequest, memory: Memory, at: number): void
  answer(
    caller: Cell,
    run: RunState,
    correlation: number,
    from: number,
    turn: number,
    error: DramatisError,
    settle: OpenRequest['settle'],
    request: { memory: Memory; at: number },
  ): void
  answerWithError(request: OpenRequest, error: DramatisError): void
  answerInstead(request: OpenRequest, frame: OwnFrame): void
  drop(envelope: Envelope<RunState>, reason: DeadLetterReason, errors: DramatisError[]): void
}

/** What is taken back. */
export interface Withdrawing {
  cancel(caller: Cell, correlation: number, reason: DramatisError | undefined): void
  withdraw(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): void
  withdrawRequests(cell: Cell, envelope: Envelope<RunState>): void
}

/** From the mailboxes into the windows. */
export interface Handing {
  touch(cell: Cell): void
  hasten(cell: Cell): void
  reply(cell: Cell, frame: OwnFrame): void
  stop(cell: Cell, envelope: Envelope<RunState>, reason: DramatisError): void
  passOn(cell: Cell, memory: Memory, at: number, kind: number, turn: number): void
  nestedBegan(cell: Cell, envelope: Envelope<RunState>): void
  runOver(run: RunState): void
}

/** The lives of agents. */
export interface LifeCycle {
  roster: (run: RunState | undefined) => RosterEntry[]
  begin(cell: Cell): Promise<void>
  ready(cell: Cell): Promise<void>
  cannotStart(cell: Cell, error: DramatisError): void
  become(cell: Cell, status: 'starting' | 'restarting' | 'stopped' | 'failed'): void
  stopForGood(cell: Cell, error: DramatisError, status?: 'stopped' | 'failed'): void
  revive(cell: Cell): Promise<void>
  remove(cell: Cell, reason: AgentTerminatedError): Promise<void>
  applyPatch(cell: Cell, run: RunState, notice: PatchNotice): void
  runNotice(cell: Cell, run: RunState): OwnFrame
}

/** How they end. */
export interface Dying {
  kill(cell: Cell, verdict: DramatisError): void
  recall(cell: Cell): Promise<void>
  exited(cell: Cell, life: Life, exit: ThreadExit): void
  killAfterGrace(cell: Cell, envelope: Envelope<RunState>): void
  releaseAll(cell: Cell): void
}

/** What becomes of messages whose turn did not end in a commit. */
export interface Redelivering {
  /** True: the message was poison. */
  giveBack(cell: Cell, life: Life, error: DramatisError, fingerprint: string | null): boolean
  giveBackUncharged(cell: Cell, life: Life, error: DramatisError): void
  bury(
    cell: Cell,
    envelope: Envelope<RunState>,
    reason: 'cancelled' | 'poison' | 'failed' | 'stopped',
    error: DramatisError,
  ): void
  replayOf(cell: Cell, envelope: Envelope<RunState>): OwnFrame | undefined
  beginAgain(cell: Cell, envelope: Envelope<RunState>, reason: DramatisError): void
  tryAgain(cell: Cell, envelope: Envelope<RunState>, memory: Memory, at: number): boolean
}

/** The verbs that the host serves. */
export interface Serving {
  serve(cell: Cell, run: RunState, memory: Memory, at: number): void
}

/** A turn that waits for a model or a person. */
export interface ThinkingTurn {
  readonly cell: Cell
  readonly turn: number
  readonly run: RunState
}

/** What deadlines do not count: the time that models and people take. */
export interface Pausing {
  /** Told of a turn whose deadlines go on. */
  onResume: (cell: Cell, envelope: Envelope<RunState>) => void
  /** Work of a model or a person that this turn waits for. */
  during<T>(waiter: ThinkingTurn, work: () => Promise<T>): Promise<T>
  isPaused(envelope: Envelope<RunState>): boolean
  /** Of all attempts of that turn together, in ms. */
  pausedMs(envelope: Envelope<RunState>, now: number): number
  /** The same since its attempt began. */
  pausedMsOfAttempt(envelope: Envelope<RunState>, now: number): number
  /** How long what that turn waits for now has stood in line behind models and people. A walk, for a deadline that would pass. */
  inLineMs(cell: Cell, envelope: Envelope<RunState>, now: number): number
}

/** Who can write on a blackboard. */
export interface SharingBoards {
  isShared(run: RunState): boolean
}

/** Where agents wait for each other. */
export interface Gathering {
  readonly open: Iterable<OpenGeneration>
  arrive(run: RunState, point: unknown, waiter: Waiter, data: unknown, signal: AbortSignal): Promise<SyncResult>
  watch(run: RunState, point: unknown, waiter: Waiter, signal: AbortSignal): Promise<SyncResult>
  left(agent: string): void
}

/** The supervisor, as its rooms and parts see it. */
export interface Core extends Directory {
  readonly clock: Scheduler
  readonly logger: Logger
  readonly spawner: Spawner
  readonly team: TeamMemory
  readonly frames: HostFrames
  /** The agents, by index; the first instance of each. */
  readonly cells: readonly Cell[]
  /** All instances of all agents. */
  readonly actors: readonly Cell[]
  readonly runs: RunTable
  readonly journal: Journal
  readonly router: Routing
  readonly admission: Admitting
  readonly mailboxRoom: MakingRoom
  readonly verdicts: Judging
  readonly held: Holding
  readonly sends: Sending
  readonly copies: Copying
  readonly settlement: Settling
  readonly withdrawals: Withdrawing
  readonly delivery: Handing
  readonly lives: LifeCycle
  readonly deaths: Dying
  readonly redelivery: Redelivering
  readonly calls: Serving
  readonly boards: SharingBoards
  readonly directory: AgentDirectory
  readonly pauses: Pausing
  readonly sharedWords: Comparing
  readonly limits: LimitNotices
  readonly syncPoints: Gathering
  readonly closed: boolean
  /** How often the supervisor has looked. */
  readonly ticks: number
  /** The least that any agent lets a message wait, if one has a limit. */
  readonly shortestQueueMs: number | undefined
  gate: Gate
  delegationBound: DelegationBound
  /** Who has that name; who had it last, where nobody has it any more. */
  cell(name: string, run?: RunState): Cell | undefined
  /** The agents of the team that there are now, and those of that run alone. */
  agents(run?: RunState): Cell[]
  /** By index; '' where an agent of one run is, or was. */
  names(): string[]
  /** A wait in that run, or the run, has come to its end by its time alone. */
  overdue(run: RunState): void
  kick(): void
  wake(): void
}

/** One responsibility. It sees records and acts through the core; when it is taken away, just that is gone. */
export type Part = (core: Core) => {
  next(batch: Batch): void
  /** A wait in that run, or the run, has come to its end by its time alone. */
  overdue?(run: RunState): void
  close?(): void
}

/** A generation that somebody waits for, as detectors see it. */
export interface OpenGeneration {
  readonly run: RunState
  readonly point: SyncPointSettings
  readonly generation: number
  /** Turns that have arrived. Such a turn may be between two attempts. */
  readonly arrived: Iterable<Waiter>
  /** Turns of the protocol script that wait for its result alone. */
  readonly watchers: Iterable<Waiter>
  /** Required agents that have not arrived, by name. */
  readonly missing: readonly string[]
  /** Ends it now as the point's `onTimeout` says; `reason` is the cause of what an 'abort' rejects with. */
  giveUp(reason: DramatisError): void
}
