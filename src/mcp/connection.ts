/** A connection to an MCP server: started here or reached by HTTP, with what it offers, and calls of that. */

import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Progress } from '@modelcontextprotocol/client'
import { type Logger, notesOf, type ToolContext } from '../actors/definition/tool.ts'
import { foreignSchema } from '../json-schema/foreign-schema.ts'
import { MIB } from '../shared/answers.ts'
import { systemClock } from '../shared/clock.ts'
import { ConfigurationError, describe, OutcomeUnknownError, shown, ToolFailedError } from '../shared/errors.ts'
import { anyAborted } from '../shared/on-abort.ts'
import { visible } from '../shared/text.ts'
import { Auth, AuthError, LoginError } from './auth.ts'
import { Link, UnclearError } from './link.ts'
import { type Fields, isCutOff, type OfferedTool, toolIn } from './loose.ts'
import { type AskServer, inRounds, LostTaskError, type Request, RoundError } from './rounds.ts'
import { type Sdk, sdk } from './sdk.ts'
import { checkServer, type Era, type LoginParams, type McpServer, nameOf } from './server-address.ts'
import { beginSession, NO_LIMIT, type Session } from './session.ts'
import { answeredBy, isPassing } from './transports.ts'

const LONGEST_PRINT = 16_384
const PRINTED = { most: MIB, what: 'prints more than 1 MiB a minute' }
const FAILED = { most: 16_384, what: 'fails more often than is told' }
const MINUTE_MS = 60_000

/** Passes on at most as many bytes a minute, and says once that the rest of a minute is left out. */
function printedOn(tell: (text: string) => void, { most, what } = PRINTED): (text: Buffer) => void {
  let since = Number.NEGATIVE_INFINITY
  let bytes = 0
  return (text) => {
    const now = systemClock.monotonic()
    if (now - since >= MINUTE_MS) {
      since = now
      bytes = 0
    }
    const before = bytes
    bytes += text.length
    if (bytes <= most) tell(text.subarray(0, LONGEST_PRINT).toString().trimEnd())
    else if (before <= most) tell(`it ${what}: the rest of this minute is left out`)
  }
}

const LONGEST_OWN_NAME = 64
/** Characters of a header that may be a secret: shorter ones are parts of other words. */
const SHORTEST_SECRET = 6

/** Turns of the event loop in which an answer is read that had come when the time was up, though nobody had looked. */
const TURNS_OF_AN_ANSWER = 20

/** Error whose message says in words why a server cannot be used. */
class Unusable extends Error {}

class Endpoint {
  readonly #kit: Sdk
  readonly #server: McpServer
  readonly #options: ConnectOptions
  readonly #ended = new AbortController()
  readonly auth: Auth | undefined
  #era: Era
  name: string

  constructor(kit: Sdk, server: McpServer, options: ConnectOptions) {
    this.#kit = kit
    this.#server = server
    this.auth = authOf(kit, server)
    this.#options = options
    this.#era = server.era ?? 'auto'
    this.name = nameOf(server)
  }

  /** Is aborted when the connection is over, with what ended it. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  warn(error: string): void {
    this.#options.logger?.warn({ server: this.name, error }, 'an MCP server or the connection to it failed')
  }

  end(reason: Error): void {
    this.#ended.abort(reason)
  }

  /** Begins a session. It adds to the name how the server calls itself: several may be started by one command. */
  async begin(signal: AbortSignal): Promise<Session> {
    const { logger } = this.#options
    const failed = printedOn((error) => this.warn(error), FAILED)
    const session = await beginSession(
      {
        kit: this.#kit,
        server: this.#server,
        auth: this.auth,
        refuse: (what) => {
          // a call whose answer was not looked at to its end hears of nothing else
          this.end(new Unusable(`it ${what}, so the connection to it was ended`))
          return this.ended.reason as Error
        },
        failed: (error) => failed(Buffer.from(this.wordsOf(error).slice(0, LONGEST_REASON))),
        printed: logger && printedOn((text) => logger.info({ server: this.name }, text)),
      },
      signal,
      this.#era,
    ).catch((error: unknown) => {
      this.#era = this.#server.era ?? 'auto' // another one may stand there now
      throw error
    })
    this.#era = session.era
    const own = session.client.getServerVersion()?.name
    if (own) this.name = `${nameOf(this.#server)} ("${visible(own.slice(0, LONGEST_OWN_NAME))}")`
    return session
  }

