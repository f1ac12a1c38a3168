/** The HTTP API: one `fetch` handler for all hosts, made of the table of routes. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import type { z } from 'zod'
import { PEER_HEADER, PEER_PATH } from '../../runtime/cluster/address.ts'
import { describe } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'
import { a2aHandlers } from '../a2a/handlers.ts'
import { chatHandlers } from '../chat/handlers.ts'
import { type Caller, type HttpApiOptions, type HttpSettings, readOptions } from '../http/options.ts'
import { HttpError, httpErrorOf, INTERNAL, jsonIn, problemResponse, readBody } from '../http/problem.ts'
import { type Operation, type Route, routes } from '../http/routes.ts'
import { closeBehind, noteConnection, Streams, Unread } from '../http/streams.ts'
import { type Call, type Handlers, IdempotencyKeys, json, ServedTeams, type Service, Tasks } from '../http/tasks.ts'
import { mcpHandlers } from '../mcp/handlers.ts'
import { openAiHandlers } from '../openai/handlers.ts'
import { openAiError } from '../openai/responses.ts'
import type { ClusterFront, Plain } from './cluster-front.ts'
import {
  assertHost,
  assertOrigin,
  corsHeaders,
  preflight,
  Rates,
  RequestTimes,
  SAFE_HEADERS,
  Sessions,
} from './doors.ts'
import { agentHandlers, letterHandlers, pageHandlers, probeHandlers, recordHandlers } from './record-handlers.ts'
import { eventHandlers, questionHandlers, taskHandlers, watchHandlers } from './task-handlers.ts'

/** Teams over HTTP, as a handler for a server of yours. */
export interface HttpApi {
  /** Answers one request. For hono, Next, Deno, Bun and all that know the web's `Request` and `Response`. */
  readonly fetch: (request: Request) => Promise<Response>
  /** The same for Node's `http` and what is built on it, such as express and fastify. Mount it before body parsers. */
  readonly node: (request: IncomingMessage, response: ServerResponse) => Promise<void>
  /**
   * Takes no more tasks, and resolves when all open ones are over, after `drainMs` at the latest. Then all streams end.
   * With `teams: true` the teams are closed, each as `team.close({ drainMs })` does: what their own code has begun ends
   * first too, runs that wait for a person alone are not waited for, each task has an end, and each stream its last
   * event. Else they stay yours. A second call waits for the first.
   */
  close(options?: { drainMs?: number; teams?: boolean }): Promise<void>
}

/**
 * Serves teams over HTTP: tasks, their events, questions to people, agents, dead letters, health and metrics.
 *
 * @throws {ConfigurationError} for a wrong option, with its path in `details`.
 *
 * @example
 * const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'me', may: ['run', 'watch', 'operate'] }) })
 * createServer(api.node).listen(4747, '127.0.0.1')
 */
