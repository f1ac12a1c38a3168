/** Transports of messages to and from an MCP server, over streamable HTTP and over stdio, with bounds. */

import type { ChildProcessByStdio } from 'node:child_process'
import { STATUS_CODES } from 'node:http'
import type { Readable, Writable } from 'node:stream'
import type { JSONRPCMessage, StreamableHTTPClientTransport, Transport } from '@modelcontextprotocol/client'
import {
  ANSWER_LIMITS,
  boundedAnswer,
  isEventStream,
  Lines,
  MIB,
  MOST_TOOL_VALUES,
  type Refuse,
  tooLarge,
  tooMany,
} from '../shared/answers.ts'
import { isOverIn, systemClock } from '../shared/clock.ts'
import { visible } from '../shared/text.ts'
import { nextTurn } from '../shared/timers.ts'
import { valuesIn } from '../shared/values.ts'
import { type Auth, AuthError } from './auth.ts'
import { keepGroup, killGroup } from './process-group.ts'
import type { Sdk } from './sdk.ts'
import type { HttpServer, McpServer, StdioServer } from './server-address.ts'

/** Method of a request whose answer is open for as long as its client wants news. */
export const LISTEN = 'subscriptions/listen'
/** A gateway has passed the request on, or not. */
const GATEWAYS = /^50[24]$/
const LONGEST_WAIT_MS = 60_000
const UNREACHED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/

/** Answers to what a server asks, which it has not read yet. Calls are not counted: who makes them has bounds. */
const MOST_UNREAD = 1_000
const notRead = `does not read the ${MOST_UNREAD} answers sent to it`
const isAnswer = (message: JSONRPCMessage): boolean => !('method' in message)

const { POSITIVE_INFINITY } = Number
const LIMITS = { ...ANSWER_LIMITS, values: MOST_TOOL_VALUES }
/** Open as long as the connection is: what has been read of it is held no longer, so only one event is bounded. */
const LIFELONG = { ...LIMITS, stream: POSITIVE_INFINITY, empty: POSITIVE_INFINITY, events: POSITIVE_INFINITY }
const LONGEST_WORDS = 300

/**
 * Outcome of a request that failed. 'lost': not done, since the session is over. 'refused': not done, and may be later.
 * 'unclear': done, or not. 'answered': the server has said no, and says it again.
 */
export type Fate = 'lost' | 'refused' | 'unclear' | 'answered'

/** A message could not be written. */
export class NotSentError extends Error {}

/** Checks whether a request failed because its connection is over. */
export const isClosed = ({ SdkError }: Pick<Sdk, 'SdkError'>, error: unknown): boolean =>
  error instanceof SdkError && error.code === 'CONNECTION_CLOSED'

/** Transport of a session: it carries messages, and says what to do before it is closed and what to wait for then. */
export interface Line {
  transport: Transport
  end: Refuse
  fateOf(error: unknown): Fate
  /** Time in ms that the server has last asked to wait for. */
  retryAfterMs?(): number
  leave?(): Promise<void>
  ended?(): Promise<void>
}

type HttpKit = Pick<Sdk, 'StreamableHTTPClientTransport' | 'SdkError' | 'SdkHttpError'>

export function httpTransport(kit: HttpKit, { url, headers = {} }: HttpServer, refuse: Refuse, auth?: Auth): Line {
  let retryAfterMs = 0
  const transport: StreamableHTTPClientTransport = new kit.StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers },
    fetch: async (input, init) => {
      const response = await (auth ? auth.send(fetch, input, init) : fetch(input, init))
      const seconds = Number(response.headers.get('retry-after'))
      if (!response.ok) retryAfterMs = seconds > 0 ? Math.min(seconds * 1_000, LONGEST_WAIT_MS) : 0
      // the package reads what answers a GET as events, whatever it says that it is
      const isOpen = init?.method === 'GET' || new Headers(init?.headers).get('mcp-method') === LISTEN
      const isLifelong = isOpen && response.ok
      return boundedAnswer(response, end, {
        limits: isLifelong ? LIFELONG : LIMITS,
        isStream: isLifelong || isEventStream(response),
      })
    },
  })
  const end = (what: string) => {
    const error = refuse(what)
    void transport.close()
    return error
  }
  const send = transport.send.bind(transport)
  let unread = 0
  transport.send = async (message, options) => {
    if (Array.isArray(message) || !isAnswer(message)) return send(message, options)
    if (unread === MOST_UNREAD) throw end(notRead)
    unread += 1
    await send(message, options).finally(() => {
      unread -= 1
    })
  }
  // the protocol has 404 for a session that is over; servers also have other ways to say it
  const isLost = (error: unknown): boolean => {
    if (transport.sessionId === undefined) return false
    const { code, message }: { code?: unknown; message?: unknown } = Object(error)
    if (!(error instanceof kit.SdkHttpError)) return code === NO_SESSION && LOST_SESSION.test(String(message))
    const { status, data } = error
    return status === 404 || status === 410 || (/^[45]00$/.test(`${status}`) && LOST_SESSION.test(String(data.text)))
  }
  const fateOf = (error: unknown): Fate => {
    if (isLost(error)) return 'lost'
    if (error instanceof kit.SdkHttpError) {
      return error.status === 429 || error.status === 503
        ? 'refused'
        : GATEWAYS.test(`${error.status}`)
          ? 'unclear'
          : 'answered'
    }
    if (UNREACHED.test(String(Object(Object(error).cause).code))) return 'refused'
    return error instanceof TypeError || isClosed(kit, error) ? 'unclear' : 'answered' // fetch throws TypeError alone
  }
  return { transport, end, fateOf, retryAfterMs: () => retryAfterMs, leave: () => transport.terminateSession() }
}

