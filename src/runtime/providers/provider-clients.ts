/**
 * Makes the clients of the entries of `models`: with their queue, their middleware and their retries. Entries with the
 * same address and key, or with the same client, share a queue.
 */

import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import { wrapModel } from '../../actors/definition/model-middleware.ts'
import { refusedAs } from '../../shared/checks.ts'
import type { Scheduler } from '../../shared/clock.ts'
import type { Environment } from '../../shared/environment.ts'
import { ConfigurationError, ModelError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { LimitNotices, LimitWait } from '../logging/limit-notices.ts'
import type { Redactor } from '../logging/redactor.ts'
import { endless, MOST_CHARACTERS, piecesOf } from './collect.ts'
import { failingOf, modelError, type Retryable } from './model-errors.ts'
import {
  type AddressEntry,
  type Api,
  type CallLimits,
  type ClientEntry,
  fixedKey,
  hostOf,
  isAddress,
  isOffline,
  keyOfFunction,
  keyOfVariable,
  type ModelKey,
  NO_KEY,
  type Provider,
} from './provider.ts'
import { ProviderQueue, queued } from './provider-queue.ts'

/**
 * Makes the client of a provider. It loads what it asks with on its first call: the `openai` package and the schemas of
 * its answers take as long to load as the rest of the runtime, and a team may never call a provider.
 */
export function openaiClient(provider: Provider, api: Api = 'chat'): ModelClient {
  const load = async (): Promise<ModelClient> => {
    const { OpenAICaller } = await import('./openai-caller.ts')
    if (api === 'chat') return new OpenAICaller(provider, (await import('./openai-chat.ts')).chatCompletions)
    if (api === 'embeddings') return new OpenAICaller(provider, (await import('./openai-embeddings.ts')).embeddingsApi)
    return new OpenAICaller(provider, (await import('./openai-responses.ts')).responsesApi)
  }
  let loaded: Promise<ModelClient> | undefined
  return {
    async *complete(request) {
      request.signal.throwIfAborted()
      loaded ??= load()
      yield* (await loaded).complete(request)
    },
  }
}

/*
 * Decides whether and when one failed call of a model is retried; a pure function. The pause
 * that a 429 or 503 causes for all calls of a provider is in provider-queue.ts.
 */

/** Durations in ms. */
export interface RetryPolicy {
  readonly maxAttempts: number
  /** First pause. Each further pause is twice as long, up to `capMs`, times a random factor from 0.5 to 1. */
  readonly baseMs: number
  readonly capMs: number
  /** Time limit of all attempts together, with their pauses and their waits for the provider. */
  readonly deadlineMs: number
  /** Longest pause before another attempt. Default: what the provider asks for. */
  readonly patienceMs?: number | undefined
}

export const RETRY_POLICY: RetryPolicy = { maxAttempts: 5, baseMs: 500, capMs: 30_000, deadlineMs: 300_000 }

export interface FailedAttempt {
  readonly attempt: number
  readonly elapsedMs: number
  readonly failing: Retryable
  /** True if a part of its answer was read. Another attempt would give a different answer. */
  readonly read: boolean
  readonly random: number
}

/** Pause in ms before the next attempt, or the reason why there is none. */
export type NextAttempt =
  | { waitMs: number }
  | { over: 'not_retryable' | 'already_read' | 'max_attempts' | 'impatient' | 'deadline' }

/** Returns the pause before the next attempt: exponential backoff with jitter, or a longer `retry-after`. */
export function nextAttempt(policy: RetryPolicy, failed: FailedAttempt): NextAttempt {
  const { attempt, elapsedMs, failing, read, random } = failed
  if (!failing.retryable) return { over: 'not_retryable' }
  if (read) return { over: 'already_read' }
  if (attempt >= policy.maxAttempts) return { over: 'max_attempts' }
  const backoff = Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)) * (0.5 + random / 2)
  const waitMs = Math.max(backoff, failing.retryAfterMs ?? 0)
  if (waitMs > (policy.patienceMs ?? waitMs)) return { over: 'impatient' }
  return elapsedMs + waitMs < policy.deadlineMs ? { waitMs } : { over: 'deadline' }
}

/*
 * Model client that retries calls with transient failures. An answer that is not streamed
 * is kept back until it is whole, so a broken answer can be retried. A streamed answer can be retried only before its
 * first text, unless its caller can take back what it got.
 */

interface RetryOptions {
  readonly clock: Scheduler
  readonly provider: string
  readonly policy?: RetryPolicy
  readonly limits?: LimitNotices | undefined
  /** Waits between two attempts. Default: the clock's sleep. */
  pause?(ms: number, signal: AbortSignal): Promise<void>
}

export const retries = (client: ModelClient, options: RetryOptions): ModelClient => new RetryingClient(client, options)

