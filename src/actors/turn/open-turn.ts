/** What the parts of a turn know of each other: the thread that runs the turn, the turn itself, and its open waits. */
import type { Mark } from '../../mailbox/codec.ts'
import type { Memory } from '../../mailbox/frame.ts'
import type { ReadBytes } from '../../mailbox/stored-parts.ts'
import type { Scheduler } from '../../shared/clock.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { RoundBounds } from '../definition/assignment.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { ContextStrategy, GuardArguments, GuardedBy, RoleInfo } from '../definition/role.ts'
import type { Logger } from '../definition/tool.ts'
import type { Link, Outbox, SendQueue } from './link.ts'
import type { Settlements } from './logged-turn.ts'
import type { GoingOn, Parking } from './parking.ts'
import type { TurnStart } from './replay.ts'
import type { RunView } from './run-views.ts'
import type { StateRules } from './state.ts'
import type { Hold, OpenSteps, WrittenSteps } from './steps.ts'
import type { Toolbox } from './toolbox.ts'

/** The agent and its thread, as its turns use them. */
export interface AgentThread {
  readonly role: RoleInfo
  /** Set by the start, as the next one, which the end of a turn changes. */
  data: unknown
  state: object
  readonly stateRules: StateRules
  readonly toolbox: Toolbox
  /** True if the agent has an `observe` handler. */
  readonly observes: boolean
  /** Verbs that a model is offered as tools. */
  readonly verbs: readonly string[]
  /** Limits beyond which the rounds of a model count as a loop; false: no check. */
  readonly loops: RoundBounds | false
  /** Number of messages that a turn may send. */
  readonly messagesPerTurn: number
  /** Checks that the host has for the agent; undefined without any. */
  readonly guardedBy: GuardedBy | undefined
  /** JSON schema of the answers of the agent's model. */
  readonly roleOutput: object | undefined
  /** Context strategy of the model: from the role, or from the definition if it sets one. */
  readonly strategy: ContextStrategy | undefined
  readonly buildContext: AgentHandlers['buildContext']
  readonly link: Link
  readonly outbox: Outbox
  readonly sends: SendQueue
  readonly waits: Waits
  readonly parking: Parking
  readonly goingOn: GoingOn
  /** Present in a team with a durable log. */
  readonly writtenSteps: WrittenSteps | undefined
  readonly timer: Scheduler['timer']
  runState(view: RunView): object
  /** Returns the name of the agent with that index. */
  name(index: number): string
  /** Returns the agent's index in frames of that run; undefined if this thread does not know the agent. */
  indexOf(name: string, run: RunView): number | undefined
  /** Returns what reads stored bytes of that run. */
  bytesOf(run: number, hash: string): ReadBytes
  /** Returns a logger; `fields` are added to each of its lines. */
  loggerFor(start: TurnStart, fields?: object): Logger
  /** Converts anything thrown into an error that names the agent and the activity that failed. */
  failure(thrown: unknown, at: string): DramatisError
  /** Returns the time in epoch ms. */
  now(): number
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
  /** Lets the event loop turn once, so that timers, sockets and wake-ups run. */
  breath(): Promise<void>
  /** Notes that the turn may only wait for others now. It parks once the loop is idle, if its permit is wanted. */
  mayPark(start: TurnStart): void
  /** Notes that something of the turn is held back. */
  held(turn: OpenTurn): void
  /** Settles a wait with the frame that answers it, which is read at once: now, or by `later`. */
  answer(wait: Wait, memory: Memory, at: number, later?: (settle: () => void) => void): void
  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void
  /** Withdraws a wait when `last` was the last answer that the turn had got. */
  writeCancel(start: TurnStart, correlation: number, last: Mark): void
}

/** A turn, as its parts use it. */
export interface OpenTurn {
  readonly start: TurnStart
  readonly runId: string
  readonly ended: boolean
  readonly signal: AbortSignal
  /** Holds back what the log does not have; undefined for most turns. */
  readonly hold: Hold | undefined
  /** Undefined until the turn begins its first step. */
  readonly steps: OpenSteps | undefined
  readonly settlements: Settlements
  /** Writes the answer in chunks; `behind`: its reader is far behind. Undefined for most turns. */
  readonly emitter: { readonly behind: boolean } | undefined
  readonly guardedBy: GuardedBy | undefined
  /** Number of messages that it has sent, or was about to. */
  messagesSent: number
  nextStep(): number
  /** Returns the reason why verbs no longer work, if there is one. */
  refusal(): DramatisError | undefined
  /** Returns the frame's encoding of a wait that the signal may end. */
  waitingFor(signal: AbortSignal | undefined): number
  /** Waits until the reader of the answer has caught up. */
  breathe(): Promise<void>
  /** Calls a verb that the host serves. */
  call(operation: string, args: object, signal?: AbortSignal, alike?: object): Promise<unknown>
  /** Has a value checked. Returns it, changed or not. */
  guard(args: GuardArguments, signal?: AbortSignal): Promise<unknown>
  /** Runs `work` and counts it as the turn's own work, even if nothing runs in the thread. */
  atWork<T>(work: () => Promise<T>): Promise<T>
}

/** An open wait of a turn. */
export interface Wait {
  readonly kind: 'request' | 'send'
  readonly correlation: number
  readonly order: Settlements
  /** True if its answer has arrived: it cannot be withdrawn any more. */
  isAnswered: boolean
  /** Number of pieces of its answer that have arrived. */
  pieces: number
  /** Receives the chunks that arrive before the answer. */
  stream: { push(piece: string): void } | undefined
  /** Ends the wait with a value, or with an error. */
  settle(value: unknown, error?: unknown): void
}

const HIGHEST = 0x7fff_ffff

/** The open waits of a thread, by number. */
export class Waits extends Map<number, Wait> {
  readonly #step: number
  readonly #first: number
  #last: number

  /**
   * Creates the numbering.
   *
   * @param last highest number used by an earlier thread of this agent
   * @param step number of the agent's instances; each instance has its own numbers
   */
  constructor(last: number, step: number) {
    super()
    this.#step = step
    this.#last = last
    this.#first = ((((last - 1) % step) + step) % step) + 1
  }

  /** Returns the number for a new wait. */
  next(): number {
    this.#last = this.#last > HIGHEST - this.#step ? this.#first : this.#last + this.#step
    return this.#last
  }
}
