/**
 * Which requests are let in at all: those to a host that is ours, and of what changes something only those that no web
 * page of a stranger sends.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { BurstyRateLimiter, RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import { z } from 'zod'
import type { Metric } from '../../index.ts'
import { Histogram } from '../../runtime/views/prometheus.ts'
import { listOf, oneOf, refusedAs, text } from '../../shared/checks.ts'
import type { Authorize, Caller, HttpSettings } from '../http/options.ts'
import { HttpError } from '../http/problem.ts'
import { type Route, routes } from '../http/routes.ts'
import { problemBody, RIGHTS } from '../http/schemas.ts'

const LEAST = 16
const rights = listOf(oneOf(...RIGHTS))

/**
 * Returns an `authorize` for one token: who sends `Authorization: Bearer <token>` is that caller, anybody else nobody.
 * Tokens are compared in constant time.
 *
 * @throws {ConfigurationError} for a token of fewer than 16 characters, and for a caller or a right that is none.
 *
 * @example
 * httpApi({ teams: { desk: team }, authorize: bearerToken(process.env.TOKEN, { id: 'ann', may: ['run', 'watch'] }) })
 */
export function bearerToken(token: string | undefined, caller: Caller): Authorize {
  if (typeof token !== 'string' || token.length < LEAST)
    throw refusedAs('token', token ? 'a shorter one' : 'none', `a text of at least ${LEAST} characters`)
  const { id, may, tenant, groups = [] }: Partial<Record<keyof Caller, unknown>> = Object(caller)
  text(id, 'caller.id')
  rights(may, 'caller.may')
  if (tenant !== undefined) text(tenant, 'caller.tenant')
  listOf(text)(groups, 'caller.groups')
  const expected = digest(token)
  return ({ headers }) => {
    const given = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '')?.[1]
    return given !== undefined && timingSafeEqual(digest(given), expected) ? caller : null
  }
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

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

/** Returns the document. `basePath`: path below which the API is mounted. */
export function openApi(basePath: string): object {
  const paths = new Map<string, [string, object][]>()
  for (const [operationId, route] of Object.entries(routes) as [string, Route][])
    for (const path of [route.path, ...(route.also ?? [])]) {
      const name = path.replaceAll(/:(\w+)(?:\{\.\+\})?/g, '{$1}')
      const made = operation(path === route.path ? operationId : undefined, path, route)
      paths.set(name, [...(paths.get(name) ?? []), [route.method.toLowerCase(), made]])
    }
  return {
    openapi: '3.1.0',
    info: { title: 'dramatis', version: '1', description: 'Teams of AI agents. A task is a run of a team.' },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    paths: Object.fromEntries(Array.from(paths, ([name, methods]) => [name, Object.fromEntries(methods)])),
    components: {
      schemas: { Problem: schemaOf(problemBody, 'output') },
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
    security: [{ bearer: [] }],
  }
}

/** Statuses that routes have beside their own: all of them, those that need a right, and those that take a body. */
const OF_ALL = [422, 500]
const OF_RIGHTS = [401, 403, 429]
const OF_BODIES = [400, 408, 413, 415]

function operation(operationId: string | undefined, path: string, route: Route): object {
  const { summary, rights, query, body, answers, errors } = route
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const inQuery = Object.entries(query.shape).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema: schemaOf(schema as z.ZodType, 'input'),
  }))
  const statuses = [
    ...new Set([...errors, ...OF_ALL, ...(rights.length > 0 ? OF_RIGHTS : []), ...(body ? OF_BODIES : [])]),
  ]
  return {
    ...(operationId !== undefined && { operationId }),
    summary,
    ...(rights.length > 0 && { description: `Takes the right ${rights.join(' or ')}.` }),
    ...(rights.length === 0 && { security: [] }),
    parameters: [...inPath, ...inQuery],
    ...(body && {
      requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body, 'input') } } },
    }),
    responses: Object.fromEntries([
      ...Object.entries(answers).map(([status, { description, json, types = [] }]) => {
        const contents = [
          ...(json ? [['application/json', { schema: schemaOf(json, 'output') }]] : []),
          ...types.map((type) => [type, { schema: { type: 'string' } }]),
        ]
        return [status, { description, ...(contents.length > 0 && { content: Object.fromEntries(contents) }) }]
      }),
      ...statuses
        .filter((status) => !(status in answers))
        .map((status) => [status, { description: 'a problem', content: route.isOpenAi ? OPENAI_ERROR : PROBLEM }]),
    ]),
  }
}