class RetryingClient implements ModelClient {
  readonly rehearsal: boolean
  readonly #client: ModelClient
  readonly #options: RetryOptions
  readonly #policy: RetryPolicy
  /** Calls that the provider has refused because it is asked too often, and that are made again. */
  readonly #refused = new Set<LimitWait>()

  constructor(client: ModelClient, options: RetryOptions) {
    this.rehearsal = client.rehearsal ?? false
    this.#client = client
    this.#options = options
    this.#policy = options.policy ?? RETRY_POLICY
    options.limits?.watch(() => this.#refused)
  }

  complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    const { timeoutMs, patienceMs } = request
    // A caller that has set a time limit for the call aborts the call itself.
    if (timeoutMs === undefined) return this.#withinDeadline(request)
    return this.#attempts(request, { ...this.#policy, deadlineMs: timeoutMs, patienceMs })
  }

  async *#withinDeadline(request: ModelRequest): AsyncGenerator<ModelPiece> {
    const ended = new AbortController()
    const detach = onAbort(request.signal, () => ended.abort(request.signal.reason))
    const late = () => ended.abort(this.#late(request))
    const deadline = this.#options.clock.timer(this.#policy.deadlineMs, late, true)
    try {
      yield* this.#attempts({ ...request, signal: ended.signal }, this.#policy)
    } finally {
      detach()
      deadline.cancel()
    }
  }

