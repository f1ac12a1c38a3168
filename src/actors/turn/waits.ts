/** What a turn waits for: each wait until it is settled, withdrawn, or answered from the log of an earlier attempt. */
import { CancelledError, type DramatisError } from '../../errors.ts'
import { CANCEL } from '../../mailbox/frame.ts'
import { onAbort } from '../../on-abort.ts'
import { withdrawn } from '../definition/checks.ts'
import { handled } from '../definition/promises.ts'
import type { Wait } from '../transport/waits.ts'
import type { OpenSteps } from './open-steps.ts'
import type { Answer } from './replay.ts'
import type { TurnHost, TurnStart } from './turn-host.ts'

/** What it needs of the turn. */
interface WaitingTurn {
  readonly start: TurnStart
  readonly steps: OpenSteps | undefined
}

export class TurnWaits {
  readonly #loop: TurnHost
  readonly #turn: WaitingTurn
  readonly #open = new Set<Wait>()
  /** Answers from the log, for what was asked again in this stretch of the handler. */
  #replayed: { correlation: number; to: string; answer: Answer }[] = []

  constructor(loop: TurnHost, turn: WaitingTurn) {
    this.#loop = loop
    this.#turn = turn
  }

  /** How many are open. */
  get count(): number {
    return this.#open.size
  }

  /** The log has answers for some that are open: they come at once. */
  get replaying(): boolean {
    return this.#replayed.length > 0
  }

  /** A new wait; `signal` withdraws what it waits for. */
  add(correlation: number, kind: Wait['kind'], to: string, signal: AbortSignal | undefined): Promise<unknown> {
    const promise = this.#begin(correlation, kind)
    if (signal) {
      const stop = onAbort(signal, () => this.withdraw(correlation, withdrawn(to, signal)))
      promise.then(stop, stop)
    }
    return promise
  }

  #begin(correlation: number, kind: Wait['kind']): Promise<unknown> {
    const { waits, parking } = this.#loop
    const { start, steps } = this.#turn
    const ofSteps = steps?.began()
    const promise = new Promise<unknown>((resolve, reject) => {
      const settled = () => {
        if (this.#open.delete(wait) && ofSteps) steps?.settled(ofSteps)
        waits.delete(correlation)
      }
      const wait: Wait = {
        kind,
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
      parking.unpark(start)
      waits.add(correlation, wait)
      this.#loop.mayPark(start)
    })
    return handled(promise)
  }

  /** The caller no longer wants the answer. */
  withdraw(correlation: number, reason: DramatisError): void {
    const wait = this.#loop.waits.get(correlation)
    if (!wait) return
    this.#loop.writeControl(CANCEL, this.#turn.start, correlation, 0)
    this.#loop.link.flush()
    this.#loop.waits.delete(correlation) // what comes for it is not wanted any more
    this.#loop.goingOn.with(this.#turn.start, () => wait.reject(reason))
  }

  /**
   * Nothing that is open is wanted any more. What was sent and waits for room is withdrawn as well when the turn is to
   * stop; a turn that has ended has sent it.
   */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    for (const wait of [...this.#open]) {
      const correlation = this.#loop.waits.numberOf(wait)
      if (correlation !== undefined && (sends || wait.kind === 'request'))
        this.#loop.writeControl(CANCEL, this.#turn.start, correlation, 0)
      wait.reject(reason)
    }
  }

  /** In the order of the log, so that of several the same one is first; hence not before all of them were asked for again. */
  settleAgain(correlation: number, to: string, answer: Answer): void {
    if (this.#replayed.push({ correlation, to, answer }) > 1) return
    queueMicrotask(() => {
      const replayed = this.#replayed.sort((a, b) => a.answer.order - b.answer.order)
      this.#replayed = []
      for (const { correlation, to, answer } of replayed) {
        const { frame } = answer
        if (frame) this.#loop.settle(correlation, frame.memory, frame.at)
        else this.#loop.waits.get(correlation)?.reject(withdrawnBefore(to))
      }
      this.#loop.mayPark(this.#turn.start)
    })
  }
}

const withdrawnBefore = (to: string) =>
  new CancelledError(`The wait for "${to}" was withdrawn by an earlier attempt of this turn.`, { agent: to })
