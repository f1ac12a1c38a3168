/** Types of the option `models`: the addresses of models, and clients. */
import type { ModelClient } from '../../actors/definition/model.ts'

/**
 * Models by the names that roles use: a client of your own, or where to reach one that speaks OpenAI's chat completions
 * (OpenAI, Gemini, Ollama, vLLM, LM Studio). `model` is what its provider calls it. `baseURL`: OpenAI's, or that of
 * `OPENAI_BASE_URL`. The key is in the variable `apiKeyEnv`, or it is `apiKey`, or what that function gives, which is
 * asked before each call; with neither, a model without a `baseURL` has the key of `OPENAI_API_KEY`, and one with a
 * `baseURL` has none. Keys stay in the host: no agent's thread sees one, and they are taken out of logs, errors,
 * events, trace and results.
 *
 * Calls of models with the same address and key wait for each other in one queue when the provider is asked too often
 * (429 or 503), with the `maxRetryAfterMs` of the first of them; `maxConcurrent` (32) of them are under way at a time,
 * and entries that share a queue say no other number than the first of them. A call that fails in a way that passes is
 * made again, with backoff or as long as the provider wants to be left alone: 5 times in all, within
 * `communication.modelTimeoutMs` (300 s). Of a client of your own, calls that reject with a `ModelError` whose
 * `details.retryable` is true are.
 */
export type ModelsConfig = {
  [name: string]:
    | ModelClient
    | {
        model: string
        baseURL?: string
        apiKeyEnv?: string
        apiKey?: string | (() => string | Promise<string>)
        /** Calls of the provider that are under way at a time. Default 32. */
        maxConcurrent?: number
        /**
         * The longest pause, in ms, that a `retry-after` of 429 or 503 brings all calls of the provider. Default
         * 600,000.
         */
        maxRetryAfterMs?: number
      }
}
