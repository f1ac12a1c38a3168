/**
 * Queue of the calls to one provider, which is an address with a key. It limits the number of calls at a time and gives
 * the tenants turns; calls of one tenant go by the priority of their agents, then by the order in which they came.
 * After a 429, or a 503 with `retry-after`, all calls of the provider wait. Then one call goes first, and each success
 * lets twice as many follow. provider-clients.ts decides whether the refused call is retried.
 */
import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import { mostOfPrompt } from '../../actors/model/tokens.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import type { ModelError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { Turns } from '../../shared/turns.ts'
import type { LimitNotices, LimitWait } from '../logging/limit-notices.ts'
import { heardPieces } from './collect.ts'
import { failingOf, limitsOf, modelError } from './model-errors.ts'

/** Durations in ms. */
export interface QueueOptions {
  readonly clock: Scheduler
  readonly provider: string
  /** Maximum number of calls at a time. Default: 32. */
  readonly maxConcurrent?: number | undefined
  /** Longest time that a call may wait here. Default: the limit of the call, or 300,000. */
  readonly longestWaitMs?: number
  /** Longest pause that a `retry-after` causes. Default: 600,000. */
  readonly maxRetryAfterMs?: number | undefined
  readonly limits?: LimitNotices | undefined
  readonly option?: string
  /** Weights of tenants. Default: 1 each. */
  readonly weights?: Readonly<Record<string, number>> | undefined
}

interface Waiting {
  readonly order: number
  readonly priority: number
  readonly tenant: string
  readonly request: ModelRequest
  /** Epoch ms. */
  readonly since: number
  enter(): void
  leave(reason: unknown): void
}

const FIRST_PAUSE_MS = 1_000 // after a refusal without a `retry-after`
const LONGEST_PAUSE_MS = 30_000
const LONGEST_RESET_MS = 60_000 // a reset restores the whole limit; a part of it is available long before

export class ProviderQueue {
  readonly clock: Scheduler
  readonly provider: string
  readonly #options: QueueOptions
  readonly #maxConcurrent: number
  readonly #waiting: Waiting[] = []
  /** Number of waiting calls of each tenant. */
  readonly #tenants = new Map<string, number>()
  readonly #turns: Turns
  /** Place of each call in the order. A retried call keeps its place. */
  readonly #orders = new WeakMap<ModelRequest, number>()
  #came = 0
  /** Number of processes that ask the provider with the same limits. */
  #processes = 1
  #open = 0
  /** Number of calls that may be open now; fewer after a refusal. */
  #allowed: number
  /** Number of calls that the provider accepts until a moment of the monotonic clock. */
  #limits: { remaining: number; until: number } | undefined
  #refusals = 0
  #pausedUntil = 0
  #pause: Timer | undefined

