/**
 * Threads that model agents share (`isolation: 'shared'`). Each agent has a seat in one: its own rings, its own epoch
 * and its own loop, so the rest of the runtime sees a thread each.
 *
 * An agent that is ended leaves its seat; the others stay. A thread that ends takes all of its agents along. The one
 * that it worked for is to blame; the others are bystanders. A thread that does not let an agent go is stuck, and ends
 * too.
 */
import type { Assignment, CodeAssignment, Started } from '../../actors/definition/assignment.ts'
import type { Logger } from '../../actors/definition/tool.ts'
import { systemClock } from '../../shared/clock.ts'
import type { PrintListener } from '../logging/printed-lines.ts'
import {
  FENCE_MS,
  FENCED,
  type SeatedThread,
  type Spawner,
  type Thread,
  type ThreadExit,
  type ThreadTimes,
} from './thread.ts'

/**
 * Agents to a thread: few threads for hundreds of agents, and no more than these begin anew when one thread ends. A
 * thread takes about 8 MB, an agent of it a few hundred KB.
 */
const SEATS = 256
/** Time in which a thread lets an agent go, if it is not stuck: less than it takes to fence the agent off. */
const LEAVE_MS = 500

export class SharedThreads {
  readonly #spawner: Spawner
  readonly #logger: Logger
  readonly #threads = new Set<SharedThread>()
  #coming: Promise<void> | undefined

  constructor(spawner: Spawner, logger: Logger) {
    this.#spawner = spawner
    this.#logger = logger
  }

  /** Undefined: an agent may take a seat now. Otherwise resolves when it may. */
  room(): Promise<void> | undefined {
    if (this.#free()) return undefined
    // all wait together: the first of them makes the thread
    this.#coming ??= this.#spawner.room(null)?.finally(() => {
      this.#coming = undefined
    })
    return this.#coming
  }

  /** `team`: that of the agent, of which all seats are woken at once. */
  seat(agent: string, ofRun: boolean, team: object): Thread {
    return (this.#free() ?? this.#add(ofRun)).admit(agent, team)
  }

  #free(): SharedThread | undefined {
    return [...this.#threads].find(({ isFree }) => isFree)
  }

  #add(ofRun: boolean): SharedThread {
    const thread = new SharedThread(this.#spawner.spawn(null, ofRun), this.#logger, () => this.#threads.delete(thread))
    this.#threads.add(thread)
    return thread
  }
}

class SharedThread {
  readonly base: SeatedThread
  /** Seat that the thread works for, or worked for last. */
  readonly atWork = new Int32Array(new SharedArrayBuffer(4))
  /** Functions that wake the hosts of the agents, by their teams: shards of a process are several. */
  readonly #hosts = new Map<object, () => void>()
  readonly #seats = new Map<number, Seat>()
  readonly #gone: () => void
  #number = 0
  /** True once an agent has started. */
  hasStarted = false
  #ending = false
  /** Agents that are about to leave. While there are any, the thread may be stuck, and takes no others. */
  #leaving = 0
  /** Seat at which the thread was stuck when the host ended it. */
  #stuckAt: number | undefined

