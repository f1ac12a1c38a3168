/** Options of the HTTP API, checked at the start. */
import type { Logger } from '../../actors/definition/tool.ts'
import type { Run, Team } from '../../index.ts'
import type { ClusterTeam } from '../../runtime/cluster/cluster-team.ts'
import { defaultLogger } from '../../runtime/logging/logger.ts'
import { type ModelPrice, MoneySum, Prices } from '../../runtime/settings/money.ts'
import { modelPrice } from '../../runtime/settings/team-shape.ts'
import {
  anyObject,
  byName,
  integer,
  isObject,
  listOf,
  methods,
  oneOf,
  pause,
  refused,
  refusedAs,
  rule,
  shape,
  wait,
} from '../../shared/checks.ts'
import { own } from '../../shared/values.ts'
import type { Cost, RIGHTS } from './schemas.ts'

/**
 * Right of a caller. 'run': begin tasks, and see, answer and cancel their own. 'watch': see all tasks, agents and
 * metrics. 'operate': cancel and answer the tasks of others, go on with their threads, restart agents, send messages,
 * replay dead letters. 'approve': approve calls of tools in the tasks of others; no other right has that in it.
 */
export type Right = (typeof RIGHTS)[number]

/** Sender of a request. Tasks belong to the `id`, and limits count by it: it is the same in no two tenants. */
export interface Caller {
  id: string
  may: readonly Right[]
  /** Group that its tasks are for. Of the tasks and questions of others it has only those of the same tenant. */
  tenant?: string
  /** Groups that it belongs to: an approval can ask for one of them (`approval: { groups }`). */
  groups?: readonly string[]
}

/**
 * Decides who sends a request: by a header, a cookie, a session of your own. null: nobody that is known (401). A
 * response is sent in place of the answer, for example a redirect to a login.
 */
export type Authorize = (request: Request) => Caller | Response | null | Promise<Caller | Response | null>

/** Bounds of the HTTP API. Durations in ms. */
export interface HttpLimits {
  /** Bytes of a request's body. Default: 1 MiB. */
  bodyBytes: number
  /** Time in which a body has to arrive. Default: 30,000. */
  bodyMs: number
  /** Requests other than GET, of one caller. Default: 10 a second. */
  postsPerSecond: number
  /** Requests beyond that, within any 10 seconds, of one caller. Default: 20. */
  burst: number
  /**
   * GET requests of one caller, and four times as many beyond that within any 10 seconds. Probes and streams are not
   * counted. Default: 50 a second.
   */
  getsPerSecond: number
  /** Tasks of one caller that are not over. Default: 16. */
  tasksPerCaller: number
  /** Open event streams of one caller. Default: 10. */
  streamsPerCaller: number
  /** Open event streams of all callers. Default: 256. */
  streams: number
  /** Idempotency keys that are remembered; the oldest are forgotten first. Default: 10,000. */
  idempotencyKeys: number
  /** Silence after which a stream sends a comment, so that proxies keep it open. Default: 15,000. */
  heartbeatMs: number
  /** Time after which an answer or a stream whose client reads nothing is cut. Default: 30,000. */
  unreadMs: number
  /**
   * Bytes of answers and streams that clients have not read, of all callers: beyond that the one that has waited
   * longest is cut. Default: 64 MiB.
   */
  unreadBytes: number
  /**
   * Time in which a client that was cut off may come back: for so long a task goes on after its client has left, where
   * `onDisconnect` cancels it, and a chat gives the end of a message again. Default: 10,000.
   */
  disconnectGraceMs: number
  /**
   * Time for which a whole answer of `/v1` waits for a person. Then it says what its task waits for, and the task goes
   * on. Default: 30,000.
   */
  personWaitMs: number
}

/** Fate of a task whose client has left before the answer. */
export type OnDisconnect = 'auto' | 'continue' | 'cancel'

/** How teams are served by the Model Context Protocol. */
export interface McpOptions {
  /** Names of the teams that are served. Default: all. */
  teams?: readonly string[]
  /** Tools: 'ask' gives a team a task, 'agents' one of its agents alone. Default: ['ask']. */
  tools?: readonly ('ask' | 'agents')[]
  /**
   * Time for which a call waits for the end of its task, in ms. Then it says how the task stands, which goes on: many
   * clients give a call up after a minute. Default: 20,000.
   */
  waitMs?: number
  /**
   * Servers that give the tokens which `authorize` takes: clients find them by the metadata of the resource (RFC 9728).
   * `resource`: URL of `/mcp`, as clients name it. Default: none.
   */
  oauth?: McpOAuth
}

