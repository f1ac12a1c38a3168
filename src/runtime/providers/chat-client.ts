/**
 * Client for providers that speak OpenAI's chat completions: OpenAI itself, Gemini, Ollama, vLLM, LM Studio, by
 * `baseURL`. The client makes one attempt: retries.ts repeats calls, provider-queue.ts delays them. openai-client.ts
 * loads this file with the first call.
 */
import { APIError, OpenAI } from 'openai'
import type { ModelClient, ModelPiece, ModelRequest } from '../../actors/definition/model.ts'
import { onAbort } from '../../on-abort.ts'
import { boundedFetch } from './bounded-fetch.ts'
import { ChatAnswer } from './chat-answer.ts'
import { chatRequest, isOpenAI, tokensFieldOf } from './chat-request.ts'
import { failureOf, wrongContent } from './openai-failures.ts'
import { hostOf, type Provider } from './provider.ts'
import type { FailedCall } from './refusals.ts'

export class ChatClient implements ModelClient {
  readonly #provider: Provider
  readonly #host: string
  readonly #fetch = boundedFetch()
  #client: { key: string | undefined; sdk: OpenAI } | undefined

  constructor(provider: Provider) {
    this.#provider = provider
    this.#host = hostOf(provider.baseURL)
  }

  async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    const { signal } = request
    signal.throwIfAborted()
    const key = await this.#provider.key.get(signal)
    signal.throwIfAborted()
    const left = new AbortController()
    const detach = onAbort(signal, () => left.abort(signal.reason))
    try {
      yield* this.#ask(this.#clientWith(key), request, left.signal)
    } catch (thrown) {
      signal.throwIfAborted() // the SDK throws another error, or ends the stream as if it were whole
      throw this.#failure(thrown, request)
    } finally {
      detach()
      left.abort() // a body that nobody has read would keep its socket
    }
  }

  async *#ask(client: OpenAI, request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelPiece> {
    const asked = { provider: this.#host, model: request.model }
    const body = chatRequest(request, tokensFieldOf(new URL(this.#provider.baseURL)))
    const answer = new ChatAnswer(asked)
    const { completions } = client.chat
    // The SDK has an option for it, and names no header for this provider: it sends nothing.
    const { idempotencyKey } = request
    const headers = { ...request.headers, ...(idempotencyKey !== undefined && { 'Idempotency-Key': idempotencyKey }) }
    if (!request.stream) {
      const response = await completions.create({ ...body, stream: false }, { signal, headers }).asResponse()
      request.onHeaders?.(response.headers)
      if (kindOf(response) !== 'json')
        throw wrongContent(response.headers.get('content-type'), this.#call(request), response.status)
      yield* answer.take(await response.json())
    } else {
      const options = { stream: true, stream_options: { include_usage: true } } as const
      const { data, response } = await completions.create({ ...body, ...options }, { signal, headers }).withResponse()
      request.onHeaders?.(response.headers)
      const kind = kindOf(response)
      if (kind === 'json')
        yield* answer.take(await response.json()) // the server does not stream, or answers with an error
      else if (kind === 'events') for await (const chunk of data) yield* answer.take(chunk)
      else throw wrongContent(response.headers.get('content-type'), this.#call(request), response.status)
    }
    yield* answer.end()
  }

  /** Returns the SDK's client with this key. Keys change, and one call must not get the key of another. */
  #clientWith(key: string | undefined): OpenAI {
    if (this.#client && this.#client.key === key) return this.#client.sdk
    const { baseURL } = this.#provider
    const make = () =>
      new OpenAI({
        baseURL,
        apiKey: key ?? 'none', // the SDK needs one; its header is removed below
        adminAPIKey: null,
        ...(key === undefined && { defaultHeaders: { authorization: null } }),
        maxRetries: 0,
        timeout: LONGEST_TIMEOUT_MS, // the deadline is the caller's signal
        logLevel: 'off', // it would print prompts
        fetch: this.#fetch,
      })
    const sdk = isOpenAI(new URL(baseURL).hostname) ? make() : withoutVariables(make)
    this.#client = { key, sdk }
    return sdk
  }

  #failure(thrown: unknown, request: ModelRequest): unknown {
    if (thrown instanceof APIError && thrown.headers) request.onHeaders?.(thrown.headers)
    return failureOf(thrown, this.#call(request))
  }

  #call(request: ModelRequest): FailedCall {
    const { key, redactor, clock } = this.#provider
    return {
      asked: { provider: this.#host, model: request.model },
      request,
      keyAdvice: key.from === undefined ? 'Give the model an apiKeyEnv or apiKey.' : `Check the key in ${key.from}.`,
      isKeyless: key.from === undefined,
      speaks: 'chat completions',
      redactor,
      now: clock.now(),
    }
  }
}

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1

/** Variables that the SDK takes from the environment beside the key, and sends to any server. */
const FOR_OPENAI = ['OPENAI_ORG_ID', 'OPENAI_PROJECT_ID', 'OPENAI_CUSTOM_HEADERS']

/**
 * Makes the SDK's client while these variables are deleted, because the SDK has no option against the last one. They
 * are restored before any other code runs.
 */
function withoutVariables<T>(make: () => T): T {
  const kept = FOR_OPENAI.flatMap((name) =>
    process.env[name] === undefined ? [] : [[name, process.env[name]] as const],
  )
  for (const [name] of kept) delete process.env[name]
  try {
    return make()
  } finally {
    Object.assign(process.env, Object.fromEntries(kept))
  }
}

function kindOf({ headers }: Response): 'json' | 'events' | 'other' {
  const type = headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (type === 'application/json' || type.endsWith('+json')) return 'json'
  return type === 'text/event-stream' ? 'events' : 'other'
}