/** Code of an error with which servers say that they know no such session; others say with it that time is up. */
const NO_SESSION = -32_001
/** Words of servers that know a session no more: other refusals, of an argument say, name sessions too. */
const LOST_SESSION =
  /(no valid|no such|invalid|missing|unknown|expired) (mcp[- ])?session|session([- ]id)?:? (is |was |has )?(not found|not valid|invalid|unknown|expired|closed|terminated|missing|required|does not exist|no longer)|not initiali[sz]ed/i
const INTERNAL_ERROR = -32_603

/** Checks whether a request that failed may be answered when it is made again later: it was no answer to it. */
export function isPassing(error: unknown, { SdkHttpError }: Pick<Sdk, 'SdkHttpError'>): boolean {
  if (error instanceof SdkHttpError) return Number(error.status) >= 500 || /^4(04|08|10|25|29)$/.test(`${error.status}`)
  if (error instanceof AuthError) return false
  const { code }: { code?: unknown } = Object(error)
  return typeof code !== 'number' || code === INTERNAL_ERROR || code === NO_SESSION
}

/** Returns the status that a server answered in place of a result, and its words; undefined for any other error. */
export function answeredBy(error: unknown, { SdkHttpError }: HttpKit): string | undefined {
  if (!(error instanceof SdkHttpError)) return undefined
  const { status, data } = error
  const said = wordsIn(typeof data.text === 'string' ? data.text : '')
  const words = visible(said.slice(0, LONGEST_WORDS))
  const advice =
    status === 401 || status === 403 ? '; send what it asks for in headers, such as authorization, or give auth' : ''
  return `it answered ${[status, STATUS_CODES[status]].join(' ').trim()}${words && `: ${words}`}${advice}`
}

/** Returns the words of a body: those of an error in JSON, or the first line of a text that is no page. */
function wordsIn(body: string): string {
  try {
    const {
      error,
      message,
      detail,
      error_description: description,
    }: { [field: string]: unknown } = Object(JSON.parse(body))
    const words = [Object(error).message, description, message, detail, error].find((each) => typeof each === 'string')
    if (typeof words === 'string') return words
  } catch {}
  const [line = ''] = body.trim().split('\n', 1)
  return line.startsWith('<') ? '' : line
}

/*
 * A server that is started here, and messages to and from it over stdio, one a line. The package's own transport copies
 * all that a line has so far for each chunk of it, reads on however much comes, and queues what the server does not
 * read: this one has bounds. Source: modelcontextprotocol.io, "Transports".
 */

const LONGEST_LINE = 16 * MIB
/** Lines in a row that are no message: some servers print there by mistake, but not that much. */
const MOST_NOISE = 10_000
/** Messages that are read before timers and sockets have their turn; it is at most 64 KiB at once anyway. */
const SLICE_LINES = 64
/** Time in ms that a server has to exit by itself, and then after it was told to. */
const LEAVE_MS = 2_000
/** Time in ms for what a server that is gone has written to be read. */
const PIPES_MS = 1_000

type Child = ChildProcessByStdio<Writable, Readable, Readable | null>

export interface SessionParts {
  kit: Sdk
  server: McpServer
  /** Makes the error for what is over a bound. */
  refuse: Refuse
  /** Takes errors that belong to no call. */
  failed(error: Error): void
  /** Takes what the server prints on stderr; undefined: nobody does. */
  printed: ((text: Buffer) => void) | undefined
  /** Source of the tokens for the server. */
  auth?: Auth | undefined
}

