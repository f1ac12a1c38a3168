/**
 * Settles the waits of a turn one by one, in an order that the log tells: the handler of each has gone as far as it can
 * before the next one settles. A later attempt of the turn is settled in the same order, and only then by what is new.
 * So what is first of several is first again.
 */
import { type Mark, UNANSWERED } from '../../mailbox/mark.ts'
import type { Settled } from './logged-turn.ts'
import type { Script } from './script.ts'

interface Needs {
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
  readonly #needs: Needs
  /** In the order in which they settle. */
  readonly #arrived: Arrived[] = []
  /** Number of open waits. */
  #open = 0
  /** True until the handler has done what follows from the last settlement. */
  #isPaused = false
  #isOver = false
  /** The answer that the turn has got last. To be read only. */
  last: Mark

  constructor(needs: Needs) {
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

  /** Notes that a wait begins; `ended` notes that it has settled. */
  began(): void {
    this.#open += 1
  }

  ended(): void {
    this.#open -= 1
    if (this.#open > 0) this.pause()
  }

  /** Notes an answer, or a piece of one. */
  answered(correlation: number, piece: number): void {
    this.last = { correlation, piece }
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
