/**
 * Model client that retries calls with transient failures, as retry-policy.ts decides. An answer that is not streamed
 * is kept back until it is whole, so a broken answer can be retried. A streamed answer can be retried only before its
 * first text, unless its caller can take back what it got.
 */
import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import type { Scheduler } from '../../clock.ts'
import { ModelError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import type { LimitNotices, LimitWait } from '../logging/limit-notices.ts'
import { endless, MOST_CHARACTERS, piecesOf } from './collect.ts'
import { failingOf, modelError } from './model-errors.ts'
import { type FailedAttempt, nextAttempt, RETRY_POLICY, type RetryPolicy } from './retry-policy.ts'

export interface RetryOptions {
  readonly clock: Scheduler
  /** Name of the provider in errors. */
  readonly provider: string
  readonly policy?: RetryPolicy
  /** Notices of calls that wait because the provider is asked too often. */
  readonly limits?: LimitNotices | undefined
  /** Waits between two attempts. Default: the clock's sleep. */
  pause?(ms: number, signal: AbortSignal): Promise<void>
}

export function retries(client: ModelClient, options: RetryOptions): ModelClient {
  return new RetryingClient(client, options)
}

class RetryingClient implements ModelClient {
  readonly rehearsal: boolean
  readonly #client: ModelClient
  readonly #clock: Scheduler
  readonly #provider: string
  readonly #policy: RetryPolicy
  readonly #sleep: NonNullable<RetryOptions['pause']>
  readonly #limits: LimitNotices | undefined
  /** Calls that the provider has refused because it is asked too often, and that are made again. */
  readonly #refused = new Set<LimitWait>()

  constructor(client: ModelClient, { clock, provider, policy = RETRY_POLICY, pause, limits }: RetryOptions) {
    this.rehearsal = client.rehearsal ?? false
    this.#client = client
    this.#clock = clock
    this.#provider = provider
    this.#policy = policy
    this.#sleep = pause ?? ((ms, signal) => clock.sleep(ms, signal))
    this.#limits = limits
    limits?.watch(() => this.#refused)
  }

  complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    const { timeoutMs } = request
    // A caller that has set a time limit for the call aborts the call itself.
    if (timeoutMs === undefined) return this.#within(this.#policy.deadlineMs, request)
    return this.#attempts(request, { ...this.#policy, deadlineMs: timeoutMs })
  }

  /** Makes the attempts, and aborts the call when its time is up. */
  async *#within(deadlineMs: number, request: ModelRequest): AsyncGenerator<ModelPiece> {
    const ended = new AbortController()
    const detach = onAbort(request.signal, () => ended.abort(request.signal.reason))
    const deadline = this.#clock.timer(deadlineMs, () => ended.abort(this.#late(request)), true)
    try {
      yield* this.#attempts({ ...request, signal: ended.signal }, this.#policy)
    } finally {
      detach()
      deadline.cancel()
    }
  }

  /** Makes the attempts. All have the same request object, so the provider's queue keeps their place. */
  async *#attempts(request: ModelRequest, policy: RetryPolicy): AsyncGenerator<ModelPiece> {
    request.signal.throwIfAborted()
    const began = this.#clock.monotonic()
    for (let attempt = 1; ; attempt += 1) {
      let read = false
      let hasBegun = false
      const kept: ModelPiece[] = []
      try {
        const pieces = piecesOf(this.#client, request)
        if (!request.stream) {
          for (const piece of await whole(pieces, kept)) yield piece
          return
        }
        for await (const piece of pieces) {
          hasBegun = true
          if (textOf(piece) !== '' && !request.restarts) read = true
          yield piece
        }
        return
      } catch (error) {
        for (const usage of kept.map(usageOf)) if (usage) yield { usage } // an attempt that failed is paid for, too
        request.signal.throwIfAborted()
        const elapsedMs = this.#clock.monotonic() - began
        const failed = { attempt, elapsedMs, failing: failingOf(error), read }
        await this.#pause(error, failed, policy, request)
        if (hasBegun) yield { restart: true }
      }
    }
  }

  /** Waits before the next attempt. If there is none, throws the error of the call. */
  async #pause(
    error: unknown,
    failed: Omit<FailedAttempt, 'random'>,
    policy: RetryPolicy,
    request: ModelRequest,
  ): Promise<void> {
    const next = nextAttempt(policy, { ...failed, random: this.#clock.random() })
    const { attempt, failing } = failed
    if ('waitMs' in next) {
      const rest = () => this.#sleep(next.waitMs, request.signal)
      return failing.status === 429 ? this.#refusedFor(next.waitMs, request, rest) : rest()
    }
    if (!(error instanceof ModelError)) throw error
    const { message, details } = error
    if (next.over === 'already_read')
      throw new ModelError(`${message} A part of the answer had been read by then, so it was not asked again.`, details)
    if (next.over === 'deadline') {
      const wait = failing.retryAfterMs === undefined ? 'The next pause' : 'The pause that it wants'
      const text = `${message} ${wait} would last beyond ${policy.deadlineMs} ms, so it was not asked again.`
      throw new ModelError(text, { ...details, attempts: attempt })
    }
    throw attempt === 1
      ? error
      : new ModelError(`${message} It was asked ${attempt} times.`, { ...details, attempts: attempt })
  }

  async #refusedFor(ms: number, { runId, agent }: ModelRequest, rest: () => Promise<void>): Promise<void> {
    const since = this.#clock.now()
    const wait = { option: `rate limit of ${this.#provider}`, limit: null, runId, agent, since, until: since + ms }
    this.#refused.add(wait)
    this.#limits?.reached(wait, `${this.#provider} is asked too often`)
    try {
      await rest()
    } finally {
      this.#refused.delete(wait)
    }
  }

  #late({ model }: ModelRequest): ModelError {
    const asked = { provider: this.#provider, model }
    const what = `has not answered within ${this.#policy.deadlineMs} ms, all attempts together`
    return modelError(asked, what, 'Ask for less at once, or look at the provider.', {
      reason: 'timeout',
      retryable: false,
    })
  }
}

/** Collects the pieces of an answer. They are in `kept` also if it breaks off. */
async function whole(pieces: AsyncIterable<ModelPiece>, kept: ModelPiece[]): Promise<ModelPiece[]> {
  let size = 0
  for await (const piece of pieces) {
    kept.push(piece)
    size += sizeOf(piece)
    if (size > MOST_CHARACTERS) throw endless()
  }
  return kept
}

const usageOf = (piece: unknown) => (Object(piece) as ModelPiece).usage

/** Returns the text of a piece. A user's client can yield anything; the reader of the pieces reports what is wrong. */
function textOf(piece: unknown): string {
  const { text } = Object(piece) as { text?: unknown }
  return typeof text === 'string' ? text : ''
}

function sizeOf(piece: unknown): number {
  const { reasoning } = Object(piece) as { reasoning?: unknown }
  return textOf(piece).length + (typeof reasoning === 'string' ? reasoning.length : 0)
}
