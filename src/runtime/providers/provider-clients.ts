/**
 * Makes the clients of the entries of `models`: with their queue, their middleware and their retries. Entries with the
 * same address and key, or with the same client, share a queue.
 */

import type { ModelClient } from '../../actors/definition/model.ts'
import { wrapModel } from '../../actors/definition/model-middleware.ts'
import type { Scheduler } from '../../clock.ts'
import type { Environment } from '../../environment.ts'
import { ConfigurationError } from '../../errors.ts'
import { refusedAs } from '../checks/refused.ts'
import type { LimitNotices } from '../logging/limit-notices.ts'
import type { Redactor } from '../logging/redactor.ts'
import { isOffline } from './client.ts'
import { fixedKey, keyOfFunction, keyOfVariable, type ModelKey, NO_KEY } from './model-keys.ts'
import type { AddressEntry, CallLimits, ClientEntry } from './models-config.ts'
import { openaiClient } from './openai/client.ts'
import { type Api, hostOf, isAddress } from './provider.ts'
import { ProviderQueue, queued } from './provider-queue.ts'
import { retries } from './retries.ts'

export interface ProviderContext {
  readonly env: Environment
  readonly clock: Scheduler
  readonly redactor: Redactor
  /** Counts and logs calls that wait in the queue of their provider. */
  readonly limits?: LimitNotices
  /** Wraps the clients that make requests in a rehearsal, and has their clock. */
  readonly reached?: { readonly clock: Scheduler; reach(client: ModelClient): ModelClient }
}

/** A queue that entries share. `path` names the first of them. */
interface Shared {
  readonly path: string
  readonly maxConcurrent: number | undefined
  readonly queue: ProviderQueue
}

/** A client with its queue. */
interface Queued extends Shared {
  /** The client without retries. */
  readonly inner: ModelClient
  /** The same with retries, for entries without middleware. */
  readonly client: ModelClient
}

interface AtAddress extends Shared {
  readonly baseURL: string
  readonly identity: unknown
  readonly apis: Map<Api, Queued>
}

type Middleware = NonNullable<ClientEntry['middleware']>

/** An entry without its checks: that of the environment has no model. */
export type Address = Partial<AddressEntry>

const OPENAI = 'https://api.openai.com/v1'

export class ProviderClients {
  readonly #context: ProviderContext
  readonly #addresses: AtAddress[] = []
  readonly #given = new Map<ModelClient, Queued>()

  constructor(context: ProviderContext) {
    this.#context = context
  }

  /** Returns the client of an entry that has one. `provider` names it in errors. */
  ofClient({ client, middleware = [], ...limits }: ClientEntry, provider: string, path: string): ModelClient {
    const { clock } = this.#context
    if (isOffline(client)) return retries(wrapModel(client, middleware), { clock, provider })
    const known = this.#given.get(client)
    if (known) assertShared(known, limits, path, 'client')
    const queued = known ?? this.#queued(client, this.#share(provider, limits, path), provider)
    this.#given.set(client, queued)
    return this.#around(queued, middleware, provider)
  }

  /** Returns the client of an address, with its host. Throws `ConfigurationError` if there is no key. */
  atAddress({ middleware = [], ...entry }: Address, path: string): { client: ModelClient; host: string } {
    const baseURL = this.#addressOf(entry)
    const host = hostOf(baseURL)
    const queued = this.#queuedAt(baseURL, this.#keyOf(entry, path), entry, path)
    return { client: this.#around(queued, middleware, host), host }
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

  #queuedAt(baseURL: string, key: ModelKey, { api = 'chat', ...limits }: Address, path: string): Queued {
    const { identity } = key
    const known = this.#addresses.find((other) => other.baseURL === baseURL && other.identity === identity)
    if (known) assertShared(known, limits, path, 'address and key')
    const provider = hostOf(baseURL)
    const at = known ?? { ...this.#share(provider, limits, path), baseURL, identity, apis: new Map<Api, Queued>() }
    if (!known) this.#addresses.push(at)
    const { clock, redactor, reached } = this.#context
    const theirClock = reached?.clock ?? clock // dates in real headers are real
    const made = () => openaiClient({ baseURL, key, redactor, clock: theirClock }, api)
    const queued = at.apis.get(api) ?? this.#queued(made(), at, provider)
    at.apis.set(api, queued)
    return queued
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

  #queued(client: ModelClient, shared: Shared, provider: string): Queued {
    const { clock, limits, reached } = this.#context
    const inner = queued(reached ? reached.reach(client) : client, shared.queue)
    return { ...shared, inner, client: retries(inner, { clock, limits, provider }) }
  }

  #share(provider: string, { maxConcurrent, maxRetryAfterMs }: CallLimits, path: string): Shared {
    const { clock, limits } = this.#context
    const queue = new ProviderQueue({
      clock,
      provider,
      ...(maxConcurrent !== undefined && { maxConcurrent }),
      ...(maxRetryAfterMs !== undefined && { maxRetryAfterMs }),
      limits,
      option: `${path}.maxConcurrent`,
    })
    return { path, maxConcurrent, queue }
  }
}

/** Throws `ConfigurationError` if an entry has another bound of calls than the one whose queue it shares. */
function assertShared(known: Shared, { maxConcurrent }: CallLimits, path: string, what: string): void {
  if (maxConcurrent === undefined || maxConcurrent === known.maxConcurrent) return
  const advice = `Its calls share a queue with those of ${known.path}, which has the same ${what}: say it there.`
  const accepted = `what ${known.path} says (${known.maxConcurrent ?? 'nothing'})`
  throw refusedAs(`${path}.maxConcurrent`, `${maxConcurrent}`, accepted, advice)
}