  constructor(base: SeatedThread, logger: Logger, gone: () => void) {
    this.base = base
    this.#gone = gone
    base.onWake(() => {
      for (const wake of this.#hosts.values()) wake()
    })
    base.onPrint(printsTo(logger))
    base.onExit((exit) => this.#exited(exit))
  }

  get isFree(): boolean {
    return !this.#ending && this.#leaving === 0 && this.#seats.size < SEATS
  }

  /** Undefined: the thread has worked for nobody yet, or for one that has left. */
  get seatAtWork(): Seat | undefined {
    return this.#seats.get(Atomics.load(this.atWork, 0))
  }

  wokenBy(team: object, listener: () => void): void {
    this.#hosts.set(team, listener)
  }

  admit(agent: string, team: object): Seat {
    this.#number += 1
    // An agent that takes a seat where others have started need not wait for the thread to boot.
    const seat = new Seat(this, this.#number, agent, team, this.hasStarted || this.base.warm)
    this.#seats.set(seat.number, seat)
    return seat
  }

  leave(seat: Seat): void {
    if (this.#ending) return
    if (this.#seats.size === 1) return this.#end()
    this.#leaving += 1
    const late = systemClock.timer(LEAVE_MS, () => this.endStuck())
    void this.base.leave(seat.number).finally(() => {
      late.cancel()
      this.#leaving -= 1
      if (!this.#seats.has(seat.number)) return // the whole thread has ended
      if (this.#seats.size === 1) return this.#end() // it was not the last one when it began to leave
      this.#seats.delete(seat.number)
      if ([...this.#seats.values()].every(({ team }) => team !== seat.team)) this.#hosts.delete(seat.team)
      seat.exited({ code: 1, error: undefined })
    })
  }

  /** Ends a thread that does not go on, whoever it works for. Its agents wait no longer for its end than one alone. */
  endStuck(): void {
    if (this.#stuckAt !== undefined) return
    this.#stuckAt = Atomics.load(this.atWork, 0)
    this.#end()
    systemClock.timer(FENCE_MS, () => this.#exited({ code: FENCED, error: undefined }))
  }

  #end(): void {
    this.#ending = true
    this.base.terminate()
  }

  #exited(exit: ThreadExit): void {
    this.#ending = true
    this.#gone()
    const seats = [...this.#seats.values()]
    this.#seats.clear()
    for (const seat of seats) seat.exited(this.#exitOf(seat, exit, seats))
  }

  /**
   * Returns the exit of one agent. An error that the thread threw is that of the agent at work; if none was at work
   * yet, the thread could not begin. Without an error it was ended from outside.
   */
  #exitOf(seat: Seat, exit: ThreadExit, seats: readonly Seat[]): ThreadExit {
    const { code, error } = exit
    const at = this.#stuckAt ?? (error && Atomics.load(this.atWork, 0))
    if (seat.isLeaving || at === 0) return exit
    if (at === seat.number) return this.#stuckAt === undefined ? exit : { ...exit, stuck: true }
    const why = this.#stuckAt === undefined ? wordsOf(exit) : 'it was stuck'
    const culprit = seats.find(({ number }) => number === at)?.agent
    return { code, error: undefined, bystander: { culprit, why } }
  }
}

class Seat implements Thread {
  readonly isolated = true
  readonly warm: boolean
  readonly shared: SharedThread
  readonly number: number
  readonly agent: string
  readonly team: object
  readonly #exits: ((exit: ThreadExit) => void)[] = []
  isLeaving = false

  constructor(shared: SharedThread, number: number, agent: string, team: object, warm: boolean) {
    this.shared = shared
    this.number = number
    this.agent = agent
    this.team = team
    this.warm = warm
  }

  onWake(listener: () => void): void {
    this.shared.wokenBy(this.team, listener)
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    this.#exits.push(listener)
  }
  onPrint(): void {} // it has no code that could print; what Node warns of is the thread's
  onOwnPost(): void {}
  givesBytes(): void {} // it has no code that could read them
  wake(): void {
    this.shared.base.wake(this.number)
  }
  eventLoop(): { active: number; idle: number } | undefined {
    return this.shared.base.eventLoop()
  }
  times(): ThreadTimes | undefined {
    return this.shared.base.times()
  }
  load(assignment: CodeAssignment): Promise<Started> {
    return this.shared.base.load({ ...assignment, seat: this.#place })
  }
  async start(assignment: Assignment): Promise<Started> {
    const started = await this.shared.base.start({ ...assignment, seat: this.#place })
    this.shared.hasStarted = true
    return started
  }
  get #place() {
    return { number: this.number, atWork: this.shared.atWork.buffer as SharedArrayBuffer }
  }
  isIdle(): Promise<boolean> {
    return this.shared.base.isIdle(this.number)
  }
  stop(): Promise<void> {
    return this.shared.base.stop(this.number)
  }
  terminate(): void {
    if (this.isLeaving) return
    this.isLeaving = true
    this.shared.leave(this)
  }
  get atWork(): Thread {
    return this.shared.seatAtWork ?? this
  }
  exited(exit: ThreadExit): void {
    this.isLeaving = true
    for (const listener of this.#exits) listener(exit)
  }
}

const wordsOf = ({ code, error }: ThreadExit): string =>
  error ? `${error.name}: ${error.message}` : `exit code ${code}, from outside`

function printsTo(logger: Logger): PrintListener {
  return {
    line: (text) => logger.info({ thread: 'shared' }, text),
    flooded: () => logger.warn({ thread: 'shared' }, 'a shared thread prints too much; the rest is left out'),
    leftOut: (lines) => logger.warn({ thread: 'shared', lines }, `${lines} lines of a shared thread were left out`),
  }
}
