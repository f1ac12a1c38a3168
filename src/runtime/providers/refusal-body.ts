/**
 * Reads the error in what a provider answered in place of an answer. Servers and gateways have shapes of their own:
 * an object or a list, an error within an error, JSON within a text, a page of HTML. Sources: the API references of
 * OpenAI, Anthropic, Google (google.rpc.Status), Mistral, OpenRouter, and the errors of vLLM, llama.cpp and FastAPI.
 */
import { durationMs } from './rate-limits.ts'

/** Error of a provider. */
export interface SaidError {
  /** The provider's words; empty if it has none. */
  readonly message: string
  /** Codes, types and reasons that it names, the outermost first. */
  readonly kinds: readonly string[]
  /** HTTP status that the error names as its own. */
  readonly status: number | undefined
  /** Pause that it asks for, in ms. */
  readonly retryAfterMs: number | undefined
}

/** Deepest error within an error that is read. */
const DEEPEST = 6
const MOST_DETAILS = 16
/** Characters of a text that are looked at. */
const LONGEST_TEXT = 65_536
const LONGEST_MESSAGE = 4_096
const LONGEST_KIND = 100

/** Fields that name the kind of an error. */
const KINDS = ['code', 'type', 'status', 'reason', '__type'] as const
/** Fields that hold the words of an error, or an error within: the first that has words counts. */
const WORDS = ['message', 'Message', 'error', 'detail', 'msg', 'errors', 'error_description', 'choices'] as const
const PAUSES = ['retryDelay', 'retry_after', 'retryAfter', 'retry_after_seconds'] as const

/** Returns the error that a body says. Anything may be given; `now` is epoch ms. */
export function errorIn(body: unknown, now: number): SaidError {
  const reading = new Reading(now)
  const message = reading.wordsOf(body, 0).slice(0, LONGEST_MESSAGE)
  const status = reading.kinds.map(Number).find((code) => Number.isInteger(code) && code >= 400 && code < 600)
  return { message, kinds: reading.kinds, status, retryAfterMs: reading.pauseMs ?? pauseIn(message, now) }
}

/** Checks whether a body that should be an answer says an error instead. `answers`: the field that every answer has. */
export function isRefusal(body: unknown, answers: string): boolean {
  if (typeof body !== 'object' || body === null) return false
  if (Array.isArray(body)) return body.length > 0 && Boolean(fieldOf(body[0], 'error'))
  if (fieldOf(body, 'error')) return true
  return !fieldOf(body, answers) && ['message', 'detail', 'errors', 'msg'].some((field) => fieldOf(body, field))
}

class Reading {
  readonly kinds: string[] = []
  pauseMs: number | undefined
  readonly #now: number

  constructor(now: number) {
    this.#now = now
  }

  wordsOf(said: unknown, depth: number): string {
    if (typeof said === 'string') return this.#wordsOfText(said, depth)
    if (depth > DEEPEST || typeof said !== 'object' || said === null) return ''
    if (Array.isArray(said)) return this.wordsOf(said[0], depth + 1)
    for (const field of KINDS) this.#note(fieldOf(said, field))
    this.#notePause(said)
    for (const detail of listOf(fieldOf(said, 'details'))) {
      this.#note(fieldOf(detail, 'reason'))
      this.#notePause(detail)
    }
    // a gateway's own words say less than those of the provider behind it
    const behind = this.wordsOf(fieldOf(fieldOf(said, 'metadata'), 'raw'), depth + 1)
    const words = this.#firstWords(said, depth)
    const place = fieldOf(said, 'loc')
    return behind || (Array.isArray(place) && words !== '' ? `${place.slice(0, DEEPEST).join('.')}: ${words}` : words)
  }

  #firstWords(said: object, depth: number): string {
    const within = fieldOf(said, 'error')
    if (typeof within === 'string') this.#note(within)
    for (const field of typeof within === 'object' ? (['error', ...WORDS] as const) : WORDS) {
      const words = this.wordsOf(fieldOf(said, field), depth + 1)
      if (words !== '') return words
    }
    return ''
  }

  #wordsOfText(text: string, depth: number): string {
    const shown = text.slice(0, LONGEST_TEXT).trim()
    if (depth <= DEEPEST && /^[[{]/.test(shown))
      try {
        return this.wordsOf(JSON.parse(text), depth + 1) || shown
      } catch {}
    return shown.startsWith('<') ? firstLine(withoutTags(shown)) : shown
  }

  #note(kind: unknown): void {
    const isName = typeof kind === 'string' && kind !== '' && kind.length <= LONGEST_KIND && !/\s/.test(kind)
    if (typeof kind === 'number' || isName) this.kinds.push(String(kind))
  }

  #notePause(said: unknown): void {
    for (const field of PAUSES) this.pauseMs ??= pauseOf(fieldOf(said, field), this.#now)
    const ms = fieldOf(said, 'retry_after_ms')
    if (typeof ms === 'number' && ms >= 0) this.pauseMs ??= ms
  }
}

/** Returns a pause in ms: a duration, a number of seconds, or seconds and nanoseconds (google.protobuf.Duration). */
function pauseOf(given: unknown, now: number): number | undefined {
  if (typeof given === 'number') return given >= 0 ? Math.ceil(given * 1_000) : undefined
  if (typeof given === 'string') return durationMs(given.trim(), now)
  const seconds = Number(fieldOf(given, 'seconds') ?? Number.NaN)
  return seconds >= 0 ? Math.ceil(seconds * 1_000 + Number(fieldOf(given, 'nanos') ?? 0) / 1e6) : undefined
}

/** Returns the pause that words ask for: "Please try again in 6m0s", "retry after 12 seconds". */
function pauseIn(message: string, now: number): number | undefined {
  const found = /\b(?:again|retry|wait)\b[^.\d]{0,20}?(\d[\d.]*\s?(?:ms|[smhd])[\dmsh.]*)/i.exec(message)?.[1]
  return found === undefined ? undefined : durationMs(found.replaceAll(/\s|\.$/g, ''), now)
}

function listOf(given: unknown): unknown[] {
  return Array.isArray(given) ? given.slice(0, MOST_DETAILS) : []
}

function withoutTags(html: string): string {
  return html
    .replaceAll(/<(script|style)\b[^>]{0,1000}>[^<]{0,10000}<\/\1>/gi, '')
    .replaceAll(/<[^<>]{0,1000}>/g, '\n')
    .trim()
}

const firstLine = (text: string): string => text.split('\n', 1)[0]?.trim() ?? ''

function fieldOf(given: unknown, field: string): unknown {
  return typeof given === 'object' && given !== null ? Reflect.get(given, field) : undefined
}
