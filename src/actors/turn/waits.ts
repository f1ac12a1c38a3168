/** The waits of a turn. Each is open until it is settled, withdrawn, or answered from the log of an earlier attempt. */
import { CancelledError, type DramatisError } from '../../errors.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Mark } from '../../mailbox/mark.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { onAbort } from '../../on-abort.ts'
import { withdrawn } from '../definition/checks.ts'
import { handled } from '../definition/promises.ts'
import type { GoingOn } from '../transport/going-on.ts'
import type { Link } from '../transport/link.ts'
import type { Parking } from '../transport/parking.ts'
import type { Wait, Waits } from '../transport/waits.ts'
import type { Logged } from './logged-turn.ts'
import type { OpenSteps } from './open-steps.ts'
import type { Settlements } from './settlements.ts'
import type { TurnStart } from './turn-start.ts'

export interface WaitNeeds {
  readonly goingOn: GoingOn
  readonly link: Link
  /** Notes that the turn may only wait for others now. It parks once the loop is idle, if its permit is wanted. */
  mayPark(start: TurnStart): void
  readonly parking: Parking
  /** Reads the frame that answers a wait. Returns what settles the wait with it. */
  settlement(wait: Wait, memory: Memory, at: number): () => void
  readonly waits: Waits
  /** Withdraws a wait when `last` was the last answer that the turn had got. */
  writeCancel(start: TurnStart, correlation: number, last: Mark): void
}

/** The parts of the turn that are needed here. */
interface WaitingTurn {
  readonly start: TurnStart
  readonly steps: OpenSteps | undefined
  readonly settlements: Settlements
}

export class TurnWaits {
  readonly #needs: WaitNeeds
  readonly #turn: WaitingTurn
  readonly #open = new Set<Wait>()

  constructor(needs: WaitNeeds, turn: WaitingTurn) {
    this.#needs = needs
    this.#turn = turn
  }

  /** Number of open waits. */
  get count(): number {
    return this.#open.size
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
    const { start, steps, settlements } = this.#turn
    const ofSteps = steps?.began()
    settlements.began()
    const promise = new Promise<unknown>((resolve, reject) => {
      const settled = () => {
        if (!this.#open.delete(wait)) return
        if (ofSteps) steps?.settled(ofSteps)
        waits.delete(correlation)
        settlements.ended()
      }
      const wait: Wait = {
        order: settlements,
        isAnswered: false,
        pieces: 0,
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
    const { goingOn, link, waits } = this.#needs
    const { settlements, start } = this.#turn
    const wait = waits.get(correlation)
    if (!wait || wait.isAnswered) return
    this.#needs.writeCancel(start, correlation, settlements.last)
    link.flush()
    waits.delete(correlation) // discards a later answer
    goingOn.with(start, () => settlements.settle(() => wait.reject(reason)))
  }

  /**
   * Withdraws all open waits. If the turn must stop (`sends`), sends that wait for room are withdrawn too. A turn that
   * has ended normally leaves its sends to be delivered.
   */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    for (const wait of [...this.#open]) {
      const correlation = this.#needs.waits.numberOf(wait)
      if (correlation !== undefined && !wait.isAnswered && (sends || wait.kind === 'request'))
        this.#needs.writeCancel(this.#turn.start, correlation, this.#turn.settlements.last)
      wait.reject(reason)
    }
  }

  /** Settles a wait as the log has it: with its pieces, and with its answer if it has one. */
  settleAgain(correlation: number, to: string, { pieces, settled }: Logged): void {
    const { settlements } = this.#turn
    const wait = this.#needs.waits.get(correlation)!
    wait.pieces = pieces.length
    wait.isAnswered = settled !== undefined
    for (const piece of pieces) {
      const { memory, at } = piece.frame!
      settlements.again(piece, () => wait.stream?.push(readBody(memory, at).content))
    }
    if (!settled) return
    const { frame } = settled
    const settle = frame ? this.#needs.settlement(wait, frame.memory, frame.at) : () => wait.reject(withdrawnBefore(to))
    settlements.again(settled, settle)
  }
}

const withdrawnBefore = (to: string) =>
  new CancelledError(`The wait for "${to}" was withdrawn by an earlier attempt of this turn.`, { agent: to })
