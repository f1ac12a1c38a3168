/** The waits of a turn. Each is open until it is settled, withdrawn, or answered from the log of an earlier attempt. */
import { CancelledError, type DramatisError } from '../../errors.ts'
import { CANCEL } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { onAbort } from '../../on-abort.ts'
import { withdrawn } from '../definition/checks.ts'
import { handled } from '../definition/promises.ts'
import type { GoingOn } from '../transport/going-on.ts'
import type { Link } from '../transport/link.ts'
import type { Parking } from '../transport/parking.ts'
import type { Wait, Waits } from '../transport/waits.ts'
import type { OpenSteps } from './open-steps.ts'
import type { Answer } from './replay.ts'
import type { TurnStart } from './turn-start.ts'

export interface WaitNeeds {
  /** Lets the event loop turn once. */
  breath(): Promise<void>
  readonly goingOn: GoingOn
  readonly link: Link
  /** Notes that the turn may only wait for others now. It parks once the loop is idle, if its permit is wanted. */
  mayPark(start: TurnStart): void
  readonly parking: Parking
  /** Settles a wait with the frame that answers it. */
  settle(correlation: number, memory: Memory, at: number): void
  readonly waits: Waits
  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void
}

/** The parts of the turn that are needed here. */
interface WaitingTurn {
  readonly start: TurnStart
  readonly steps: OpenSteps | undefined
}

/** Step that the log has settled. */
interface Replayed {
  readonly order: number
  readonly settle: () => void
  readonly isApart: boolean
}

export class TurnWaits {
  readonly #needs: WaitNeeds
  readonly #turn: WaitingTurn
  readonly #open = new Set<Wait>()
  /** Steps that the handler has repeated and the log has settled. A queued microtask settles them together. */
  readonly #replayed: Replayed[] = []
  #isSettling = false

  constructor(needs: WaitNeeds, turn: WaitingTurn) {
    this.#needs = needs
    this.#turn = turn
  }

  /** Number of open waits. */
  get count(): number {
    return this.#open.size
  }

  /** True if the log has answers for open waits. Those answers arrive at once. */
  get replaying(): boolean {
    return this.#replayed.length > 0
  }

  /** Opens a wait; `signal` withdraws it. */
  add(correlation: number, kind: Wait['kind'], to: string, signal: AbortSignal | undefined): Promise<unknown> {
    const promise = this.#begin(correlation, kind)
    if (signal) {
      const stop = onAbort(signal, () => this.withdraw(correlation, withdrawn(to, signal)))
      promise.then(stop, stop)
    }
    return promise
  }

  #begin(correlation: number, kind: Wait['kind']): Promise<unknown> {
    const { waits, parking } = this.#needs
    const { start, steps } = this.#turn
    const ofSteps = steps?.began()
    const promise = new Promise<unknown>((resolve, reject) => {
      const settled = () => {
        if (this.#open.delete(wait) && ofSteps) steps?.settled(ofSteps)
        waits.delete(correlation)
      }
      const wait: Wait = {
        kind,
        correlation,
        stream: undefined,
        resolve: (value) => {
          settled()
          resolve(value)
        },
        reject: (error) => {
          settled()
          reject(error)
        },
      }
      this.#open.add(wait)
      if (parking.marked > 0) parking.unpark(start)
      waits.add(correlation, wait)
      this.#needs.mayPark(start)
    })
    return handled(promise)
  }

  /** Withdraws a wait whose answer the caller no longer wants. */
  withdraw(correlation: number, reason: DramatisError): void {
    const wait = this.#needs.waits.get(correlation)
    if (!wait) return
    this.#needs.writeControl(CANCEL, this.#turn.start, correlation, 0)
    this.#needs.link.flush()
    this.#needs.waits.delete(correlation) // discards a later answer
    this.#needs.goingOn.with(this.#turn.start, () => wait.reject(reason))
  }

  /**
   * Withdraws all open waits. If the turn must stop (`sends`), sends that wait for room are withdrawn too. A turn that
   * has ended normally leaves its sends to be delivered.
   */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    for (const wait of [...this.#open]) {
      const correlation = this.#needs.waits.numberOf(wait)
      if (correlation !== undefined && (sends || wait.kind === 'request'))
        this.#needs.writeControl(CANCEL, this.#turn.start, correlation, 0)
      wait.reject(reason)
    }
  }

  /** Settles a wait from the log. */
  settleAgain(correlation: number, to: string, { frame, order }: Answer): void {
    this.inOrder(order, () => {
      if (frame) this.#needs.settle(correlation, frame.memory, frame.at)
      else this.#needs.waits.get(correlation)?.reject(withdrawnBefore(to))
    })
  }

  /**
   * Settles what the log has settled. All that was repeated so far is settled together, in the order of the log, so
   * that the same one of several is first again. `isApart`: promises of others take another number of microtasks, so
   * the event loop turns before and after.
   */
  inOrder(order: number, settle: () => void, isApart = false): void {
    this.#replayed.push({ order, settle, isApart })
    if (this.#isSettling) return
    this.#isSettling = true
    queueMicrotask(() => this.#settleReplayed())
  }

  #settleReplayed(): void {
    this.#replayed.sort((a, b) => a.order - b.order)
    for (let next = this.#replayed.shift(); next; next = this.#replayed.shift()) {
      next.settle()
      const [following] = this.#replayed
      if (following && (next.isApart || following.isApart))
        return void this.#needs.breath().then(() => this.#settleReplayed())
    }
    this.#isSettling = false
    this.#needs.mayPark(this.#turn.start)
  }
}

const withdrawnBefore = (to: string) =>
  new CancelledError(`The wait for "${to}" was withdrawn by an earlier attempt of this turn.`, { agent: to })