export interface McpOAuth {
  resource: string
  authorizationServers: readonly string[]
}

/** How teams are served by A2A. */
export interface A2aOptions {
  /** Names of the teams that are served; the card at the root is that of the first. Default: all. */
  teams?: readonly string[]
  /**
   * Time for which a message waits for the end of its task, in ms. Then its answer says how the task stands, which goes
   * on. Default: 20,000.
   */
  waitMs?: number
  /** URL of the API as clients name it, which cards have. Default: that of the request, with `basePath`. */
  url?: string
  /**
   * Ways to say who one is, by name, as cards have them: what `authorize` understands. Default: a bearer token.
   * Source: `SecurityScheme` of A2A.
   */
  securitySchemes?: Readonly<Record<string, object>>
  /**
   * Push notifications: URLs that clients name are told how their tasks stand. true: any at a public address, by https.
   * A list of origins: those alone, wherever they are. Default: false.
   */
  push?: boolean | readonly string[]
}

export interface HttpApiOptions {
  /**
   * Teams by the name that callers use. The first one is used where a request names none. They stay yours. A team over
   * several processes is served by each of them: whoever is asked has the owner of the run answer.
   */
  teams: Readonly<Record<string, Team | ClusterTeam<Team>>>
  /** Says who sends a request, and what that caller may do. It is asked for everything but probes. */
  authorize: Authorize
  /** Path below which the API is mounted, such as '/agents'. Default: '', the root. */
  basePath?: string
  /**
   * Values of the `Host` header that are answered, with a port or without (then any). Default: localhost, 127.0.0.1
   * and [::1]. A web page of a stranger that has its own name point to your machine is refused by it. '*' answers every
   * host: only for an `authorize` that asks for more than a browser sends by itself, such as a token.
   */
  allowedHosts?: readonly string[]
  /** Origins of web pages elsewhere that may use the API, such as 'https://app.example.com'. Default: none. */
  allowedOrigins?: readonly string[]
  /**
   * Fate of a task whose client has left. 'auto' (default): it is cancelled if nobody could come back to it: a plain
   * POST without `Idempotency-Key`. 'continue': it goes on. 'cancel': it is cancelled, unless somebody asks for it
   * within `limits.disconnectGraceMs`.
   */
  onDisconnect?: OnDisconnect
  /**
   * Prices of models, by the names that `model.called` events have: then tasks have a `cost`, an estimate. Not beside a
   * team with `prices` of its own, whose tasks have `money`. Default: none.
   */
  prices?: Readonly<Record<string, ModelPrice>>
  /**
   * Files of the teams by their names, as a command of this machine would name them. The dashboard has them in the
   * command that rehearses a run, for callers with the right 'operate'. Default: none.
   */
  teamFiles?: Readonly<Record<string, string>>
  /**
   * Serves the dashboard at `/`: a page that shows what the teams do, for callers with the right 'watch'. It has no
   * login of its own: `authorize` decides, and who has a token gives it to the page. Default: false.
   */
  dashboard?: boolean
  /**
   * A thread (`threadId`) belongs to the caller that began it, and others may not go on with it but those with the
   * right 'operate'. true: every caller with the right 'run' may go on with every thread, and so read it. Default:
   * false.
   */
  sharedThreads?: boolean
  /**
   * An approval of a tool is given by somebody else than the caller of the task, unless the tool says otherwise
   * (`approval: { by }`). true: a caller with the right 'approve' approves calls in its own tasks, too. Default: false.
   */
  approveOwn?: boolean
  /**
   * Serves teams by the Model Context Protocol, at `/mcp` and `/mcp/<team>`. It needs the package
   * `@modelcontextprotocol/server`. true: all teams. Default: false.
   */
  mcp?: boolean | McpOptions
  /** Serves teams by A2A 1.0, at `/a2a/<team>`, with their agent cards. true: all teams. Default: false. */
  a2a?: boolean | A2aOptions
  limits?: Partial<HttpLimits>
  /** Log for failures of the API itself. Default: lines on stderr. */
  logger?: Logger
}

export type McpSettings = Required<Omit<McpOptions, 'oauth'>> & Pick<McpOptions, 'oauth'>

