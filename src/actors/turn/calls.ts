/** Manages the waits of a turn: for responses to its requests, and for results of verbs that the host serves. */
import type { DramatisError } from '../../errors.ts'
import { CALL, correlationOf } from '../../mailbox/frame.ts'
import { encodeData, withdrawn } from '../definition/checks.ts'
import type { RequestOptions } from '../definition/context/context.ts'
import { OWN_WORK } from '../definition/own-work.ts'
import { handled, rejected } from '../definition/promises.ts'
import { ACKNOWLEDGE } from '../definition/trust.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { Hold } from './hold.ts'
import type { Logged } from './logged-turn.ts'
import { NO_OPTIONS, type SayingTurn } from './message-frame.ts'
import type { OpenSteps } from './open-steps.ts'
import type { Settlements } from './settlements.ts'
import type { Relay } from './stream.ts'
import { TurnWaits, type WaitNeeds } from './waits.ts'

export interface CallNeeds extends WaitNeeds {
  readonly outbox: Outbox
}

/** The parts of its turn that are needed here. */
export interface CallingTurn extends Relay, SayingTurn {
  /** Undefined until the turn begins its first step. */
  readonly steps: OpenSteps | undefined
  /** Holds back what the log does not have; undefined for most turns. */
  readonly hold: Hold | undefined
  readonly settlements: Settlements
  /** Returns the reason why verbs no longer work, if there is one. */
  refusal(): DramatisError | undefined
}

/** A wait for a response. */
export interface AwaitedResponse {
  promise: Promise<unknown>
  correlation: number
  /** Number of chunks that an earlier attempt had reported as read. */
  reported?: number
  /** Called when a request that was held back has begun; from then on it has its number. */
  onBegun?: () => void
}

/** Names a call as the log does. */
const callName = (operation: string, args: object): string =>
  operation === 'tool' ? `tool ${String(Reflect.get(args, 'name'))}` : operation

export class TurnCalls {
  readonly #needs: CallNeeds
  readonly #turn: CallingTurn
  #waits: TurnWaits | undefined

  constructor(needs: CallNeeds, turn: CallingTurn) {
    this.#needs = needs
    this.#turn = turn
  }

  /** Number of open waits for others. */
  get waiting(): number {
    return this.#waits?.count ?? 0
  }

  /**
   * Calls a verb that the host serves. The answer is JSON.
   *
   * @param signal withdraws the call
   * @param onPiece receives the chunks that arrive before the answer
   * @param alike the leading arguments, if a later attempt must recognize the call by them alone
   */
  call(
    operation: string,
    args: object,
    signal: AbortSignal | undefined,
    onPiece?: (piece: string) => void,
    alike?: object,
  ): Promise<unknown> {
    const refusal = this.#turn.refusal()
    if (refusal) return rejected(refusal)
    const { outbox, waits } = this.#needs
    if (this.#turn.breathless) return this.afterBreath(() => this.call(operation, args, signal, onPiece, alike))
    const { run, turn, replay } = this.#turn.start
    const options: RequestOptions = signal ? { signal } : NO_OPTIONS
    try {
      const data = encodeData(args, operation)
      const fields = outbox.begin(CALL, run, turn, this.#turn.nextStep(), operation, data)
      fields.correlation = waits.next()
      fields.waiting = this.#turn.waitingFor(signal)
      const bytes = outbox.checkedSize()
      const frame = replay && outbox.encode(bytes)
      const logged =
        frame && (alike ? replay.matchCall(operation, outbox.keys?.data(alike) ?? alike) : replay.match(frame))
      if (logged && !logged.isUndone) {
        const response = this.reattach(operation, logged, options)
        if (onPiece) this.#hear(response, onPiece)
        return response.promise
      }
      if (signal?.aborted) throw withdrawn(operation, signal)
      const { hold } = this.#turn
      if (frame && !logged && hold?.isOpen && operation !== ACKNOWLEDGE) {
        const again = () => this.call(operation, args, signal, onPiece, alike)
        return hold.until(callName(operation, args), again, OWN_WORK.has(operation))
      }
      outbox.write(bytes, 'now')
      const response = this.awaitResponse(operation, fields.correlation, options)
      if (onPiece) this.#hear(response, onPiece)
      return response.promise
    } catch (error) {
      return rejected(error)
    }
  }

  /**
   * Passes on the chunks of the answer. If `onPiece` throws, the wait ends with that error.
   */
  #hear({ correlation }: AwaitedResponse, onPiece: (piece: string) => void): void {
    const wait = this.#needs.waits.get(correlation)
    if (!wait) return
    const push = (piece: string) => {
      try {
        onPiece(piece)
      } catch (error) {
        wait.reject(error)
      }
    }
    wait.stream = { push }
  }

  /** Delays a verb until the reader of the emitted stream has caught up. */
  afterBreath<T>(verb: () => Promise<T>): Promise<T> {
    return handled(this.#turn.breathe().then(verb))
  }

  /** Continues the wait of a step that is in the log under its old number, or settles it with the logged answer. */
  reattach(to: string, logged: Logged, options: RequestOptions): AwaitedResponse {
    const correlation = correlationOf(logged.memory, logged.at)
    const response = this.awaitResponse(to, correlation, logged.settled ? NO_OPTIONS : options)
    this.waits.settleAgain(correlation, to, logged)
    return { ...response, reported: logged.reported }
  }

  awaitResponse(to: string, correlation: number, options: RequestOptions): AwaitedResponse {
    return { promise: this.waits.add(correlation, 'request', to, options.signal), correlation }
  }

  /** Created on demand, because most turns wait for nothing. */
  get waits(): TurnWaits {
    this.#waits ??= new TurnWaits(this.#needs, this.#turn)
    return this.#waits
  }

  /** See `TurnWaits`. */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    this.#waits?.withdrawAll(reason, sends)
  }
}
