/**
 * Requests to an agent by A2A 1.0: its card, calls of JSON-RPC, and streams of events. Each says what has become of it,
 * and has bounds: the time without a word, and what this process reads of it.
 */
import type { A2aAgent } from '../actors/definition/role-config.ts'
import { boundedAnswer, isEventStream, SseFrames } from '../shared/answers.ts'
import { systemClock, type Timer, timerBehind } from '../shared/clock.ts'
import { AgentFailedError, describe } from '../shared/errors.ts'
import { anyAborted } from '../shared/on-abort.ts'
import { visible } from '../shared/text.ts'

export type Fields = { readonly [name: string]: unknown }
export const fieldsOf = (value: unknown): Fields => Object(value) as Fields
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')

/** The agent has refused a request: it did nothing. */
export class RefusedError extends Error {
  readonly code: unknown

  constructor(text: string, code?: unknown) {
    super(text)
    this.code = code
  }
}

/** The request did not reach the agent, or it has no time now: it did nothing. */
export class AwayError extends Error {
  readonly afterMs: number

  constructor(text: string, { cause, afterMs = 0 }: { cause?: unknown; afterMs?: number } = {}) {
    super(text, { cause })
    this.afterMs = afterMs
  }
}

/** The connection broke, or the agent was silent: it may have done what was asked. */
export class LostError extends Error {}

const VERSION = '1.0'
/** Time for the head of an answer, and between two events of a stream, in ms. Both are asked again after it. */
const ANSWER_MS = 30_000
const SILENCE_MS = 60_000
const LONGEST_TEXT = 2_000
const LONGEST_PAUSE_MS = 60_000
const UNREACHED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/

export const cut = (text: string): string => visible(text.slice(0, LONGEST_TEXT))

/** Card of the agent, as far as it counts here. */
export interface Card {
  readonly endpoint: string
  readonly streams: boolean
  /** URIs of the extensions that it has. */
  readonly extensions: readonly unknown[]
}

export class A2aLine {
  readonly #who: string
  readonly #options: A2aAgent
  #card: Promise<Card> | undefined
  #requests = 0

  constructor(who: string, options: A2aAgent) {
    this.#who = who
    this.#options = options
  }

  /** Returns the card, which is read once. */
  async card(signal: AbortSignal): Promise<Card> {
    this.#card ??= this.#readCard(signal)
    const reading = this.#card
    reading.catch(() => {
      if (this.#card === reading) this.#card = undefined
    })
    return reading
  }

  async #readCard(signal: AbortSignal): Promise<Card> {
    const { url } = this.#options
    const at = url.endsWith('.json') ? url : `${url.replace(/\/+$/, '')}/.well-known/agent-card.json`
    const { response, over } = await this.#fetch(at, { headers: await this.#headers() }, signal).catch(isUnasked)
    try {
      const { supportedInterfaces, capabilities } = fieldsOf(await jsonIn(response))
      const found = listIn(supportedInterfaces)
        .map(fieldsOf)
        .find((each) => each.protocolBinding === 'JSONRPC' && /^1(\.|$)/.test(textIn(each.protocolVersion)))
      const endpoint = textIn(found?.url)
      if (!URL.canParse(endpoint) || !/^https?:$/.test(new URL(endpoint).protocol))
        throw this.failed(`has a card without an interface for A2A ${VERSION} by JSON-RPC, which is needed`)
      const { origin } = new URL(at)
      if (this.#options.auth !== undefined && new URL(endpoint).origin !== origin)
        throw this.failed(
          `has a card that leads to ${cut(new URL(endpoint).origin)}, which is not given the token of ${origin}: name that address in remote.a2a.url`,
        )
      const { streaming, extensions } = fieldsOf(capabilities)
      return { endpoint, streams: streaming === true, extensions: listIn(extensions).map((each) => fieldsOf(each).uri) }
    } finally {
      over()
    }
  }

  /** Returns the result of a method. Rejects with `RefusedError`, `AwayError` or `LostError`. */
  async call(method: string, params: object, signal: AbortSignal): Promise<Fields> {
    const { response, over } = await this.#ask(method, params, 'application/json', signal)
    try {
      return resultIn(await jsonIn(response))
    } finally {
      over()
    }
  }

  /** Yields the events of a method that streams. Ends or rejects with `LostError` where the stream was cut. */
  async *stream(method: string, params: object, signal: AbortSignal): AsyncGenerator<Fields> {
    const { response, over, heard } = await this.#ask(method, params, 'text/event-stream', signal)
    try {
      if (!isEventStream(response)) {
        yield resultIn(await jsonIn(response))
        return
      }
      const frames = new SseFrames()
      for await (const chunk of response.body!) {
        heard()
        for (const frame of frames.take(chunk)) {
          const data = dataOf(frame)
          if (data !== '') yield resultIn(parsed(data))
        }
      }
    } catch (error) {
      if (error instanceof RefusedError || error instanceof AgentFailedError || signal.aborted) throw error
      throw new LostError(describe(error), { cause: error })
    } finally {
      over()
    }
  }

  async #ask(method: string, params: object, accept: string, signal: AbortSignal) {
    const { endpoint } = await this.card(signal)
    const headers = {
      ...(await this.#headers()),
      'content-type': 'application/json',
      'a2a-version': VERSION,
      accept: `${accept}, application/json`,
    }
    this.#requests += 1
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.#requests, method, params })
    return this.#fetch(endpoint, { method: 'POST', headers, body }, signal)
  }

  async #headers(): Promise<Record<string, string>> {
    const { auth } = this.#options
    const token = typeof auth === 'function' ? await auth() : auth
    return token === undefined ? {} : { authorization: `Bearer ${token}` }
  }

