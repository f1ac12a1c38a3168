/**
 * A question to a web service with a JSON or CSV API. What it answers is text of a stranger: bounded, checked, and
 * without the key, whatever the service says about it.
 */
import { z } from 'zod'
import { defineTool, type ToolOptions } from '../actors/definition/tool.ts'
import { systemClock } from '../shared/clock.ts'
import { environment } from '../shared/environment.ts'
import { ToolFailedError, ToolTimeoutError } from '../shared/errors.ts'
import { own } from '../shared/values.ts'
import { type Answer, MARGIN_MS, send, within } from './http-request.ts'

export const baseUrl = z
  .url({ protocol: /^https?$/ })
  .refine((url) => !/[?#@]/.test(url), 'expected a URL without a user, a query or a fragment')

export const envName = z.string().regex(/^[A-Za-z_]\w{0,127}$/, 'expected the name of an environment variable')

/** The time limit of a tool that asks a service, in ms. */
export const serviceTimeout = z.int().min(1).max(600_000).default(15_000)

const MOST_BYTES = 2_000_000
const SHORTEST_SECRET = 8 // 'demo' is a key, too, and a word

export interface Question {
  /** 'Open-Meteo'. */
  readonly service: string
  readonly url: URL
  readonly headers?: Readonly<Record<string, string>>
  /** A key that is in the URL or the headers. */
  readonly secret?: string
  /** Returns the service's message from the body of an error. */
  reasonIn?(body: unknown): string | undefined
  /** Advice for a status that needs more than the usual one. */
  advice?: Readonly<Record<number, string>>
  /** In how many seconds to ask again, where a service has a header of its own for it. */
  waitIn?(headers: Answer['headers']): number | undefined
}

export type Ask = (question: Question) => Promise<string>

interface ServiceTool<In, Value, Out> extends Pick<ToolOptions<In, Value, Out>, 'name' | 'description' | 'input'> {
  /** For all questions of a call together. */
  timeoutMs: number
  run(input: Value, ask: Ask): Promise<Out>
}

export function serviceTool<In, Value, Out>({ timeoutMs, run, ...tool }: ServiceTool<In, Value, Out>) {
  return defineTool({
    ...tool,
    readOnly: true,
    outside: true,
    idempotent: true,
    timeoutMs: timeoutMs + MARGIN_MS,
    run(input: Value, { signal }) {
      let service = 'the service'
      const late = () => {
        const message = `${tool.name}: ${service} did not answer within ${timeoutMs} ms. Try again later.`
        return new ToolTimeoutError(message, { service, timeoutMs })
      }
      return within(timeoutMs, signal, late, (limit) =>
        run(input, (question) => {
          service = question.service
          return answerTo(question, limit)
        }),
      )
    },
  })
}

export function endpoint(base: string, path: string, query: Readonly<Record<string, string | number>> = {}): URL {
  const url = new URL(base.replace(/\/+$/, '') + path)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value))
  return url
}

/** The key in the host's environment, read anew at each call. */
export function keyIn(variable: string, tool: string): string {
  const key = own(environment(), variable)?.trim() ?? ''
  if (/^[\x21-\x7e]+$/.test(key)) return key
  const state = key === '' ? 'is not set' : 'holds what cannot be a key'
  throw new ToolFailedError(`${tool} has no key: the environment variable ${variable} ${state}. Set it in the host.`, {
    variable,
  })
}

/** The JSON of an answer, as far as the schema names it. */
export function parsed<S extends z.ZodType>(service: string, text: string, schema: S): z.output<S> {
  const { success, data, error } = schema.safeParse(jsonIn(text))
  if (success) return data
  const [issue] = error.issues
  const place = issue?.path.map(String).join('.') || 'the whole of it'
  throw malformed(service, `${place}: ${issue?.message}`)
}

export function malformed(service: string, what: string): ToolFailedError {
  const advice = 'Try again later; if it stays so, the service has changed.'
  return failedBy(service, `${service} answered in a form that is not its own (${shortened(what)}). ${advice}`)
}

export function failedBy(service: string, message: string, details: object = {}): ToolFailedError {
  return new ToolFailedError(message, { service, ...details })
}

/** A refusal that a service puts into a good answer. */
export function refusedBy(service: string, reason: string, advice: string): ToolFailedError {
  return failedBy(service, `${service} says: ${shortened(reason)} ${advice}`)
}

async function answerTo(question: Question, signal: AbortSignal): Promise<string> {
  const { service, url, headers = {}, secret = '' } = question
  const options = {
    who: service,
    headers: { accept: 'application/json, text/csv;q=0.9', ...headers },
    maxBytes: MOST_BYTES,
    wants: () => true,
  }
  const answer = await send(url, options, signal)
  const text = without(secret, answer.body.toString('utf8'))
  if (answer.status >= 200 && answer.status < 300) return text
  throw statusFailure(question, answer, text)
}

function without(secret: string, text: string): string {
  if (secret.length < SHORTEST_SECRET) return text
  return text.replaceAll(secret, '[key]').replaceAll(encodeURIComponent(secret), '[key]')
}

function statusFailure(question: Question, { status, headers }: Answer, text: string): ToolFailedError {
  const { service } = question
  const reason = question.reasonIn?.(jsonIn(text))
  const seconds = question.waitIn?.(headers) ?? secondsIn(headers['retry-after'])
  const wait = seconds === undefined ? '' : ` Try again in ${seconds} s.`
  const advice = question.advice?.[status] ?? adviceFor(status, seconds !== undefined)
  const said = `${service} answered with status ${status}${reason ? `: ${shortened(reason)}` : '.'}`
  const again = seconds === undefined ? {} : { retryAfterMs: seconds * 1000 }
  return failedBy(service, `${said} ${advice}`.trimEnd() + wait, { status, ...again })
}

function adviceFor(status: number, saysWhen: boolean): string {
  if (status === 429) return saysWhen ? '' : 'It is asked too often; try again later.'
  if (status === 401 || status === 403) return 'Check the key and what it is allowed to do.'
  if (status >= 300 && status < 400) return 'A redirect is not followed; check the baseURL.'
  return status >= 500 ? 'The service has a fault; try again later.' : 'Check what was asked for.'
}

/** `Retry-After` is a number of seconds, or a date. Source: RFC 9110, 10.2.3. */
function secondsIn(retryAfter: string | undefined): number | undefined {
  if (retryAfter === undefined) return undefined
  if (/^\d{1,9}$/.test(retryAfter)) return Number(retryAfter)
  const at = Date.parse(retryAfter)
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - systemClock.now()) / 1000))
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const LONGEST_REASON = 300

/** Shortens a text to one line, with a full stop. */
function shortened(text: string): string {
  const line = text.replace(/[\p{Cc}\s]+/gu, ' ').trim()
  const short = line.length > LONGEST_REASON ? `${line.slice(0, LONGEST_REASON)}...` : line
  return /[.!?]$/.test(short) ? short : `${short}.`
}