export type A2aSettings = Required<Omit<A2aOptions, 'url'>> & Pick<A2aOptions, 'url'>

export interface HttpSettings extends Required<Omit<HttpApiOptions, 'limits' | 'teams' | 'prices' | 'mcp' | 'a2a'>> {
  readonly mcp: McpSettings | undefined
  readonly a2a: A2aSettings | undefined
  readonly prices: HttpApiOptions['prices']
  readonly teams: ReadonlyMap<string, Team | ClusterTeam<Team>>
  readonly limits: HttpLimits
}

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']
const PATH = /^(?:\/[\w.~-]+)*$/
const HOST = /^(?:\*|(?:\[[\da-f:.]+\]|[a-z\d._-]+)(?::\d+)?)$/i
const NAME = /^[\w.-]{1,64}$/
const LIMITS: HttpLimits = {
  bodyBytes: 2 ** 20,
  bodyMs: 30_000,
  postsPerSecond: 10,
  burst: 20,
  getsPerSecond: 50,
  tasksPerCaller: 16,
  streamsPerCaller: 10,
  streams: 256,
  idempotencyKeys: 10_000,
  heartbeatMs: 15_000,
  unreadMs: 30_000,
  unreadBytes: 2 ** 26,
  disconnectGraceMs: 10_000,
  personWaitMs: 30_000,
}

const isA = (pattern: RegExp) => (value: unknown) => typeof value === 'string' && pattern.test(value)

const team = methods('execute', 'getRun', 'listRuns', 'health')
const clusterTeam = methods('execute', 'getRun', 'door')

/** Checks for a team over several processes. */
export const isClusterTeam = (given: Team | ClusterTeam<Team>): given is ClusterTeam<Team> => 'door' in given
const count = integer(1)
const limits = shape<Partial<HttpLimits>>({
  bodyBytes: count,
  bodyMs: wait(),
  postsPerSecond: count,
  burst: integer(0),
  getsPerSecond: count,
  tasksPerCaller: count,
  streamsPerCaller: count,
  streams: count,
  idempotencyKeys: count,
  heartbeatMs: wait(),
  unreadMs: wait(),
  unreadBytes: count,
  disconnectGraceMs: pause,
  personWaitMs: wait(),
})
const webAddress = rule(
  'an http: or https: URL',
  (value) => typeof value === 'string' && /^https?:/.test(value) && URL.canParse(value),
)
const teamNames = listOf(rule('the name of a team', (name) => typeof name === 'string'))
const mcp = shape<McpOptions>({
  teams: teamNames,
  tools: listOf(oneOf('ask', 'agents')),
  waitMs: wait(),
  oauth: shape<McpOAuth>(
    { resource: webAddress, authorizationServers: listOf(webAddress) },
    'resource',
    'authorizationServers',
  ),
})
const origins = listOf(rule("an origin such as 'https://app.example.com'", isOrigin))
const a2a = shape<A2aOptions>({
  teams: teamNames,
  waitMs: wait(),
  url: webAddress,
  securitySchemes: byName('an object with schemes by name', anyObject),
  push: (value, path) => typeof value === 'boolean' || origins(value, path),
})
const options = shape<HttpApiOptions>(
  {
    teams: checkTeams,
    authorize: rule('a function that returns a caller, a Response or null', (value) => typeof value === 'function'),
    basePath: rule("'', or a path such as '/agents' without a '/' at its end", isA(PATH)),
    allowedHosts: listOf(rule("a host such as 'agents.example.com', or '*'", isA(HOST))),
    allowedOrigins: origins,
    onDisconnect: oneOf('auto', 'continue', 'cancel'),
    prices: byName('an object with prices by model', modelPrice),
    teamFiles: byName(
      'an object with files by team',
      rule('the name of a file', (file) => typeof file === 'string'),
    ),
    dashboard: oneOf(true, false),
    sharedThreads: oneOf(true, false),
    approveOwn: oneOf(true, false),
    mcp: (value, path) => typeof value === 'boolean' || mcp(value, path),
    a2a: (value, path) => typeof value === 'boolean' || a2a(value, path),
    limits,
    logger: methods('debug', 'info', 'warn', 'error'),
  },
  'teams',
  'authorize',
)