export function httpApi(options: HttpApiOptions): HttpApi {
  const settings = readOptions(options)
  const teams = new ServedTeams(settings)
  const tasks = new Tasks(settings, teams)
  const keys = new IdempotencyKeys(settings.limits)
  const unread = new Unread(settings.limits)
  const streams = new Streams(settings.limits, unread, (error) =>
    settings.logger.error({ error: describe(error) }, 'a stream of the HTTP API has failed'),
  )
  const times = new RequestTimes()
  const sessions = new Sessions()
  const service: Service = { settings, teams, tasks, keys, unread, streams }
  const handlers: Handlers = {
    ...taskHandlers(service),
    ...eventHandlers(service),
    ...recordHandlers,
    ...questionHandlers(teams),
    ...agentHandlers,
    ...letterHandlers,
    ...watchHandlers(streams),
    ...probeHandlers(service, times),
    ...pageHandlers(service, sessions),
    ...openAiHandlers(service, () => front),
    ...chatHandlers(service),
    ...mcpHandlers(service),
    ...a2aHandlers(service),
  }
  const plain = plainOf(service, handlers)
  const front: Ways['front'] =
    teams.clusters.length === 0
      ? undefined
      : import('./cluster-front.ts').then(({ ClusterFront }) => ClusterFront.open(service, plain)) // late: few have one
  front?.catch((error: unknown) => settings.logger.error({ error: describe(error) }, 'the cluster cannot be served'))
  const fetch = fetchOf(service, routerOf(service, { plain, front, times, sessions }), front)
  let closing: Promise<void> | undefined
  const close = async ({ drainMs = 0, teams: closesTeams = false }: { drainMs?: number; teams?: boolean }) => {
    tasks.isDraining = true
    if (closesTeams) {
      // They know all that is under way, also what was begun by their own code.
      await Promise.all([...teams.own, ...teams.clusters].map(({ team }) => team.close({ drainMs })))
      tasks.close() // who waits here for what other processes do is answered
      await streams.quiet(LAST_EVENTS_MS)
    } else await tasks.quiet(drainMs)
    streams.end()
    tasks.close()
    keys.clear()
    sessions.clear()
  }
  return {
    fetch,
    node: getRequestListener(fetch, { overrideGlobalObjects: false }),
    close: (given = {}) => {
      closing ??= close(given)
      return closing
    },
  }
}

/** Time for which streams may bring their last events, in ms. */
export const LAST_EVENTS_MS = 5_000

type Router = (request: Request) => Promise<Response>

/** Everything that holds for all routes: doors, errors, headers, and how long an answer waits for its client. */
function fetchOf({ settings, teams, tasks, unread }: Service, router: Router, front: Ways['front']) {
  return async (request: Request, host?: unknown): Promise<Response> => {
    noteConnection(request, host)
    closeBehind(request, () => tasks.isDraining)
    const path = pathBelow(request, settings.basePath)
    const respond = async () => {
      try {
        const isOfPeer = teams.clusters.length > 0 && request.headers.has(PEER_HEADER) // the router checks that
        if (!isProbe(path) && !isOfPeer) assertHost(request, settings)
        if (request.method === 'OPTIONS' && request.headers.has('access-control-request-method'))
          return preflight(request, settings)
        if (!isOfPeer) assertOrigin(request, settings)
        if (front && isOfPeer && path.startsWith(PEER_PATH)) return await (await front).answer(request, path)
        return await router(request)
      } catch (error) {
        return failed(error, path, settings)
      }
    }
    const response = await respond()
    const headers = new Headers(response.headers)
    const common = {
      ...SAFE_HEADERS,
      ...corsHeaders(request, settings),
      ...(tasks.isDraining && { connection: 'close' }),
    }
    for (const [name, value] of Object.entries(common)) if (!headers.has(name)) headers.set(name, value)
    const { body, bytes } = await unread.bodyOf(request, response)
    if (bytes !== undefined) headers.set('content-length', String(bytes))
    return new Response(body, { status: response.status, headers })
  }
}

function failed(error: unknown, path: string, { logger }: HttpSettings, route?: Route): Response {
  const known = httpErrorOf(error)
  if (!known) logger.error({ path, error: describe(error) }, 'a request to the HTTP API has failed')
  const shown = known ?? INTERNAL
  const isOpenAi = route?.isOpenAi ?? path.startsWith('/v1/')
  return isOpenAi ? json(openAiError(shown), shown.status, shown.headers) : problemResponse(shown, path)
}

/** Probes come from where no name is known: a kubelet asks by the address of the pod. They tell nothing. */
const isProbe = (path: string): boolean => /^\/(?:livez|readyz|healthz)$/.test(path)

