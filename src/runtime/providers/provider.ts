/** A provider of models, and its name in errors. */

import type { ModelClient } from '../../actors/definition/model.ts'
import type { ModelMiddleware } from '../../actors/definition/model-middleware.ts'
import type { ModelOptions } from '../../actors/definition/model-options.ts'
import { isObject, refused } from '../../shared/checks.ts'
import type { Clock } from '../../shared/clock.ts'
import type { Environment } from '../../shared/environment.ts'
import { ConfigurationError, describe, ModelError } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { own } from '../../shared/values.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { FailoverEntry, ModelList } from './failover.ts'

export interface ResolvedModel {
  readonly client: ModelClient
  readonly model: string
  /** Options of all its calls, unless the role or the call sets its own. */
  readonly options?: ModelOptions
  /** True if each of its answers begins with thoughts, up to `</think>`. */
  readonly thinks?: boolean
  readonly giveBack?: readonly string[]
  /** Address of the provider, as host:port; undefined for a client of the user's own, or without an address. */
  readonly host?: string
  readonly provider?: string
  /** The list that was named, whose first model this is. */
  readonly list?: ModelList<ResolvedModel>
}

export const isClient = (value: unknown): value is ModelClient =>
  isObject(value) && 'complete' in value && typeof value.complete === 'function'

export const isList = (entry: ModelsConfig[string]): entry is FailoverEntry => !isClient(entry) && 'anyOf' in entry

export const isOffline = ({ rehearsal, offline }: ModelClient): boolean => rehearsal === true || offline === true

/** Throws `ConfigurationError` if a test gives, in place of all models, something that is no client. */
export function checkClient(model: unknown, path: string): void {
  if (model !== undefined && !isClient(model)) throw refused(path, model, 'a ModelClient')
}

/*
 * Resolves the key of a model: from a variable of the environment, the options, or a function that is called before
 * each request.
 */

export interface ModelKey {
  /** Identity of the key. Models with the same identity and address share a provider. */
  readonly identity: unknown
  /** Source of the key in words, for errors; undefined: there is no key. */
  readonly from: string | undefined
  get(signal: AbortSignal): Promise<string | undefined>
}

export const NO_KEY: ModelKey = { identity: undefined, from: undefined, get: async () => undefined }

export function keyOfVariable(name: string, path: string, env: Environment, redactor: Redactor): ModelKey {
  const value = own(env, name)?.trim()
  if (!value) {
    const text = `${path}: the variable ${name} is not set. Set it to the key of the provider; a .env file is read by the command line alone.`
    throw new ConfigurationError(text, { path, variable: name, got: 'a variable that is not set' })
  }
  return fixedKey(value, `the variable ${name}`, path, redactor)
}

export function fixedKey(value: string, from: string, path: string, redactor: Redactor): ModelKey {
  redactor.learn(value)
  if (!isKey(value)) {
    const text = `${path}: ${from} holds no key: there are spaces, or characters that no header takes. Set it to the key alone.`
    throw new ConfigurationError(text, { path, got: 'a text that is no key' })
  }
  return { identity: value, from, get: async () => value }
}

/** Returns the key of a function. Calls at the same time share one call of it; a later call asks anew. */
export function keyOfFunction(ask: () => string | Promise<string>, path: string, redactor: Redactor): ModelKey {
  let underWay: Promise<string> | undefined
  const asked = async () => {
    const key: unknown = await ask()
    if (typeof key !== 'string' || !isKey(key)) throw noKey(`${path} gave no key: a text without spaces is due.`, path)
    redactor.learnFrom(ask, key)
    return key
  }
  const once = () => {
    underWay ??= asked().finally(() => {
      underWay = undefined
    })
    return underWay
  }
  return {
    identity: ask,
    from: path,
    async get(signal) {
      try {
        return await unlessAborted(signal, once())
      } catch (error) {
        if (signal.aborted || error instanceof ModelError) throw error
        throw noKey(`${path} threw ${redactor.text(describe(error))}.`, path)
      }
    },
  }
}

