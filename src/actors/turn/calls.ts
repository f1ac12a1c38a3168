/** What a turn waits for: answers to its requests, and to the verbs that the host serves. */
import type { DramatisError } from '../../errors.ts'
import { CALL } from '../../mailbox/frame.ts'
import { encodeData, withdrawn } from '../definition/checks.ts'
import type { RequestOptions } from '../definition/context/context.ts'
import { handled, rejected } from '../definition/promises.ts'
import { NO_OPTIONS, type SayingTurn } from './message-frame.ts'
import type { OpenSteps } from './open-steps.ts'
import type { Matched, Streamed } from './replay.ts'
import type { Relay } from './stream.ts'
import type { TurnHost } from './turn-host.ts'
import { TurnWaits } from './waits.ts'

/** What it needs of its turn. */
export interface CallingTurn extends Relay, SayingTurn {
  /** Once it has had any. */
  readonly steps: OpenSteps | undefined
  /** Why no verb works any more, if none does. */
  refusal(): DramatisError | undefined
}

/** The wait for an answer. */
export interface AwaitedResponse {
  promise: Promise<unknown>
  correlation: number
  /** To an earlier attempt. */
  streamed?: Streamed | undefined
}

export class TurnCalls {
  protected readonly loop: TurnHost
  protected readonly turn: CallingTurn
  #waits: TurnWaits | undefined

  constructor(loop: TurnHost, turn: CallingTurn) {
    this.loop = loop
    this.turn = turn
  }

  /** How many waits for others are open. */
  get waiting(): number {
    return this.#waits?.count ?? 0
  }

  /** The log has answers for waits that are open: they come at once. */
  get replaying(): boolean {
    return this.#waits?.replaying ?? false
  }

  /**
   * A verb that the host serves. The answer is JSON; `signal` withdraws it; `onPiece` is given what comes before it. `alike`: the
   * arguments that come first, where a later attempt is to know the call by them alone.
   */
  call(
    operation: string,
    args: object,
    signal: AbortSignal | undefined,
    onPiece?: (piece: string) => void,
    alike?: object,
  ): Promise<unknown> {
    const refusal = this.turn.refusal()
    if (refusal) return rejected(refusal)
    const { outbox, waits } = this.loop
    if (this.turn.breathless) return this.afterBreath(() => this.call(operation, args, signal, onPiece, alike))
    const { run, turn, replay } = this.turn.start
    const options: RequestOptions = signal ? { signal } : NO_OPTIONS
    try {
      const data = encodeData(args, operation)
      const fields = outbox.begin(CALL, run, turn, this.turn.nextStep(), operation, data)
      fields.correlation = waits.next()
      fields.waiting = this.turn.waitingFor(signal)
      const bytes = outbox.checkedSize()
      const logged = alike ? replay?.matchCall(operation, alike) : replay?.match(outbox.encode(bytes))
      if (logged) {
        const response = this.reattach(operation, logged, options)
        if (onPiece) this.#hear(response, onPiece)
        return response.promise
      }
      if (signal?.aborted) throw withdrawn(operation, signal)
      outbox.write(bytes, 'now')
      const response = this.awaitResponse(operation, fields.correlation, options)
      if (onPiece) this.#hear(response, onPiece)
      return response.promise
    } catch (error) {
      return rejected(error)
    }
  }

  /** What had come to an earlier attempt comes again. A piece that cannot be taken ends the wait. */
  #hear({ correlation, streamed }: AwaitedResponse, onPiece: (piece: string) => void): void {
    const wait = this.loop.waits.get(correlation)
    if (!wait) return
    const push = (piece: string) => {
      try {
        onPiece(piece)
      } catch (error) {
        wait.reject(error)
      }
    }
    wait.stream = { push }
    for (const piece of streamed?.pieces ?? []) push(piece)
  }

  /** The reader of what was emitted is far behind: the verb waits for it. */
  protected afterBreath<T>(verb: () => Promise<T>): Promise<T> {
    return handled(this.turn.breathe().then(verb))
  }

  /** The log knows the step: its wait goes on under its old number, or is over. */
  protected reattach(to: string, { correlation, answer, streamed }: Matched, options: RequestOptions): AwaitedResponse {
    const response = this.awaitResponse(to, correlation, options)
    if (answer) this.turnWaits().settleAgain(correlation, to, answer)
    return { ...response, streamed }
  }

  protected awaitResponse(to: string, correlation: number, options: RequestOptions): AwaitedResponse {
    return { promise: this.turnWaits().add(correlation, 'request', to, options.signal), correlation }
  }

  /** Most turns wait for nothing. */
  protected turnWaits(): TurnWaits {
    this.#waits ??= new TurnWaits(this.loop, this.turn)
    return this.#waits
  }

  /** See `TurnWaits`. */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    this.#waits?.withdrawAll(reason, sends)
  }
}
