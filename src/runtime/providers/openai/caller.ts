/**
 * Makes the calls of a provider with the `openai` package: with the key of the moment, ended by the caller's signal,
 * and with errors that callers get.
 */
import { OpenAI } from 'openai'
import type { ModelPiece, ModelRequest } from '../../../actors/definition/model.ts'
import { onAbort } from '../../../on-abort.ts'
import { picked } from '../../../own.ts'
import { boundedFetch } from '../bounded-fetch.ts'
import { hostOf, type Provider } from '../provider.ts'
import { type FailedCall, HttpRefusal } from '../refusals.ts'
import { failureOf, httpRefusalIn, wrongContent } from './failures.ts'
import { isOpenAI } from './host.ts'

/** Signal and headers of a call, as the SDK takes them. */
export interface CallSettings {
  readonly signal: AbortSignal
  readonly headers: Record<string, string>
}

type Ask = (sdk: OpenAI, settings: CallSettings) => AsyncIterable<ModelPiece>

export class OpenAICaller {
  readonly #provider: Provider
  readonly #speaks: string
  readonly #host: string
  readonly #fetch = withRefusals(boundedFetch())
  #client: { key: string | undefined; sdk: OpenAI } | undefined

  /** `speaks`: name of the API, for errors. */
  constructor(provider: Provider, speaks: string) {
    this.#provider = provider
    this.#speaks = speaks
    this.#host = hostOf(provider.baseURL)
  }

  async *call(request: ModelRequest, ask: Ask): AsyncGenerator<ModelPiece> {
    const { signal } = request
    signal.throwIfAborted()
    const key = await this.#provider.key.get(signal)
    signal.throwIfAborted()
    const left = new AbortController()
    const detach = onAbort(signal, () => left.abort(signal.reason))
    // The SDK has an option for it, and names no header for this provider: it sends nothing.
    const { idempotencyKey } = request
    const headers = { ...request.headers, ...(idempotencyKey !== undefined && { 'Idempotency-Key': idempotencyKey }) }
    try {
      yield* ask(this.#clientWith(key), { signal: left.signal, headers })
    } catch (thrown) {
      signal.throwIfAborted() // the SDK throws another error, or ends the stream as if it were whole
      const refused = httpRefusalIn(thrown)
      if (refused) request.onHeaders?.(refused.headers)
      throw failureOf(thrown, this.failedCall(request))
    } finally {
      detach()
      left.abort() // a body that nobody has read would keep its socket
    }
  }

  /**
   * Yields the JSON of an answer: one body, or the events of a stream. Throws `ModelError` if the answer is neither.
   */
  async *jsonOf(
    response: Response,
    events: AsyncIterable<unknown> | undefined,
    request: ModelRequest,
  ): AsyncGenerator<unknown> {
    request.onHeaders?.(response.headers)
    const kind = kindOf(response)
    // A server may not stream, or answer with an error.
    if (kind === 'json') yield await response.json()
    else if (kind === 'events' && events) yield* events
    else throw wrongContent(response, await startOf(response), this.failedCall(request))
  }

  failedCall(request: ModelRequest): FailedCall {
    const { key, redactor, clock } = this.#provider
    return {
      asked: { provider: this.#host, model: request.model },
      request,
      keyAdvice: key.from === undefined ? 'Give the model an apiKeyEnv or apiKey.' : `Check the key in ${key.from}.`,
      isKeyless: key.from === undefined,
      speaks: this.#speaks,
      redactor,
      now: clock.now(),
    }
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
}

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1

/** Variables that the SDK takes from the environment beside the key, and sends to any server. */
const FOR_OPENAI = ['OPENAI_ORG_ID', 'OPENAI_PROJECT_ID', 'OPENAI_CUSTOM_HEADERS']

/**
 * Makes the SDK's client while these variables are deleted, because the SDK has no option against the last one. They
 * are restored before any other code runs.
 */
function withoutVariables<T>(make: () => T): T {
  const kept = picked(process.env, FOR_OPENAI)
  for (const name of FOR_OPENAI) Reflect.deleteProperty(process.env, name)
  try {
    return make()
  } finally {
    Object.assign(process.env, kept)
  }
}

/** Has the fetch throw `HttpRefusal` for a refusal: of its body, the SDK keeps the field `error` alone. */
function withRefusals(inner: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init)
    if (response.ok) return response
    throw new HttpRefusal(response, await response.text().catch(() => '')) // the status says enough
  }
}

/** Returns the first words of an answer, without waiting for the others. */
async function startOf({ body }: Response): Promise<string> {
  const reader = body?.getReader()
  const first = await reader?.read()
  return new TextDecoder().decode(first?.value)
}

function kindOf({ headers }: Response): 'json' | 'events' | 'other' {
  const type = headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (type === 'application/json' || type.endsWith('+json')) return 'json'
  return type === 'text/event-stream' ? 'events' : 'other'
}