const noKey = (what: string, path: string) =>
  new ModelError(`${what} Look at that function.`, { path, reason: 'auth', retryable: false })

const isKey = (text: string) => /^[\x21-\x7e]+$/.test(text)

export interface CallLimits {
  /** Maximum number of calls of the provider at a time. Default 32. */
  maxConcurrent?: number
  /** Longest pause, in ms, that a `retry-after` of 429 or 503 causes for all calls of the provider. Default 600,000. */
  maxRetryAfterMs?: number
}

interface EntryFields extends ModelOptions, CallLimits {
  /** Code around the calls of this entry, the first outermost. It runs in the host, again for each retry. */
  middleware?: ModelMiddleware | readonly ModelMiddleware[]
  /**
   * True for a model whose answers begin with thoughts that only `</think>` ends: its words are held back until the
   * tag, or the end. Default: from the first such answer on.
   */
  thinks?: boolean
}

/** A client with the options of its calls. */
export interface ClientEntry extends EntryFields {
  client: ModelClient
  /** Name of the model in errors, events and spans. Default: the client's own name for it, else that of the entry. */
  model?: string
  /** Keys of the client, and other texts that are taken out of all that leaves the team. */
  secrets?: readonly string[]
}

/** The address of a model. */
export interface AddressEntry extends EntryFields {
  model: string
  baseURL?: string
  /**
   * API that is spoken there: `'chat'` (default), chat completions, or `'responses'`, the Responses API. OpenAI's
   * reasoning models keep their reasoning over the rounds of tools in the latter alone.
   */
  api?: 'chat' | 'responses'
  apiKeyEnv?: string
  apiKey?: string | (() => string | Promise<string>)
  /**
   * Names of fields of an answer's message or of its calls of tools that go back to the same model with the next
   * request. Those that Gemini, OpenRouter and LiteLLM want back go without it. Chat completions alone.
   */
  giveBack?: readonly string[]
}

/**
 * Models by the names that roles use: a list of others (`anyOf`); a client, of your own or of `fromAiSdk`
 * (`dramatis/ai-sdk`), alone or with options of its calls; or the address of a provider that speaks OpenAI's chat
 * completions (OpenAI, Gemini, Ollama, vLLM, LM Studio) or its Responses API (`api`). `model` is the provider's name
 * for the model. `baseURL` is the address; default: `OPENAI_BASE_URL`, else OpenAI's. The key is in the variable
 * `apiKeyEnv`, or it is `apiKey`, or the result of that function, which is called before each request. With neither, a
 * model without a `baseURL` has the key of `OPENAI_API_KEY`, and one with a `baseURL` has none. Keys stay in the host:
 * no agent's thread sees one, and they are taken out of logs, errors, events, trace and results.
 *
 * Models with the same client, or with the same address and key, share one queue, with the `maxConcurrent` (32 calls at
 * a time) and the `maxRetryAfterMs` of the first of them. Another `maxConcurrent` in a later entry is an error. When
 * the provider answers 429 or 503, all calls of the queue wait. A call with a transient failure is retried, with
 * backoff or after the pause that the provider asks for: 5 attempts in all, within `communication.modelTimeoutMs`
 * (300 s). Calls of a client of your own are retried if they reject with a `ModelError` whose `details.retryable` is
 * true.
 *
 * `ModelOptions` of an entry hold for all of its calls, unless the role or the call sets its own.
 */
export type ModelsConfig = {
  [name: string]: ModelClient | ClientEntry | AddressEntry | FailoverEntry
}

/** `embeddings` is asked for by suites alone. */
export type Api = 'chat' | 'responses' | 'embeddings'

export interface Provider {
  readonly baseURL: string
  readonly key: ModelKey
  readonly redactor: Redactor
  readonly clock: Clock
}

/** Returns the host, which errors name. They name no more of the address, because a path can hold a key. */
export function hostOf(baseURL: string): string {
  return new URL(baseURL).host
}

/** Checks for an address of a provider. It has no user and no query: both can hold secrets, and neither works. */
export function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return (protocol === 'http:' || protocol === 'https:') && username + password + search + hash === ''
}