  /** Makes the attempts. All have the same request object, so the provider's queue keeps their place. */
  async *#attempts(request: ModelRequest, policy: RetryPolicy): AsyncGenerator<ModelPiece> {
    const { clock } = this.#options
    request.signal.throwIfAborted()
    const began = clock.monotonic()
    for (let attempt = 1; ; attempt += 1) {
      let read = false
      let hasBegun = false
      const kept: ModelPiece[] = []
      try {
        const pieces = piecesOf(this.#client, request)
        if (!request.stream) {
          await keepWhole(pieces, kept)
          for (const piece of kept) yield piece
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
        const elapsedMs = clock.monotonic() - began
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
    const { clock, pause } = this.#options
    const next = nextAttempt(policy, { ...failed, random: clock.random() })
    const { attempt, failing } = failed
    if ('waitMs' in next) {
      const { signal } = request
      const rest = () => (pause ? pause(next.waitMs, signal) : clock.sleep(next.waitMs, signal))
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
    const { clock, provider, limits } = this.#options
    const since = clock.now()
    const wait = { option: `rate limit of ${provider}`, limit: null, runId, agent, since, until: since + ms }
    this.#refused.add(wait)
    limits?.reached(wait, `${provider} is asked too often`)
    try {
      await rest()
    } finally {
      this.#refused.delete(wait)
    }
  }

  #late({ model }: ModelRequest): ModelError {
    const asked = { provider: this.#options.provider, model }
    const what = `has not answered within ${this.#policy.deadlineMs} ms, all attempts together`
    return modelError(asked, what, 'Ask for less at once, or look at the provider.', {
      reason: 'timeout',
      retryable: false,
    })
  }
}

/** Collects the pieces of an answer. They are in `kept` also if it breaks off. */
export async function keepWhole(pieces: AsyncIterable<ModelPiece>, kept: ModelPiece[]): Promise<void> {
  let size = 0
  for await (const piece of pieces) {
    kept.push(piece)
    size += sizeOf(piece)
    if (size > MOST_CHARACTERS) throw endless()
  }
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

export interface ProviderContext {
  readonly env: Environment
  readonly clock: Scheduler
  readonly redactor: Redactor
  readonly limits?: LimitNotices
  /** API that all addresses are asked by, in the place of their own. */
  readonly api?: Api
  /** Weights of tenants in the queues of providers. */
  readonly weights?: Readonly<Record<string, number>> | undefined
  readonly reached?: { readonly clock: Scheduler; reach(client: ModelClient): ModelClient }
  readonly around?: (client: ModelClient) => ModelClient
}

/** A queue that entries share. `path` names the first of them. */
interface Shared {
  /** The client of the entries, or their address and the identity of its key. */
  readonly owner: readonly unknown[]
  readonly provider: string
  readonly path: string
  readonly maxConcurrent: number | undefined
  readonly queue: ProviderQueue
  readonly clients: Map<Api | undefined, Queued>
}

interface Queued {
  /** The client without retries. */
  readonly inner: ModelClient
  /** The same with retries, for entries without middleware. */
  readonly client: ModelClient
}

type Middleware = NonNullable<ClientEntry['middleware']>

/** An entry without its checks: that of the environment has no model. */
type Address = Partial<AddressEntry>

const OPENAI = 'https://api.openai.com/v1'

export class ProviderClients {
  readonly #context: ProviderContext
  readonly #shared: Shared[] = []
  #processes = 1

  constructor(context: ProviderContext) {
    this.#context = context
  }

  /** Divides what a provider takes at a time among so many processes. */
  divide(processes: number): void {
    this.#processes = processes
    for (const { queue } of this.#shared) queue.divide(processes)
  }

  ofClient({ client, middleware = [], ...limits }: ClientEntry, provider: string, path: string): ModelClient {
    const { clock, around = (given) => given } = this.#context
    if (isOffline(client)) return retries(wrapModel(around(client), middleware), { clock, provider })
    const shared = this.#sharedBy([client], 'client', provider, limits, path)
    return this.#around(this.#queued(shared, undefined, client), middleware, provider)
  }

  atAddress(entry: Address, path: string): { client: ModelClient; host: string } {
    const { clock, redactor, reached, api = entry.api ?? 'chat' } = this.#context
    const { middleware = [] } = entry
    const baseURL = this.#addressOf(entry)
    const host = hostOf(baseURL)
    const key = this.#keyOf(entry, path)
    const shared = this.#sharedBy([baseURL, key.identity], 'address and key', host, entry, path)
    const theirClock = reached?.clock ?? clock // dates in real headers are real
    const client = openaiClient({ baseURL, key, redactor, clock: theirClock }, api)
    return { client: this.#around(this.#queued(shared, api, client), middleware, host), host }
  }

  #around({ inner, client }: Queued, middleware: Middleware, provider: string): ModelClient {
    const { clock, limits } = this.#context
    if (Array.isArray(middleware) && middleware.length === 0) return client
    return retries(wrapModel(inner, middleware), { clock, limits, provider })
  }

  #addressOf({ baseURL }: Address): string {
    const address = (baseURL ?? (this.#context.env.OPENAI_BASE_URL?.trim() || OPENAI)).replace(/\/+$/, '')
    if (isAddress(address)) return address
    const text = 'OPENAI_BASE_URL: it holds no address; set it to one like http://localhost:11434/v1, or unset it.'
    throw new ConfigurationError(text, { path: 'OPENAI_BASE_URL', got: 'a text that is no address' })
  }

  #keyOf({ baseURL, apiKey, apiKeyEnv }: Address, path: string): ModelKey {
    const { env, redactor } = this.#context
    if (apiKeyEnv !== undefined) return keyOfVariable(apiKeyEnv, `${path}.apiKeyEnv`, env, redactor)
    if (typeof apiKey === 'function') return keyOfFunction(apiKey, `${path}.apiKey`, redactor)
    if (apiKey !== undefined) return fixedKey(apiKey, `${path}.apiKey`, `${path}.apiKey`, redactor)
    if (baseURL !== undefined) return NO_KEY // no other server may get OpenAI's key
    if (env.OPENAI_BASE_URL?.trim() && !env.OPENAI_API_KEY?.trim()) return NO_KEY
    return keyOfVariable('OPENAI_API_KEY', path, env, redactor)
  }

  /** Returns the client of that API with the shared queue; `client` is what it is made of, if there is none yet. */
  #queued({ clients, provider, queue }: Shared, api: Api | undefined, client: ModelClient): Queued {
    const known = clients.get(api)
    if (known) return known
    const { clock, limits, reached, around = (given) => given } = this.#context
    const inner = queued(around(reached ? reached.reach(client) : client), queue)
    const made = { inner, client: retries(inner, { clock, limits, provider }) }
    clients.set(api, made)
    return made
  }

  #sharedBy(owner: readonly unknown[], what: string, provider: string, given: CallLimits, path: string): Shared {
    const known = this.#shared.find(
      (other) => other.owner.length === owner.length && other.owner.every((part, i) => part === owner[i]),
    )
    if (known) assertShared(known, given, path, what)
    if (known) return known
    const { maxConcurrent, maxRetryAfterMs } = given
    const { clock, limits, weights } = this.#context
    const option = `${path}.maxConcurrent`
    const queue = new ProviderQueue({ clock, provider, maxConcurrent, maxRetryAfterMs, limits, option, weights })
    queue.divide(this.#processes)
    const shared = { owner, provider, path, maxConcurrent, queue, clients: new Map<Api | undefined, Queued>() }
    this.#shared.push(shared)
    return shared
  }
}

function assertShared(known: Shared, { maxConcurrent }: CallLimits, path: string, what: string): void {
  if (maxConcurrent === undefined || maxConcurrent === known.maxConcurrent) return
  const advice = `Its calls share a queue with those of ${known.path}, which has the same ${what}: say it there.`
  const accepted = `what ${known.path} says (${known.maxConcurrent ?? 'nothing'})`
  throw refusedAs(`${path}.maxConcurrent`, `${maxConcurrent}`, accepted, advice)
}