  /** `heard` is called with each word of it, and `over` when nothing more is read. */
  async #fetch(url: string, init: RequestInit, signal: AbortSignal) {
    const late = new AbortController()
    const { signal: either, forget } = anyAborted([signal, late.signal])
    let timer: Timer | undefined
    const within = (ms: number) => {
      timer?.cancel()
      timer = timerBehind(ms, () => late.abort(new LostError(`it said nothing for ${ms} ms`)))
    }
    const over = () => {
      timer?.cancel()
      forget()
      late.abort(new LostError('nobody reads it any more'))
    }
    within(ANSWER_MS)
    try {
      const response = await fetch(url, { ...init, signal: either, redirect: 'error' })
      within(SILENCE_MS)
      const bounded = boundedAnswer(response, (what) => this.failed(what))
      if (!response.ok) await this.#refuse(bounded)
      return { response: bounded, over, heard: () => within(SILENCE_MS) }
    } catch (error) {
      over()
      if (signal.aborted) throw signal.reason
      if (error instanceof RefusedError || error instanceof AwayError || error instanceof AgentFailedError) throw error
      const { code } = fieldsOf(fieldsOf(error).cause)
      const words = describe(fieldsOf(error).cause ?? error)
      throw UNREACHED.test(textIn(code))
        ? new AwayError(words, { cause: error })
        : new LostError(words, { cause: error })
    }
  }

  /** Throws what an answer without success says. */
  async #refuse(response: Response): Promise<never> {
    const { status, headers } = response
    const text = await response.text()
    if (status === 429 || status === 503) {
      const seconds = Number(headers.get('retry-after'))
      const afterMs = Number.isFinite(seconds) ? Math.min(seconds * 1_000, LONGEST_PAUSE_MS) : 0
      throw new AwayError(`it answers ${status}`, { afterMs })
    }
    const { error } = fieldsOf(parsedOr(text))
    if (error !== undefined) resultIn({ error })
    if (status >= 500) throw new LostError(`it answers ${status}`)
    const login = status === 401 || status === 403 ? ' Give it a token that it takes: remote.a2a.auth.' : ''
    throw new RefusedError(`it answers ${status}: ${cut(text)}.${login}`, status)
  }

  failed(what: string, cause?: unknown): AgentFailedError {
    return new AgentFailedError(`${this.#who} ${what}${/[.)]$/.test(what) ? '' : '.'}`, {}, cause)
  }

  /** Resolves after a pause that grows with the number of tries. */
  pause(tries: number, afterMs: number, signal: AbortSignal): Promise<void> {
    return systemClock.sleep(Math.max(afterMs, Math.min(200 * 2 ** tries, 10_000)), signal)
  }
}

/** Whoever could not read the card has asked for nothing yet. */
function isUnasked(error: unknown): never {
  throw error instanceof LostError ? new AwayError(error.message, { cause: error }) : error
}

/** @throws RefusedError for an error of JSON-RPC. */
function resultIn(message: unknown): Fields {
  const { result, error } = fieldsOf(message)
  if (error !== undefined) {
    const { code, message: text } = fieldsOf(error)
    throw new RefusedError(cut(textIn(text) || 'it gives no reason'), code)
  }
  return fieldsOf(result)
}

async function jsonIn(response: Response): Promise<unknown> {
  const text = await response.text()
  const value = parsedOr(text)
  if (value === undefined) throw new LostError(`its answer is no JSON: ${cut(text)}`)
  return value
}

function parsed(text: string): unknown {
  const value = parsedOr(text)
  if (value === undefined) throw new LostError(`its event is no JSON: ${cut(text)}`)
  return value
}

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the data of an event, whose lines are joined. */
const dataOf = (frame: Uint8Array): string =>
  Buffer.from(frame)
    .toString()
    .split('\n')
    .flatMap((line) => (line.startsWith('data:') ? [line.slice(5).replace(/^ /, '')] : []))
    .join('\n')