  /** Does something with the server. Rejects with words when it fails, and when the time is up. */
  async inTime<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { timeoutMs } = this.#options
    const late = new AbortController()
    const end = (turns: number) => {
      if (turns === 0) late.abort(new Error('The time is up.'))
      else systemClock.defer(() => end(turns - 1))
    }
    const timer = systemClock.timer(timeoutMs, () => end(TURNS_OF_AN_ANSWER))
    const enough = anyAborted([late.signal, this.ended])
    setMaxListeners(0, enough.signal) // the package listens once more for each page of the list
    try {
      return await work(enough.signal)
    } catch (error) {
      if (error instanceof LoginError) throw error
      const why = late.signal.aborted
        ? `it did not say which tools it has within ${timeoutMs} ms (connectTimeoutMs)`
        : this.wordsOf(this.ended.aborted ? this.ended.reason : error)
      throw new Unusable(why, { cause: error })
    } finally {
      timer.cancel()
      enough.forget()
    }
  }

  /** Returns an error in words, without what may be a secret. */
  wordsOf(error: unknown): string {
    if (error instanceof Unusable || error instanceof RoundError || error instanceof AuthError) return error.message
    const { code }: { code?: unknown } = Object(error)
    if ('command' in this.#server) {
      if (code !== 'ENOENT') return describe(error)
      return 'there is no such command; it is looked for in the PATH of its own environment (env.PATH), or by an absolute path'
    }
    return this.clean(answeredBy(error, this.#kit) ?? describe(error))
  }

  clean(text: string): string {
    if ('command' in this.#server) return text
    const { url, headers = {} } = this.#server
    return Object.values(headers)
      .flatMap((value) => [value, ...value.split(' ')]) // the token alone, too
      .filter((secret) => secret.length >= SHORTEST_SECRET)
      .reduce(
        (said, secret) => said.replaceAll(secret, '[header]'),
        (this.auth?.clean(text) ?? text).replaceAll(String(url), 'its URL'),
      )
  }
}

export interface Offer {
  readonly tools: readonly OfferedTool[]
  readonly refused: ReadonlyMap<string, string>
  /** Keywords of schemas that are not checked by, with their tools and reasons. */
  readonly leftOut: readonly string[]
  readonly oddity?: string | undefined
}

/** In pages: a server that always has another one is not asked for ever. */
const MOST_PAGES = 100
/** Maximum number of tools, or resources, of a server: ten times as many as a model can choose from. */
const MOST_LISTED = 1_024
const LONGEST_REASON = 300

interface List {
  listed: unknown[]
  /** In words; undefined: nothing is odd about it. */
  oddity?: string
}

/** Asks a server for its tools, page by page, until it names no further page, or one that it has named before. */
async function listOf(session: Session, options: { signal: AbortSignal; timeout: number }): Promise<List> {
  const asked = (cursor: Fields) => session.ask('tools/list', cursor, options)
  return await pagesOf(asked, 'tools', ({ name }) => name)
}

/** Reads all pages of a list. `nameOf` tells the entries apart: a page may come again. */
export async function pagesOf(
  ask: (cursor: Fields) => Promise<Fields>,
  field: string,
  nameOf: (entry: Fields) => unknown,
): Promise<List> {
  const listed: unknown[] = []
  const known = new Map<unknown, unknown>()
  const cursors = new Set<string>()
  let cursor: string | undefined
  for (let page = 0; page < MOST_PAGES; page++) {
    const { [field]: entries, nextCursor: next } = await ask(cursor === undefined ? {} : { cursor })
    if (!Array.isArray(entries)) throw new Unusable(`its list of ${field} is ${shown(entries)}`)
    for (const entry of entries) {
      const name = nameOf(Object(entry) as Fields)
      if (known.has(name) && isDeepStrictEqual(known.get(name), entry)) continue
      if (listed.length === MOST_LISTED) throw new Unusable(`it has more than ${MOST_LISTED} ${field}`)
      known.set(name, entry)
      listed.push(entry)
    }
    if (next === undefined || next === null || next === '') return { listed }
    if (typeof next !== 'string') throw new Unusable(`the next page of its ${field} is ${shown(next)}, and no text`)
    if (cursors.has(next)) return { listed, oddity: `its list of ${field} names a page again, and ends there` }
    cursors.add(next)
    cursor = next
  }
  throw new Unusable(`its list of ${field} has more than ${MOST_PAGES} pages`)
}

/** Reads the schemas of a list of tools; of those that are wanted. Rejects only if the signal is aborted. */
async function offerIn(
  { listed, oddity }: List,
  isWanted: (name: string) => boolean,
  signal: AbortSignal,
): Promise<Offer> {
  const tools = new Map<string, OfferedTool>()
  const refused = new Map<string, string>()
  const leftOut: string[] = []
  for (const [at, given] of listed.entries()) {
    const { name }: { name?: unknown } = Object(given)
    const label = typeof name === 'string' && name !== '' ? name : `tool ${at + 1} of its list`
    try {
      const tool = toolIn(given, (keyword, why) => leftOut.push(visible(`${label}: ${keyword} (${why})`)))
      if (tools.has(tool.name)) throw new Error('another tool has the same name')
      if (isWanted(tool.name)) leftOut.push(...(await notChecked(tool)))
      tools.set(tool.name, tool)
    } catch (error) {
      refused.set(label, visible((error as Error).message).slice(0, LONGEST_REASON))
    }
    await setImmediate() // the patterns of one tool take up to a tenth of a second
    signal.throwIfAborted()
  }
  return { tools: [...tools.values()], refused, leftOut, oddity }
}

/** Returns the keywords of a tool's schemas that are not checked by. Rejects if a schema is beyond a bound. */
async function notChecked({ name, inputSchema, outputSchema }: OfferedTool): Promise<string[]> {
  const found: string[] = []
  const noteIn = (schema: string) => (place: string, why: string) =>
    void found.push(visible(`${name}: ${schema}.${place} (${why})`.slice(0, LONGEST_REASON)))
  await foreignSchema(inputSchema, noteIn('inputSchema'))
  if (outputSchema) await foreignSchema(outputSchema, noteIn('outputSchema'))
  return found
}

export interface Connection {
  /** The server in words, without what may be a secret: arguments, environment, headers, the query of its URL. */
  readonly name: string
  /** The tools that it has had when the last session began. */
  readonly offer: Offer
  /**
   * Rejects with `ToolFailedError` where the server refuses it, or is gone, and with `OutcomeUnknownError` where it may
   * have been done and may not be done twice.
   */
  call(tool: string, input: unknown, context: ToolContext, timeoutMs?: number, taskMs?: number): Promise<Fields>
  /** Asks for something that changes nothing. Rejects as `call` does; without a context nobody is asked meanwhile. */
  ask(method: string, params: Fields, timeoutMs: number, context?: ToolContext): Promise<Fields>
  offers(what: 'resources' | 'prompts'): boolean
  /** Has the list read again when the server says that it has changed, and calls `look` then. */
  watch(until: AbortSignal, look: () => void): void
  /** Aborted when the connection is over. */
  readonly ended: AbortSignal
  /** Returns a text of the server without what may be a secret. */
  clean(text: string): string
  finishLogin(params: LoginParams): Promise<void>
  close(): Promise<void>
}

export interface ConnectOptions {
  /** Time for a session to begin, and for the server to say which tools it has. */
  timeoutMs: number
  logger?: Logger | undefined
  /** Says whether a tool will be used, by its name. Default: all are. */
  isWanted?: (name: string) => boolean
}

export const mayRepeat = (tool: Pick<OfferedTool, 'annotations'> | undefined): boolean =>
  tool?.annotations.readOnlyHint === true || tool?.annotations.idempotentHint === true

/** Field of `params._meta` in a call: the protocol has no field of its own for a key. */
const KEY_FIELD = 'dramatis/idempotencyKey'
const GONE = 'the server is gone'
const READS = { annotations: { readOnlyHint: true } }
/** Time in ms from one list to the next, however often a server says that it has changed. */
const LEAST_READ_MS = 100
/** Time in ms until news are asked for again. */
const FIRST_LISTEN_MS = 200
const MOST_LISTEN_MS = 60_000

interface Made {
  context: ToolContext
  timeoutMs: number
  taskMs?: number | undefined
}
/** Time in ms of a task in a run that has no limit itself. */
const DAY_MS = 86_400_000

const ofNobody = () => {
  const ask = () => Promise.reject(new RoundError('it asks a person, and nobody is asked here'))
  return {
    signal: new AbortController().signal,
    progress: () => {},
    ask,
    idempotencyKey: randomUUID(),
    runId: '',
  } as unknown as ToolContext
}

/** Time in ms for each question about a task: they cost none of the time of its tool. */
const LIMITS_MS: ReadonlyMap<string, number> = new Map([
  ['tasks/get', 30_000],
  ['tasks/update', 30_000],
  ['tasks/cancel', 5_000],
])

/** Does something until the signal is aborted, and no longer than `ms`. */
async function within<T>(
  ms: number | undefined,
  signal: AbortSignal,
  work: (limited: AbortSignal) => Promise<T>,
): Promise<T> {
  if (ms === undefined) return work(signal)
  const late = new AbortController()
  const timer = systemClock.timer(ms, () => late.abort(new Error(`it did not answer within ${ms} ms`)))
  const limited = anyAborted([signal, late.signal])
  try {
    return await work(limited.signal)
  } finally {
    timer.cancel()
    limited.forget()
  }
}

/** Connects, and asks which tools there are. Rejects with `ConfigurationError`. */
export async function connect(server: McpServer, options: ConnectOptions): Promise<Connection> {
  const { isWanted = () => true } = options
  checkServer(server)
  const kit = await sdk()
  const endpoint = new Endpoint(kit, server, options)
  const { ended } = endpoint
  const begin = () =>
    endpoint.inTime(async (signal) => {
      const session = await endpoint.begin(signal)
      try {
        const listed = await listOf(session, { signal, timeout: NO_LIMIT })
        offer = await offerIn(listed, isWanted, signal)
        watched?.look()
        if (watched) void follow(session)
        return session
      } catch (error) {
        await session.close().catch(() => {})
        throw error
      }
    })
  let offer: Offer = { tools: [], refused: new Map(), leftOut: [] }
  let watched: { until: AbortSignal; look: () => void } | undefined
  const first = await begin().catch((error: unknown) => {
    const { name } = endpoint
    const text = `mcpTools: ${name} cannot be used: ${endpoint.wordsOf(error)}.`
    if (error instanceof LoginError)
      throw new ConfigurationError(`${text} Then call finishLogin.`, { path: 'auth', server: name, url: error.url })
    throw new ConfigurationError(text, { path: 'command' in server ? 'command' : 'url', server: name }, error)
  })
  const { name } = endpoint
  const link = new Link(first, begin, ended)
  const offered = (tool: string) => offer.tools.find((each) => each.name === tool)
  const made = async (
    what: string,
    { method, params }: Request,
    { of, context, timeoutMs, taskMs = DAY_MS }: { of: () => Pick<OfferedTool, 'annotations'> | undefined } & Made,
  ): Promise<Fields> => {
    const { idempotencyKey, signal, progress } = context
    const either = anyAborted([signal, ended])
    const { span } = notesOf(context)
    const _meta = { ...span?.headers, [KEY_FIELD]: idempotencyKey }
    const options = {
      timeout: NO_LIMIT,
      onprogress: (said: Progress) =>
        progress(said.message ?? `${said.progress}${said.total === undefined ? '' : ` of ${said.total}`}`),
    }
    try {
      const ask: AskServer = (asked, given, isRepeatable) => {
        const limitMs = LIMITS_MS.get(asked)
        const until = asked === 'tasks/cancel' ? ended : either.signal // it is sent when the call is over
        return within(limitMs, until, (limited) =>
          link.use(limited, { mayRepeat: isRepeatable, withinMs: limitMs ?? timeoutMs }, async (session) => {
            if (!limitMs && !of()) throw new Unusable('the server has it no more')
            span?.set({ 'mcp.method.name': method, ...session.attributes })
            return await session.underWay(context, () => session.ask(asked, given, { ...options, signal: limited }))
          }),
        )
      }
      const passes = (error: unknown) => !ended.aborted && (isCutOff(error) || isPassing(error, kit))
      const asking = { mayRepeat: mayRepeat(of()), ask, passes, taskMs }
      const result = await inRounds(name, { method, params: { ...params, _meta } }, asking, context)
      if (result.isError === true) span?.set({ 'error.type': 'tool_error' })
      return result
    } catch (error) {
      const details = { tool: what, server: name }
      if (error instanceof UnclearError || error instanceof LostTaskError) {
        const lost =
          error instanceof UnclearError
            ? `The connection to ${name} was cut off`
            : `${name} said no more of its task (${endpoint.wordsOf(error.cause)})`
        const text = `${lost} while its tool "${what}" was under way: it may have happened, or not, so it is not called again.`
        throw new OutcomeUnknownError(text, details, error.cause)
      }
      const { code }: { code?: unknown } = Object(error)
      if (typeof code === 'number' && code < 0)
        span?.set({ 'error.type': `${code}`, 'rpc.response.status_code': `${code}` })
      const why = ended.aborted
        ? `${(ended.reason as Error).message}; connect to it again with mcpTools`
        : endpoint.wordsOf(error)
      const failed = method === 'tools/call' ? `The tool "${what}" of ${name}` : `${what} of ${name}`
      throw new ToolFailedError(`${failed} failed: ${why}`, details, error)
    } finally {
      either.forget()
    }
  }
  let reading: Promise<void> | undefined
  let isStale = false
  /** Reads the list again: once for all news that come meanwhile. */
  const changed = (until: AbortSignal) => {
    if (until.aborted || ended.aborted) return
    isStale = reading !== undefined
    reading ??= reread(until)
      .catch((error: unknown) =>
        endpoint.warn(`its list of tools has changed, and cannot be read: ${endpoint.wordsOf(error)}`),
      )
      .finally(() => {
        reading = undefined
        if (isStale) changed(until)
      })
  }
  const reread = async (until: AbortSignal) => {
    const either = anyAborted([until, ended])
    try {
      await within(options.timeoutMs, either.signal, (signal) =>
        link.use(signal, { mayRepeat: true, withinMs: options.timeoutMs }, async (session) => {
          offer = await offerIn(await listOf(session, { signal, timeout: NO_LIMIT }), isWanted, signal)
        }),
      )
      watched?.look()
      await systemClock.sleep(LEAST_READ_MS, either.signal)
    } finally {
      either.forget()
    }
  }
  /** Listens to a session for news, and again after a drop: then some may have been missed. */
  const follow = async (session: Session) => {
    const { until } = watched ?? {}
    if (!until) return
    for (
      let ms = FIRST_LISTEN_MS;
      !session.isOver && !until.aborted && !ended.aborted;
      ms = Math.min(ms * 2, MOST_LISTEN_MS)
    ) {
      try {
        await session.listen(() => changed(until), until)
        ms = FIRST_LISTEN_MS
      } catch (error) {
        if (!until.aborted) endpoint.warn(`it tells no news of its tools: ${endpoint.wordsOf(error)}`)
      }
      if (session.isOver) return
      await systemClock.sleep(ms, until).catch(() => {})
      changed(until)
    }
  }
  return {
    name,
    get offer() {
      return offer
    },
    call: (tool, input, context, timeoutMs = NO_LIMIT, taskMs) =>
      made(
        tool,
        { method: 'tools/call', params: { name: tool, arguments: input } },
        { of: () => offered(tool), context, timeoutMs, taskMs },
      ),
    ask: (method, params, timeoutMs, context = ofNobody()) =>
      made(method, { method, params }, { of: () => READS, context, timeoutMs }),
    offers: (what) => link.session.client.getServerCapabilities()?.[what] !== undefined,
    get ended() {
      return ended
    },
    watch(until, look) {
      watched = { until, look }
      void follow(link.session)
    },
    clean: (text) => endpoint.clean(text),
    finishLogin: (params) => finishedLogin(endpoint.auth, params),
    close() {
      endpoint.end(new Error(GONE))
      return link.close()
    },
  }
}

/** Ends a login with a server to which there may be no connection. */
export async function finishLogin(server: McpServer, params: LoginParams): Promise<void> {
  checkServer(server)
  await finishedLogin(authOf(await sdk(), server), params)
}

async function finishedLogin(auth: Auth | undefined, params: LoginParams): Promise<void> {
  if (!auth) throw new ConfigurationError('finishLogin: the server has no auth.', { path: 'auth' })
  await auth.finish(new URLSearchParams(params))
}

const authOf = (kit: Sdk, server: McpServer): Auth | undefined =>
  'url' in server && server.auth ? new Auth(kit, { ...server, auth: server.auth }) : undefined