/** @throws ConfigurationError that names the option, what came and what is accepted. */
export function readOptions(given: HttpApiOptions): HttpSettings {
  options(given, '')
  return {
    teams: new Map(Object.entries(given.teams)),
    authorize: given.authorize,
    basePath: given.basePath ?? '',
    allowedHosts: (given.allowedHosts ?? LOOPBACK).map((host) => host.toLowerCase()),
    allowedOrigins: given.allowedOrigins ?? [],
    onDisconnect: given.onDisconnect ?? 'auto',
    prices: given.prices && { ...given.prices },
    teamFiles: { ...given.teamFiles },
    dashboard: given.dashboard ?? false,
    sharedThreads: given.sharedThreads ?? false,
    approveOwn: given.approveOwn ?? false,
    mcp: mcpOf(given),
    a2a: a2aOf(given),
    limits: { ...LIMITS, ...withoutUndefined(given.limits) },
    logger: given.logger ?? defaultLogger,
  }
}

function mcpOf({ mcp = false, teams }: HttpApiOptions): HttpSettings['mcp'] {
  if (mcp === false) return undefined
  const { teams: names = Object.keys(teams), tools = ['ask'], waitMs = 20_000, oauth } = mcp === true ? {} : mcp
  assertOfOneProcess('mcp', names, teams)
  return { teams: names, tools, waitMs, ...(oauth && { oauth }) }
}

const BEARER = { bearer: { httpAuthSecurityScheme: { scheme: 'bearer' } } }

function a2aOf({ a2a = false, teams }: HttpApiOptions): HttpSettings['a2a'] {
  if (a2a === false) return undefined
  const { teams: names = Object.keys(teams), url, ...given } = a2a === true ? {} : a2a
  const { waitMs = 20_000, securitySchemes = BEARER, push = false } = given
  assertOfOneProcess('a2a', names, teams)
  return { teams: names, waitMs, securitySchemes, push, ...(url !== undefined && { url: url.replace(/\/+$/, '') }) }
}

/** @throws ConfigurationError for a team that there is not, or that runs over several processes. */
function assertOfOneProcess(option: 'mcp' | 'a2a', names: readonly string[], teams: HttpApiOptions['teams']): void {
  for (const name of names) {
    const team = own(teams, name)
    if (!team) throw refused(`${option}.teams`, name, `names of teams: ${Object.keys(teams).join(', ')}`)
    if (!isClusterTeam(team)) continue
    const way = `${option.toUpperCase()} serves teams in one process. Leave "${name}" out of ${option}.teams, or ask it by /v1.`
    throw refusedAs(`${option}.teams`, `"${name}", which runs over several processes`, 'teams in one process', way)
  }
}

function checkTeams(value: unknown, path: string): void {
  if (!isObject(value)) throw refused(path, value, 'an object with teams by name')
  const entries = Object.entries(value)
  if (entries.length === 0) throw refusedAs(path, 'no team', 'at least one team by name')
  for (const [name, each] of entries) {
    if (!NAME.test(name)) throw refused(`${path}: the name`, name, "1 to 64 letters, digits, '_', '.' and '-'")
    const check = isObject(each) && 'door' in each ? clusterTeam : team
    check(each, `${path}.${name}`)
  }
}

function isOrigin(value: unknown): boolean {
  return typeof value === 'string' && URL.canParse(value) && new URL(value).origin === value
}

const withoutUndefined = <T extends object>(given: T | undefined): Partial<T> =>
  Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined)) as Partial<T>

/** Estimates of runs in teams without prices of their own. */
export class Estimates {
  readonly #prices: Prices
  readonly #known = new WeakMap<Run<unknown>, Cost>()

  constructor(models: Readonly<Record<string, ModelPrice>>) {
    this.#prices = new Prices({ currency: '', models })
  }

  /** Returns the cost of a run that has ended, by what its log has of calls of models. */
  async costOf(run: Run<unknown>): Promise<Cost> {
    const known = this.#known.get(run)
    if (known) return known
    const sum = new MoneySum()
    const unpriced = new Set<string>()
    for await (const event of run.events({ types: ['model.called'], follow: false })) {
      if (event.type !== 'model.called' || event.rehearsed) continue
      const { model, usage, error } = event
      if (this.#prices.has(model)) sum.add(model, this.#prices.costOf(model, usage, error !== null))
      else unpriced.add(model)
    }
    const { amount: estimate = 0, byModel = {} } = sum.in('') ?? {}
    const cost: Cost = { estimate, byModel, unpriced: [...unpriced] }
    this.#known.set(run, cost)
    return cost
  }
}