  constructor(options: QueueOptions) {
    const { clock, provider, maxConcurrent = 32, limits, weights } = options
    this.#options = options
    this.#turns = new Turns(weights)
    this.clock = clock
    this.provider = provider
    this.#maxConcurrent = maxConcurrent
    this.#allowed = maxConcurrent
    limits?.watch(() => this.#waiting.map((each) => this.#waitOf(each)))
  }

  get length(): number {
    return this.#waiting.length
  }

  /** Says what a call waits for: for a place among the calls, or because the provider has asked for fewer. */
  #waitOf({ request: { runId, agent }, since }: Waiting): LimitWait {
    const caller = { runId, agent, since }
    const { option: own = 'maxConcurrent' } = this.#options
    if (this.#open >= this.#maxConcurrent) return { option: own, limit: this.#maxConcurrent, ...caller }
    const option = `rate limit of ${this.provider}`
    const pauseMs = this.#pausedUntil - this.clock.monotonic()
    return { option, limit: null, ...caller, ...(pauseMs > 0 && { until: this.clock.now() + pauseMs }) }
  }

  /** Divides the calls at a time, and those that the provider says are left, among so many processes. */
  divide(processes: number): void {
    this.#processes = processes
    this.#admit()
  }

  readonly noteHeaders = (headers: Headers): void => {
    const limits = limitsOf(headers, this.clock.now())
    if (!limits) return
    const ms = Math.min(limits.resetMs, LONGEST_RESET_MS)
    this.#limits = { remaining: limits.remaining, until: this.clock.monotonic() + ms }
    if (limits.remaining === 0) this.#pauseFor(ms)
  }

  /** Resolves to the function that gives the place back. Rejects with the signal's reason, or after too long a wait. */
  async enter(request: ModelRequest): Promise<() => void> {
    const { signal, model, tenant = '', priority = 0 } = request
    signal.throwIfAborted()
    const order = this.#orders.get(request) ?? ++this.#came
    this.#orders.set(request, order)
    const longestWaitMs = this.#options.longestWaitMs ?? request.timeoutMs ?? 300_000
    const pauseMs = this.#pausedUntil - this.clock.monotonic()
    if (pauseMs > Math.min(longestWaitMs, patienceOf(request))) throw this.#tooLong(model, longestWaitMs, pauseMs)
    await new Promise<void>((resolve, reject) => {
      const over = () => {
        detach()
        deadline.cancel()
      }
      const leave = (reason: unknown) => {
        this.#remove(waiting)
        over()
        reject(reason)
      }
      const waiting: Waiting = {
        order,
        priority,
        tenant,
        request,
        since: this.clock.now(),
        leave,
        enter: () => {
          over()
          resolve()
        },
      }
      const detach = onAbort(signal, () => leave(signal.reason))
      const deadline = this.clock.timer(longestWaitMs, () => leave(this.#tooLong(model, longestWaitMs)), true)
      const isBehind = (other: Waiting) =>
        other.priority < priority || (other.priority === priority && other.order > order)
      const at = this.#waiting.findIndex(isBehind)
      this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, waiting)
      this.#tenants.set(tenant, (this.#tenants.get(tenant) ?? 0) + 1)
      this.#admit()
      if (this.#waiting.includes(waiting))
        this.#options.limits?.reached(this.#waitOf(waiting), `calls of models wait for ${this.provider}`)
    })
    return () => {
      this.#open -= 1
      this.#admit()
    }
  }

  succeeded(): void {
    this.#refusals = 0
    this.#allowed = Math.min(this.#maxConcurrent, this.#allowed * 2)
  }

  /** Notes that a call has failed. Only 429, and 503 with a pause, concern all calls of the provider. */
  failed(error: unknown): void {
    const { status, retryable, retryAfterMs } = failingOf(error)
    const concernsAll = status === 429 || (status === 503 && retryAfterMs !== undefined)
    if (!concernsAll || (retryAfterMs === undefined && !retryable)) return
    const { maxRetryAfterMs = 600_000 } = this.#options
    this.#allowed = 1
    const backoffMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#refusals)
    this.#pauseFor(retryAfterMs === undefined ? backoffMs : Math.min(retryAfterMs, maxRetryAfterMs))
    this.#refusals += 1
  }

  #pauseFor(givenMs: number): void {
    const ms = givenMs + 1 // the refused call waits `givenMs` by itself, and is back in its place by then
    const until = this.clock.monotonic() + ms
    if (until <= this.#pausedUntil) return
    this.#pausedUntil = until
    this.#pause?.cancel()
    this.#resumeIn(ms)
    for (const { request, leave } of this.#waiting.filter((each) => ms > patienceOf(each.request)))
      leave(this.#tooLong(request.model, ms, ms))
  }

  /** Ends the pause after that time. A timer can fire a little early by the clock; then the rest is waited for too. */
  #resumeIn(ms: number): void {
    this.#pause = this.clock.timer(ms, () => {
      this.#pause = undefined
      const leftMs = this.#pausedUntil - this.clock.monotonic()
      if (leftMs > 0) this.#resumeIn(Math.ceil(leftMs))
      else this.#admit()
    })
  }

  #admit(): void {
    const now = this.clock.monotonic()
    if (now < this.#pausedUntil) return
    if (this.#limits && now >= this.#limits.until) this.#limits = undefined
    const left = Math.min(this.#maxConcurrent, this.#limits?.remaining ?? this.#maxConcurrent)
    const most = Math.min(this.#allowed, Math.max(1, Math.floor(left / this.#processes)))
    while (this.#open < most) {
      const next = this.#next()
      if (!next) return
      this.#remove(next)
      this.#open += 1
      next.enter()
    }
  }

  #next(): Waiting | undefined {
    if (this.#tenants.size <= 1) return this.#waiting[0]
    const heads = new Map<string, Waiting>()
    for (const waiting of this.#waiting) {
      if (!heads.has(waiting.tenant)) heads.set(waiting.tenant, waiting)
      if (heads.size === this.#tenants.size) break
    }
    const next = heads.get(this.#turns.next(heads.keys()) ?? '')
    if (next) this.#turns.served(next.tenant, tokensOf(next.request))
    return next
  }

  #remove(waiting: Waiting): void {
    this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
    const left = (this.#tenants.get(waiting.tenant) ?? 1) - 1
    if (left === 0) this.#tenants.delete(waiting.tenant)
    else this.#tenants.set(waiting.tenant, left)
  }

  #tooLong(model: string, longestWaitMs: number, pauseMs?: number): ModelError {
    const asked = { provider: this.provider, model }
    if (pauseMs === undefined) {
      const what = `was not to be had within ${longestWaitMs} ms: too many calls wait for it`
      const advice = 'Raise maxConcurrent of the model, lower maxConcurrentAgents, or ask the provider for more.'
      return modelError(asked, what, advice, { reason: 'timeout', retryable: false })
    }
    const what = `is asked too often and wants to be left alone for ${Math.round(pauseMs / 1_000)} s`
    const failing = { reason: 'rate_limit', status: 429, retryable: false, retryAfterMs: pauseMs } as const
    return modelError(asked, what, 'Come back then, or ask the provider for more.', failing)
  }
}

/** Output tokens of a call without a limit, for the turns of tenants. */
const USUAL_OUTPUT = 4_096

/** Tokens that a call may need at most. */
const tokensOf = (request: ModelRequest): number => mostOfPrompt(request) + (request.maxOutputTokens ?? USUAL_OUTPUT)

const patienceOf = ({ patienceMs = Number.POSITIVE_INFINITY }: ModelRequest): number => patienceMs

export function queued(client: ModelClient, queue: ProviderQueue): ModelClient {
  return {
    ...(client.rehearsal && { rehearsal: true }),
    async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
      const leave = await queue.enter(request)
      try {
        request.signal.throwIfAborted() // withdrawn in the task that let it in
        yield* heardPieces(client, { ...request, onHeaders: queue.noteHeaders }, queue)
        queue.succeeded()
      } catch (error) {
        queue.failed(error)
        throw error
      } finally {
        leave()
      }
    },
  }
}
