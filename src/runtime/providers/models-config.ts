/** Types of the option `models`: the addresses of models, and clients. */
import type { ModelClient } from '../../actors/definition/model.ts'
import type { ModelMiddleware } from '../../actors/definition/model-middleware.ts'
import type { ModelOptions } from '../../actors/definition/model-options.ts'

/** Limits of the calls of one provider. */
export interface CallLimits {
  /** Maximum number of calls of the provider at a time. Default 32. */
  maxConcurrent?: number
  /** Longest pause, in ms, that a `retry-after` of 429 or 503 causes for all calls of the provider. Default 600,000. */
  maxRetryAfterMs?: number
}

/** Fields that each entry with options has. */
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
 * Models by the names that roles use: a client, of your own or of `fromAiSdk` (`dramatis/ai-sdk`), alone or with
 * options of its calls; or the address of a provider that speaks OpenAI's chat completions (OpenAI, Gemini, Ollama,
 * vLLM, LM Studio) or its Responses API (`api`). `model` is the provider's name for the model. `baseURL` is the
 * address; default: `OPENAI_BASE_URL`, else OpenAI's. The key is in the variable `apiKeyEnv`, or it is `apiKey`, or the
 * result of that function, which is called before each request. With neither, a model without a `baseURL` has the key
 * of `OPENAI_API_KEY`, and one with a `baseURL` has none. Keys stay in the host: no agent's thread sees one, and they
 * are taken out of logs, errors, events, trace and results.
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
  [name: string]: ModelClient | ClientEntry | AddressEntry
}