function plainOf({ settings, teams, tasks }: Service, handlers: Handlers): Plain {
  return async ({ name, route, request, params, query, caller, body: read }, of) => {
    const task = route.others ? await tasks.find(params.id!, caller, route.others) : undefined
    const body = route.body && (read ?? checked(route.body, jsonIn(await readBody(request, settings.limits)), 'body'))
    const served = 'team' in route.query.shape ? (of ?? teams.named(query.team as string | undefined)) : undefined
    const handler = handlers[name] as (call: Call) => Response | Promise<Response>
    return handler({ request, params, query, body, caller, task, served } as Call)
  }
}

interface Ways {
  readonly plain: Plain
  /** Requests about teams over several processes; undefined where there are none. */
  readonly front: Promise<ClusterFront> | undefined
  readonly times: RequestTimes
  readonly sessions: Sessions
}

function routerOf({ settings }: Service, { plain, front, times, sessions }: Ways): Router {
  const { postsPerSecond, burst, getsPerSecond } = settings.limits
  const posts = new Rates({ perSecond: postsPerSecond, burst, names: 'limits.postsPerSecond, limits.burst' })
  const gets = new Rates({ perSecond: getsPerSecond, burst: 4 * getsPerSecond, names: 'limits.getsPerSecond' })
  const app = new Hono({ getPath: (request) => pathBelow(request, settings.basePath) })
  const allowed = new Map<string, string[]>()
  for (const [name, route] of Object.entries(routes) as [Operation, Route][]) {
    if ((route.isOfPage && !settings.dashboard) || (route.isOfMcp && !settings.mcp)) continue
    if (route.isOfA2a && !settings.a2a) continue
    for (const path of [route.path, ...(route.also ?? [])]) {
      allowed.set(path, [...(allowed.get(path) ?? []), route.method])
      app.on(route.method, path, async (context) => {
        const request = context.req.raw
        const respond = async () => {
          const path = `${context.req.path}${new URL(request.url).search}`
          const clusters = await front
          const peer = await clusters?.peerOf(request, path)
          const caller = peer
            ? assertRight(peer.caller, route)
            : await callerOf(sessions.withToken(request), route, settings)
          if (caller instanceof Response) return caller
          if (peer) {
            // counted where it has come in
          } else if (route.method !== 'GET') await posts.count(caller.id)
          else if (caller !== NOBODY && !route.isUncounted) await gets.count(caller.id)
          const params: Record<string, string> = context.req.param()
          const query = checked(route.query, queryOf(request), 'query') as Readonly<Record<string, unknown>>
          const call = { name, route, request, path, params, query, caller }
          if (!clusters) return plain(call)
          const text = peer?.text ?? (route.body ? await readBody(request, settings.limits) : '')
          const whole = { ...call, text, body: route.body && checked(route.body, jsonIn(text), 'body') }
          return (await clusters.respond(whole, peer)) ?? plain(whole)
        }
        const begun = performance.now()
        const response = await respond().catch((error: unknown) => failed(error, context.req.path, settings, route))
        times.observe(name, response.status, performance.now() - begun)
        return response
      })
    }
  }
  for (const [path, methods] of allowed) {
    app.all(path, ({ req: { method } }) => {
      const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
      if (method === 'OPTIONS') return new Response(null, { status: 204, headers: { allow } })
      const detail = `${method.slice(0, 20)} is not possible here; accepted: ${methods.join(', ')}.`
      throw new HttpError('METHOD_NOT_ALLOWED', detail, { headers: { allow } })
    })
  }
  app.notFound(() => {
    throw new HttpError('NOT_FOUND', 'There is no such path. GET /api/openapi.json lists those that there are.')
  })
  app.onError((error) => {
    throw error
  })
  return async (request) => app.fetch(request)
}

const NOBODY: Caller = { id: '', may: [] }

/** Returns the path of a request below that of the API, which its host may have taken off already. */
function pathBelow({ url }: Request, basePath: string): string {
  const { pathname } = new URL(url)
  if (pathname !== basePath && !pathname.startsWith(`${basePath}/`)) return pathname
  return pathname.slice(basePath.length) || '/'
}