export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: NonNullable<Transport['onmessage']>
  /** With `pid` it is how the package knows that this is stdio, where a server of 2025 may say nothing to a probe. */
  readonly stderr = null
  readonly #server: StdioServer
  readonly #parts: SessionParts
  #child: Child | undefined
  #exit: Promise<void> = Promise.resolve()
  #isOver = false
  #unread = 0
  #noise = 0
  readonly #lines = new Lines()

  constructor(server: StdioServer, parts: SessionParts) {
    this.#server = server
    this.#parts = parts
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  async start(): Promise<void> {
    const { command, args = [], env = {}, cwd } = this.#server
    const { kit, printed } = this.#parts
    const child = kit.spawn(command, args, {
      env, // and nothing of this process's
      cwd,
      stdio: ['pipe', 'pipe', printed ? 'pipe' : 'ignore'],
      windowsHide: true,
      detached: process.platform !== 'win32', // there it would open a window
    }) as Child
    this.#child = child
    keepGroup(child)
    const started = new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    this.#exit = new Promise((resolve) => {
      child.once('exit', () => resolve())
      started.catch(() => resolve())
    })
    child.on('error', (error) => this.onerror?.(error))
    child.once('close', () => this.#over())
    // a process that the server started in a group of its own may have its pipes, and live on
    child.once('exit', () => void systemClock.timer(PIPES_MS, () => this.#over()))
    child.stdin.on('error', (error) => this.onerror?.(error))
    const failed = (error: unknown) => this.onerror?.(error as Error)
    this.#read(child.stdout).catch(failed)
    if (printed && child.stderr) inTurns(child.stderr, printed).catch(failed)
    await started
  }

  /** Resolves when it is written. To a server that is gone it is too: its end fails what waits for an answer. */
  send(message: JSONRPCMessage): Promise<void> {
    return new Promise((resolve, reject) => {
      if (!this.#child || this.#isOver) return reject(new NotSentError('Not connected'))
      const isCounted = isAnswer(message)
      if (isCounted && this.#unread === MOST_UNREAD) return reject(this.end(notRead))
      if (this.#child.stdin.writableLength > LONGEST_LINE)
        return reject(this.end(`does not read the ${LONGEST_LINE / MIB} MiB sent to it`))
      if (isCounted) this.#unread += 1
      this.#child.stdin.write(this.#parts.kit.serializeMessage(message), () => {
        if (isCounted) this.#unread -= 1
        resolve()
      })
    })
  }

  /** Lets the server leave, and ends one that does not. */
  async close(): Promise<void> {
    const child = this.#child
    if (!child) return
    child.stdin.end()
    if (!(await isOverIn(LEAVE_MS, this.#exit))) killGroup(child, 'SIGTERM')
    if (!(await isOverIn(LEAVE_MS, this.#exit))) killGroup(child, 'SIGKILL')
    await this.#exit
    this.#over()
  }

  end(what: string): Error {
    const error = this.#parts.refuse(what)
    if (this.#child) killGroup(this.#child, 'SIGKILL')
    this.#over()
    return error
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#lines.drop() // errors of the connection, which may be kept for long, hold it
    // a process that the server started may have them too, and live on
    this.#child?.stdout.destroy()
    this.#child?.stderr?.destroy()
    this.onclose?.()
  }

  async #read(stdout: Readable): Promise<void> {
    const lines = this.#lines
    let count = 0
    await inTurns(stdout, async (chunk) => {
      let wrong: unknown
      for (const line of lines.take(chunk)) {
        const error = this.#take(line)
        wrong ??= error
        count += 1
        if (count % SLICE_LINES === 0) await nextTurn()
        if (this.#isOver) return
      }
      if (lines.pending > LONGEST_LINE) wrong ??= this.end(tooLarge('a line', LONGEST_LINE))
      if (wrong instanceof Error) this.onerror?.(wrong) // one for all of a chunk: it can be thousands
    })
  }

  /** An error: it is no message, or too much. */
  #take(line: Buffer): unknown {
    if (line.length > LONGEST_LINE) return this.end(tooLarge('a line', LONGEST_LINE))
    if (line.length > MOST_TOOL_VALUES && valuesIn(line) > MOST_TOOL_VALUES)
      return this.end(tooMany('a line', MOST_TOOL_VALUES))
    try {
      const message = this.#parts.kit.deserializeMessage(line.toString())
      this.#noise = 0
      this.onmessage?.(message)
    } catch (error) {
      this.#noise += 1
      return this.#noise > MOST_NOISE ? this.end(`sends more than ${MOST_NOISE} lines that are no message`) : error
    }
    return undefined
  }
}

/**
 * Reads at most 64 KiB before timers and sockets have their turn. Resolves when the stream is over or was destroyed.
 */
async function inTurns(stream: Readable, take: (chunk: Buffer) => unknown): Promise<void> {
  try {
    for await (const chunk of stream) {
      await take(chunk)
      await nextTurn()
    }
  } catch (error) {
    if ((Object(error) as { code?: unknown }).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
  }
}