const OPENAI_ERROR = {
  'application/json': { schema: { type: 'object', properties: { error: { type: 'object' } }, required: ['error'] } },
}
const PROBLEM = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _draft, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest
}

const BURST_S = 10

export class Rates {
  readonly #limiter: BurstyRateLimiter
  readonly #names: string

  /** `burst`: requests beyond `perSecond` within 10 seconds. `names`: the limits, as an error names them. */
  constructor({ perSecond, burst, names }: { perSecond: number; burst: number; names: string }) {
    this.#names = names
    this.#limiter = new BurstyRateLimiter(
      new RateLimiterMemory({ keyPrefix: 'rate', points: perSecond, duration: 1 }),
      new RateLimiterMemory({ keyPrefix: 'burst', points: burst, duration: BURST_S }),
    )
  }

  /** @throws HttpError if there were too many. */
  async count(caller: string): Promise<void> {
    try {
      await this.#limiter.consume(caller)
    } catch (refused) {
      const waitS = Math.max(1, Math.ceil((refused as RateLimiterRes).msBeforeNext / 1_000))
      const detail = `Too many requests of "${caller}" (${this.#names}). Try again in ${waitS} s.`
      throw new HttpError('RATE_LIMITED', detail, { headers: { 'retry-after': String(waitS) } })
    }
  }
}

export class RequestTimes {
  readonly #byLabels = new Map<string, { labels: Record<string, string>; histogram: Histogram }>()

  /** `route`: name of the operation, of which there are few. */
  observe(route: string, status: number, ms: number): void {
    const key = `${route} ${status}`
    const known = this.#byLabels.get(key) ?? { labels: { route, status: String(status) }, histogram: new Histogram() }
    this.#byLabels.set(key, known)
    known.histogram.observe(ms)
  }

  samples(): Metric['samples'] {
    return [...this.#byLabels.values()].flatMap(({ labels, histogram }) => histogram.samples(labels))
  }
}

/*
 * Sessions of the dashboard. A page cannot send a token with each request of a browser, and must not keep it: it
 * sends it once, and gets a cookie that no script can read. The token that it stands for is in memory, and is forgotten
 * with the process.
 */

interface Session {
  /** Value of the header `Authorization`. */
  readonly authorization: string
  readonly until: number
}

const COOKIE = 'dramatis_session'
const LASTS_MS = 12 * 3_600_000
const MOST = 1_000

export class Sessions {
  readonly #open = new Map<string, Session>()

  /** Begins a session for the token of a request. Returns its cookie; undefined for a request without a token. */
  begin(request: Request): string | undefined {
    const authorization = request.headers.get('authorization')
    if (authorization === null) return undefined
    const id = randomBytes(32).toString('base64url')
    for (const oldest of [...this.#open.keys()].slice(0, Math.max(0, this.#open.size - MOST + 1)))
      this.#open.delete(oldest)
    this.#open.set(id, { authorization, until: Date.now() + LASTS_MS })
    return cookie(id, LASTS_MS / 1_000, request)
  }

  /** Ends the session of a request. Returns the cookie that takes its place. */
  end(request: Request): string {
    this.#open.delete(idOf(request) ?? '')
    return cookie('', 0, request)
  }

  withToken(request: Request): Request {
    const id = request.headers.has('authorization') ? undefined : idOf(request)
    const session = id === undefined ? undefined : this.#open.get(id)
    if (!session) return request
    if (session.until < Date.now()) {
      this.#open.delete(id!)
      return request
    }
    const headers = new Headers(request.headers)
    headers.set('authorization', session.authorization)
    return new Request(request.url, { method: request.method, headers })
  }

  clear(): void {
    this.#open.clear()
  }
}

const idOf = ({ headers }: Request): string | undefined =>
  new RegExp(`(?:^|; *)${COOKIE}=([\\w-]+)`).exec(headers.get('cookie') ?? '')?.[1]

/** The cookie has no path: a browser then sends it to where the page is, whatever a proxy has put before it. */
const cookie = (id: string, seconds: number, { url }: Request): string =>
  `${COOKIE}=${id}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${new URL(url).protocol === 'https:' ? '; Secure' : ''}`
