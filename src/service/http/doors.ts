/**
 * Which requests are let in at all: those to a host that is ours, and of what changes something only those that no web
 * page of a stranger sends.
 */
import type { HttpSettings } from './options.ts'
import { HttpError } from './problem.ts'

type Doors = Pick<HttpSettings, 'allowedHosts' | 'allowedOrigins'>

/** Headers of every response. Nothing of the API is to be shown in a page, framed or kept. */
export const SAFE_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

/**
 * Refuses a request to another host: its sender is a web page whose name was made to point here (DNS rebinding), which
 * needs no `Origin`.
 *
 * @throws HttpError
 */
export function assertHost(request: Request, { allowedHosts }: Doors): void {
  const host = hostOf(request)
  const name = host.replace(/:\d+$/, '')
  if (allowedHosts.includes('*') || allowedHosts.includes(host) || allowedHosts.includes(name)) return
  const detail = `Host: "${host.slice(0, 255)}" is none of those that are answered here. Add it to allowedHosts (--allowed-host) if it is yours.`
  throw new HttpError('FORBIDDEN', detail)
}

/**
 * Refuses what a web page of another origin sends to change something.
 *
 * @throws HttpError
 */
export function assertOrigin(request: Request, doors: Doors): void {
  if (request.method === 'GET' || request.method === 'HEAD') return
  const origin = request.headers.get('origin')
  if (origin !== null) {
    if (isAllowed(origin, request, doors)) return
    const detail = `Origin: "${origin.slice(0, 255)}" may not send ${request.method} requests. Add it to allowedOrigins if it is yours.`
    throw new HttpError('FORBIDDEN', detail)
  }
  const site = request.headers.get('sec-fetch-site')
  if (site === null || site === 'same-origin' || site === 'none') return
  throw new HttpError('FORBIDDEN', `A page of another site may not send ${request.method} requests.`)
}

/** Returns the headers that let a page of an allowed origin read the response. */
export function corsHeaders(request: Request, { allowedOrigins }: Doors): Record<string, string> {
  const origin = request.headers.get('origin')
  if (origin === null || !allowedOrigins.includes(origin)) return allowedOrigins.length > 0 ? { vary: 'Origin' } : {}
  return {
    'access-control-allow-origin': origin,
    'access-control-expose-headers':
      'location, retry-after, idempotency-replayed, preference-applied, x-dramatis-ignored',
    vary: 'Origin',
  }
}

/** Answers the question of a browser whether a page of an allowed origin may send a request. */
export function preflight(request: Request, doors: Doors): Response {
  const headers = corsHeaders(request, doors)
  if (!('access-control-allow-origin' in headers)) throw new HttpError('FORBIDDEN', 'That origin is not allowed.')
  return new Response(null, {
    status: 204,
    headers: {
      ...headers,
      'access-control-allow-methods': 'GET, POST, DELETE',
      'access-control-allow-headers': wantedHeaders(request),
      'access-control-max-age': '600',
    },
  })
}

const HEADER_NAMES = /^[\w-]+(?:\s*,\s*[\w-]+){0,63}$/
const OWN_HEADERS =
  'authorization, content-type, idempotency-key, last-event-id, prefer, traceparent, x-dramatis-thread'

/** Headers that a page may send: those that it asks for. Clients have their own, as `x-stainless-lang` of OpenAI's. */
function wantedHeaders({ headers }: Request): string {
  const wanted = headers.get('access-control-request-headers') ?? ''
  return wanted.length <= 2_000 && HEADER_NAMES.test(wanted) ? wanted : OWN_HEADERS
}

function isAllowed(origin: string, request: Request, { allowedOrigins }: Doors): boolean {
  if (allowedOrigins.includes(origin)) return true
  return URL.canParse(origin) && new URL(origin).host === hostOf(request)
}

/** The host as the client has written it. The URL of a request may be made up by what is before us. */
const hostOf = (request: Request): string => (request.headers.get('host') ?? new URL(request.url).host).toLowerCase()