/**
 * Returns who sends a request, or what is answered instead.
 *
 * @throws HttpError for nobody that is known, and for one who may not use that route.
 */
async function callerOf(request: Request, route: Route, { authorize, mcp }: HttpSettings): Promise<Caller | Response> {
  const { isOpen, leadsToLogin } = route
  const caller = await authorize(request)
  if (caller instanceof Response) return isOpen && !leadsToLogin ? NOBODY : caller
  if (caller === null && isOpen) return NOBODY
  if (caller === null) {
    const detail = 'Say who you are, for example with the header Authorization: Bearer <token>.'
    const { resource } = (route.isOfMcp && mcp?.oauth) || {}
    const at = resource && new URL(`/.well-known/oauth-protected-resource${new URL(resource).pathname}`, resource)
    throw new HttpError('UNAUTHORIZED', detail, {
      headers: { 'www-authenticate': at ? `Bearer resource_metadata="${at}"` : 'Bearer' },
    })
  }
  return assertRight(caller, route)
}

/** @throws HttpError for a caller who may not use that route. */
function assertRight(caller: Caller, { rights, isOfAll }: Route): Caller {
  const { id, may, tenant } = caller
  if (rights.length > 0 && !rights.some((right) => may.includes(right)))
    throw new HttpError('FORBIDDEN', `"${id}" may not do that: it takes the right ${rights.join(' or ')}.`)
  if (isOfAll && tenant !== undefined)
    throw new HttpError('FORBIDDEN', `"${id}" has the tenant "${tenant}", and that is about runs of all tenants.`)
  return caller
}

function queryOf(request: Request): Record<string, string> {
  const { searchParams } = new URL(request.url)
  for (const name of searchParams.keys())
    if (searchParams.getAll(name).length > 1)
      throw new HttpError('CONFIGURATION', `${name.slice(0, 100)}: it may stand in the query only once.`)
  return Object.fromEntries(searchParams)
}

/** @throws HttpError that names the field, what came and what is accepted. */
function checked(schema: z.ZodType, value: unknown, where: 'query' | 'body'): unknown {
  const { success, data, error } = schema.safeParse(value)
  if (success) return data
  const issue = deepest(error.issues[0]!)
  const path = issue.path.join('.')
  if (issue.code === 'unrecognized_keys') {
    const known = path === '' ? Object.keys((schema as z.ZodObject).shape) : []
    const [key] = issue.keys as [string]
    const meant = nearest(key, known)
    const detail = `${path === '' ? '' : `${path}.`}${key.slice(0, 100)}: there is no such field in the ${where}; ${
      meant ? `did you mean "${meant}"?` : 'remove it.'
    }${path === '' ? ` Accepted: ${known.join(', ') || 'none'}.` : ''}`
    throw new HttpError('CONFIGURATION', detail, { details: { path: key } })
  }
  throw new HttpError('CONFIGURATION', `${path || where}: ${issue.message}${cameAs(value, issue.path)}.`, {
    details: { path },
  })
}

const MOST_SHOWN = 60

/** Says what came in place of what is accepted, if it is short. */
function cameAs(value: unknown, path: readonly PropertyKey[]): string {
  const came = path.reduce<unknown>((inside, key) => own(Object(inside), String(key)), value)
  const text = came === undefined || typeof came === 'object' ? '' : JSON.stringify(came)
  return text === '' || text.length > MOST_SHOWN ? '' : `; got ${text}`
}

/** Returns the issue of the form that a value has nearly met, where it may have one of several. */
function deepest(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== 'invalid_union') return issue
  const issues = issue.errors.flatMap(([first]) => (first ? [deepest(first)] : []))
  const found = issues.reduce<z.core.$ZodIssue>((best, each) => (each.path.length > best.path.length ? each : best), {
    ...issue,
    path: [],
  })
  return { ...found, path: [...issue.path, ...found.path] }
}
