/** The thread of a turn, the turn itself and its open waits, as the parts of the turn know each other. */
import { type Mark, UNANSWERED } from '../../mailbox/codec.ts'
import type { Memory } from '../../mailbox/frame.ts'
import type { ReadBytes } from '../../mailbox/stored-parts.ts'
import type { Scheduler } from '../../shared/clock.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { Assignment } from '../definition/assignment.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { ContextStrategy, GuardArguments, GuardedBy, RoleInfo } from '../definition/role.ts'
import type { Logger } from '../definition/tool.ts'
import type { Link, Outbox, SendQueue } from './link.ts'
import type { Script, Settled } from './logged-turn.ts'
import type { GoingOn, Parking } from './parking.ts'
import type { TurnStart } from './replay.ts'
import type { Names, RunView } from './run-views.ts'
import type { StateRules } from './state.ts'
import type { Hold, OpenSteps, WrittenSteps } from './steps.ts'
import type { Toolbox } from './toolbox.ts'

export interface AgentThread {
  readonly assignment: Assignment
  readonly handlers: AgentHandlers
  readonly role: RoleInfo
  /** Set by the start, as the next one, which the end of a turn changes. */
  data: unknown
  state: object
  readonly stateRules: StateRules
  readonly toolbox: Toolbox
  /** True if the agent has an `observe` handler. */
  readonly observes: boolean
  /** Context strategy of the model: from the role, or from the definition if it sets one. */
  readonly strategy: ContextStrategy | undefined
  readonly names: Names
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
  mayPark(): void
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
  /** Number of its last verb that is a step: the next one adds 1 to it. */
  step: number
  /** The reason why the turn must stop, if there is one. */
  readonly reason: DramatisError | undefined
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

/*
 * Settles the waits of a turn one by one, in an order that the log tells: the handler of each has gone as far as it can
 * before the next one settles. A later attempt of the turn is settled in the same order, and only then by what is new.
 * So what is first of several is first again.
 */

interface SettlementNeeds {
  /** The moments of the turn's earlier attempts. */
  readonly script: Script | undefined
  /** Called when what settles next has to wait for what the log has before it. */
  held(): void
  /** Called after something has settled late, or is not waited for any longer. */
  settled(): void
}

/** Something that has arrived, and has not settled yet. */
interface Arrived {
  readonly index: number
  readonly logged: Settled | undefined
  settle(): void
}

const NOW = Promise.resolve()

export class Settlements {
  readonly #needs: SettlementNeeds
  /** In the order in which they settle. */
  readonly #arrived: Arrived[] = []
  /** Number of open waits. Who begins one adds it; `ended` takes it away. */
  open = 0
  /** True until the handler has done what follows from the last settlement. */
  #isPaused = false
  #isOver = false
  /** The answer that the turn has got last, or the piece of one. */
  last: Mark

  constructor(needs: SettlementNeeds) {
    this.#needs = needs
    this.last = needs.script?.last ?? UNANSWERED
  }

  /** True if what arrives now may settle at once. */
  get isFree(): boolean {
    if (this.#isPaused || this.#arrived.length > 0) return this.#isOver
    return !this.#needs.script || this.#isOver || this.#awaited === Number.POSITIVE_INFINITY
  }

  /** Position of the first thing that the log has and the turn has not got again. */
  get #awaited(): number {
    return this.#needs.script?.open ?? Number.POSITIVE_INFINITY
  }

  /** True if something has arrived that has not settled yet. */
  get isSettling(): boolean {
    return this.#arrived.length > 0
  }

  /** True if what has arrived waits for something that the log has before it. */
  get isBlocked(): boolean {
    const [next] = this.#arrived
    return next !== undefined && !this.#isPaused && next.index > this.#awaited
  }

  ended(): void {
    this.open -= 1
    if (this.open > 0) this.pause()
  }

  /** Says in a frame for what the turn has settled by itself what it had got before. */
  mark(fields: { correlation: number; priority: number }): void {
    fields.correlation = this.last.correlation
    fields.priority = this.last.piece
  }

  /** Settles what has arrived when it is its turn. */
  settle(settle: () => void): void {
    if (this.isFree) settle()
    else this.#add({ index: this.#needs.script?.next() ?? 0, logged: undefined, settle })
  }

  /** Resolves when what has arrived may settle. */
  turn(): Promise<void> {
    return new Promise((resolve) => this.settle(resolve))
  }

  /** Settles once more what the log has. */
  again(logged: Settled, settle: () => void): void {
    if (this.#isOver) settle()
    else this.#add({ index: logged.index, logged, settle })
  }

  #add(arrived: Arrived): void {
    const behind = this.#arrived.findLastIndex(({ index }) => index <= arrived.index)
    this.#arrived.splice(behind + 1, 0, arrived)
    this.pause()
  }

  /** Lets the handler go on until it waits for something else. Then the next one settles. */
  pause(): void {
    if (this.#isPaused || this.#isOver) return
    this.#isPaused = true
    // A tick that begins among microtasks comes after all of them. A promise costs less than `queueMicrotask`, which
    // async hooks follow.
    void NOW.then(this.#tick)
  }
  readonly #tick = () => process.nextTick(this.#next)
  readonly #next = () => {
    this.#isPaused = false
    if (this.#arrived.length === 0) return
    if (this.isBlocked) return this.#needs.held()
    this.#settle(this.#arrived.shift()!)
    this.#needs.settled()
    if (this.#arrived.length > 0) this.pause()
  }

  #settle({ logged, settle }: Arrived): void {
    if (logged) logged.isOver = true
    settle()
  }

  /** The handler does not come to what the log has before the next one: that is not waited for any longer. */
  skip(): void {
    this.#needs.script?.skip(this.#arrived[0]?.index ?? Number.POSITIVE_INFINITY)
    this.#needs.settled()
    this.pause()
  }

  /** Settles all that has arrived: the turn is over, or must stop. */
  close(): void {
    this.#isOver = true
    for (const arrived of this.#arrived.splice(0)) this.#settle(arrived)
  }
}
