/** What a turn needs of the loop that runs it. */
import type { DramatisError } from '../errors.ts'
import type { Memory } from '../mailbox/memory.ts'
import type { MessageType } from '../mailbox/message.ts'
import type { RosterEntry } from './assignment.ts'
import type { Link } from './link.ts'
import type { Logger } from './logger.ts'
import type { Outbox } from './outbox.ts'
import type { Replay } from './replay.ts'
import type { RoleInfo } from './role.ts'
import type { ResponseStream } from './stream.ts'

/** One open wait of a turn. */
export interface Wait {
  readonly kind: 'request' | 'send'
  stream: ResponseStream | undefined
  resolve(value: unknown): void
  reject(error: unknown): void
}

/** What a thread knows of a run. */
export interface RunView {
  readonly index: number
  readonly id: string
  readonly metadata: Readonly<Record<string, string>>
  readonly threadId: string | undefined
  readonly roster: readonly RosterEntry[]
  runState: object | undefined
  /** The host knows the first value of the run's state. */
  based: boolean
}

/** What the loop knows of the message under way. */
export interface TurnStart {
  turn: number
  run: number
  view: RunView
  /** The four words of the message's id. */
  id: readonly [number, number, number, number]
  attempt: number
  /** The caller's index and its number for the request; correlation 0 when nobody waits. */
  caller: number
  correlation: number
  streams: boolean
  type: MessageType
  /** Epoch ms. */
  startedAt: number
  replay: Replay | undefined
}

export interface TurnHost {
  readonly role: RoleInfo
  readonly data: unknown
  readonly state: object
  readonly outbox: Outbox
  readonly link: Link
  readonly now: () => number
  runState(view: RunView): object
  loggerFor(start: TurnStart): Logger
  indexOf(name: string): number | undefined

  nextCorrelation(): number
  remember(correlation: number, wait: Wait): void
  forget(correlation: number): void
  waitOf(correlation: number): Wait | undefined
  correlationOf(wait: Wait): number | undefined
  /** Settles a wait with the frame that answers it. */
  settle(correlation: number, memory: Memory, at: number): void

  /** Whether messages to that agent have to ask for room because earlier sends still wait for their verdict. */
  asking(recipient: number): boolean
  /**
   * Writes a message that asks for room, in its order. So many sends to one recipient wait at the host; further messages
   * wait here. What is settled before it was written never is. `counts`: the settlement is the verdict on a send.
   */
  ask(recipient: number, write: () => void, settled: Promise<unknown>, counts: boolean): void
  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void

  /** An open turn may wait only for others now: when the loop is idle, that is so. */
  lookAgain(): void
  /** Lets the event loop turn once: timers, sockets, bells. */
  breath(): Promise<void>
  sleep(ms: number, signal: AbortSignal): Promise<void>
  /** Anything thrown, as an error that says who failed at what. */
  failure(thrown: unknown, at: string): DramatisError
}
