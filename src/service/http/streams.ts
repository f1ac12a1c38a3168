/**
 * Event streams. Each is a cursor on the log of a run: nothing is queued for a client. Events that it has not read yet
 * stay in the log, and the id of each event is its place there, so a client that was cut off goes on behind the last.
 */
import { ServerResponse } from 'node:http'
import { Http2ServerResponse } from 'node:http2'
import { type Timer, timerBehind } from '../../shared/clock.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { clearTimeout, setTimeout } from '../../shared/timers.ts'
import type { Caller, HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'

type Outgoing = ServerResponse | Http2ServerResponse

const outgoings = new WeakMap<Request, Outgoing>()

/** Notes the connection of a request. `host`: what a server has given with the request, as hono does it on Node. */
export function noteConnection(request: Request, host: unknown): void {
  const { outgoing } = Object(host)
  if (outgoing instanceof ServerResponse || outgoing instanceof Http2ServerResponse) outgoings.set(request, outgoing)
}

/** Address from which a request has come, where that is known. */
export function remoteAddress(request: Request): string | undefined {
  return outgoings.get(request)?.req.socket.remoteAddress
}

/** Cuts the connection of a request. Returns false where there is none to cut. */
function cutConnection(request: Request): boolean {
  const outgoing = outgoings.get(request)
  outgoing?.destroy()
  return outgoing !== undefined
}

/**
 * Calls back when the connection has taken the whole answer, or was closed. Returns false where that is not to be seen,
 * or has been.
 */
function onClosed(request: Request, closed: () => void): boolean {
  const outgoing = outgoings.get(request)
  if (!outgoing || outgoing.destroyed) return false
  outgoing.once('close', closed)
  return true
}

/** Closes the connection of a request behind its answer, if `isLast` says so then. */
export function closeBehind(request: Request, isLast: () => boolean): void {
  const outgoing = outgoings.get(request)
  if (!(outgoing instanceof ServerResponse)) return // connections of HTTP/2 are closed as sessions
  const { socket } = outgoing.req
  outgoing.once('close', () => isLast() && socket.destroy())
}

/** Form of a stream, by the header `Accept`. */
export type StreamForm = 'sse' | 'ndjson'

export interface StreamPlan {
  readonly request: Request
  readonly caller: Caller
  readonly form: StreamForm
  readonly headers?: Record<string, string>
  /** True for one that another process passes on, and counts. */
  readonly isOfPeer?: boolean
  /** Yields what is sent. The signal is aborted when nobody reads any more. */
  frames(signal: AbortSignal): AsyncIterable<string>
  /** Id of the run that is read. */
  readonly runId?: string
  /** Called when the client has left before the end, and reads that run by no other stream. */
  left?(): void
}

/** Headers of a stream. `no-transform` and `x-accel-buffering` keep proxies from holding events back. */
const HEADERS = { 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' }
const TYPES = { sse: 'text/event-stream; charset=utf-8', ndjson: 'application/x-ndjson; charset=utf-8' }
const HEARTBEATS = { sse: ': hb\n\n', ndjson: '\n' }
/** Id in place of the caller's for streams that other processes count; of no caller. */
const PEERS = '\0'
const encoder = new TextEncoder()

export class Streams {
  readonly #limits: HttpLimits
  readonly #unread: Unread
  readonly #failed: (error: unknown) => void
  /** Functions that end each open stream. */
  readonly #open = new OpenByCaller<() => void>()
  /** Those of a caller that read the same run. */
  readonly #ofRun = new OpenByCaller<() => void>()

  /** `failed`: told of what has kept a stream from going on. */
  constructor(limits: HttpLimits, unread: Unread, failed: (error: unknown) => void) {
    this.#limits = limits
    this.#unread = unread
    this.#failed = failed
  }

  get open(): number {
    return this.#open.all.length
  }

  /** @throws HttpError if there are too many. */
  respond(plan: StreamPlan): Response {
    const headers = { ...HEADERS, ...plan.headers, 'content-type': TYPES[plan.form] }
    if (plan.request.method === 'HEAD') return new Response(null, { headers })
    if (!plan.isOfPeer) this.#assertRoom(plan.caller)
    return new Response(this.#body(plan), { headers })
  }

  #assertRoom({ id }: Caller): void {
    const own = this.#open.of(id).size
    const { streamsPerCaller, streams } = this.#limits
    const headers = { 'retry-after': '1' }
    if (own >= streamsPerCaller) {
      const detail = `"${id}" has ${own} open streams (limits.streamsPerCaller). Close one of them.`
      throw new HttpError('RATE_LIMITED', detail, { headers })
    }
    if (this.open - this.#open.of(PEERS).size >= streams)
      throw new HttpError('TEAM_OVERLOADED', `There are ${streams} open streams (limits.streams).`, { headers })
  }

  #body({ request, caller, form, frames, left, isOfPeer, runId = '' }: StreamPlan): ReadableStream<Uint8Array> {
    const whose = isOfPeer ? PEERS : caller.id
    const ofRun = `${runId} ${whose}`
    const { heartbeatMs } = this.#limits
    const reading = new AbortController()
    const { signal } = reading
    const source = frames(signal)[Symbol.asyncIterator]()
    let next: Promise<IteratorResult<string>> | undefined
    let held = 0
    const end = () => {
      reading.abort()
      this.#open.delete(whose, end)
      this.#ofRun.delete(ofRun, end)
    }
    this.#open.add(whose, end)
    if (runId !== '') this.#ofRun.add(ofRun, end)
    return this.#unread.body(request, {
      next: async () => {
        if (signal.aborted) return undefined
        next ??= source.next()
        const got = await within(next, heartbeatMs, signal).catch((error: unknown) => {
          this.#failed(error)
          return { done: true as const, value: undefined }
        })
        if (got) next = undefined
        if (got?.done || signal.aborted) return undefined
        const piece = encoder.encode(got?.value ?? HEARTBEATS[form])
        held = piece.byteLength
        return piece
      },
      held: () => held,
      over: (isAtEnd) => {
        end()
        if (!isAtEnd && !this.isRead(runId, caller)) left?.()
      },
    })
  }

  /** Checks whether a caller reads a run by a stream. */
  isRead(runId: string, { id }: Pick<Caller, 'id'>): boolean {
    return this.#ofRun.of(`${runId} ${id}`).size > 0
  }

  /** Resolves when all streams have come to their end, or after that many ms. */
  quiet(ms: number): Promise<void> {
    return this.#open.quiet(ms)
  }

  /** Ends all streams. Their clients can go on elsewhere, or later. */
  end(): void {
    for (const end of this.#open.all) end()
  }
}

export function streamFormOf(request: Request): StreamForm | undefined {
  const accept = request.headers.get('accept') ?? ''
  if (accept.includes('application/x-ndjson')) return 'ndjson'
  return accept.includes('text/event-stream') ? 'sse' : undefined
}

/** Begins a wait that calls back when it is over. Returns what takes it back. */
export type Wait = (over: () => void) => () => void

/** Resolves when one of the waits is over, or after that many ms. Nothing is left of the others then. */
export async function firstOf(ms: number, ...waits: readonly Wait[]): Promise<void> {
  let forgets: (() => void)[] = []
  await new Promise<void>((resolve) => {
    const timer = ms === Number.POSITIVE_INFINITY ? undefined : setTimeout(resolve, ms)
    forgets = [() => clearTimeout(timer), ...waits.map((wait) => wait(resolve))]
  })
  for (const forget of forgets) forget()
}

/** Everything of one kind that is open, by caller. */
export class OpenByCaller<T> {
  readonly #open = new Map<string, Set<T>>()
  readonly #waiting = new Set<() => void>()

  get all(): T[] {
    return [...this.#open.values()].flatMap((own) => [...own])
  }

  of(caller: string): ReadonlySet<T> {
    return this.#open.get(caller) ?? new Set()
  }

  add(caller: string, one: T): void {
    this.#open.set(caller, (this.#open.get(caller) ?? new Set()).add(one))
  }

  delete(caller: string, one: T): void {
    const own = this.#open.get(caller)
    own?.delete(one)
    if (own?.size === 0) this.#open.delete(caller)
    if (this.#open.size === 0) for (const resolve of this.#waiting) resolve()
  }

  /** Resolves when nothing is open, or after that many ms. */
  async quiet(ms: number): Promise<void> {
    if (this.#open.size === 0) return
    await firstOf(ms, (over) => {
      this.#waiting.add(over)
      return () => this.#waiting.delete(over)
    })
  }
}

/** Resolves to undefined after that many ms, or when the signal is aborted. */
async function within<T>(promise: Promise<T>, ms: number, signal: AbortSignal): Promise<T | undefined> {
  let forget = () => {}
  const got: Wait = (over) => {
    forget = over
    return () => {}
  }
  const late = firstOf(ms, got, (over) => onAbort(signal, over))
  return Promise.race([promise, late.then(() => undefined)]).finally(() => forget())
}

/*
 * Bounds answers that clients have not read yet. Each piece of an answer has `limits.unreadMs` to be read, and all that
 * wait together have `limits.unreadBytes`. A slow client gets on piece by piece; one that reads nothing is cut.
 */

export interface Source {
  /** Returns the next piece, or undefined at the end. */
  next(): Uint8Array | undefined | Promise<Uint8Array | undefined>
  /** Bytes that are in memory until the piece that was returned last is read. */
  held(): number
  /** Called once when nobody reads any more: at the end, or before it if the client has left or was cut. */
  over(isAtEnd: boolean): void
}

interface Waiting {
  bytes: number
  readonly timer: Timer
}

type Body = ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer> | null
type Cut = (why: string) => void

/** Larger answers are sent in pieces of that many bytes, so that it shows whether a client reads at all. */
const PIECE = 65_536

export class Unread {
  readonly #limits: Pick<HttpLimits, 'unreadMs' | 'unreadBytes'>
  /** Answers that wait, by the function that cuts each; the one that has waited longest is first. */
  readonly #waiting = new Map<Cut, Waiting>()
  readonly #bodies = new WeakSet<ReadableStream>()
  #bytes = 0
  #cuts = 0

  constructor(limits: Pick<HttpLimits, 'unreadMs' | 'unreadBytes'>) {
    this.#limits = limits
  }

  get bytes(): number {
    return this.#bytes
  }

  get cuts(): number {
    return this.#cuts
  }

  /** Returns a body whose client is cut if it does not read on. */
  body(request: Request, { next, held, over }: Source): ReadableStream<Uint8Array> {
    let isOver = false
    const end = (isAtEnd: boolean): void => {
      this.#release(cut)
      if (!isOver) over(isAtEnd)
      isOver = true
    }
    let fail: Cut = () => {}
    const cut: Cut = (why) => {
      this.#cuts++
      end(false)
      if (!cutConnection(request)) fail(why)
    }
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          fail = (why) => controller.error(new Error(why))
          this.#hold(cut, held())
        },
        pull: async (controller) => {
          this.#release(cut)
          const piece = await next()
          if (isOver) return
          if (piece) {
            controller.enqueue(piece)
            return this.#hold(cut, held())
          }
          end(true)
          controller.close()
          this.#untilClosed(request, PIECE) // what the connection has taken last may still be on its way
        },
        cancel: () => end(false),
      },
      { highWaterMark: 0 },
    )
    this.#bodies.add(body)
    return body
  }

  /** Resolves to the body of a response as it is sent, and to its bytes where they are known. */
  async bodyOf(request: Request, response: Response): Promise<{ body: Body; bytes?: number }> {
    if (!response.body || this.#bodies.has(response.body)) return { body: response.body }
    const all = new Uint8Array(await response.arrayBuffer())
    const bytes = all.byteLength
    if (bytes <= PIECE) {
      this.#untilClosed(request, bytes)
      return { body: all, bytes }
    }
    let at = 0 // where the piece begins that was returned last
    let end = 0
    const next = () => {
      at = end
      end += PIECE
      return at < bytes ? all.subarray(at, end) : undefined
    }
    return { body: this.body(request, { next, held: () => bytes - at, over() {} }), bytes }
  }

  /** Bounds the time in which a connection takes what it was given, and no more comes. */
  #untilClosed(request: Request, bytes: number): void {
    const cut: Cut = () => {
      this.#cuts++
      this.#release(cut)
      cutConnection(request)
    }
    if (onClosed(request, () => this.#release(cut))) this.#hold(cut, bytes)
  }

  #hold(cut: Cut, bytes: number): void {
    const { unreadMs, unreadBytes } = this.#limits
    const timer = timerBehind(unreadMs, () => cut(`The client has read nothing for ${unreadMs} ms (limits.unreadMs).`))
    this.#waiting.set(cut, { bytes, timer })
    this.#bytes += bytes
    while (this.#bytes > unreadBytes && this.#waiting.size > 1)
      this.#longestBefore(cut)(`More than ${unreadBytes} bytes wait for clients that do not read (limits.unreadBytes).`)
  }

  /** Returns what cuts the answer that has waited longest, of those that hold as much as the others on average. */
  #longestBefore(newest: Cut): Cut {
    const others = [...this.#waiting].filter(([cut]) => cut !== newest)
    const mean = others.reduce((sum, [, { bytes }]) => sum + bytes, 0) / others.length
    return others.find(([, { bytes }]) => bytes >= mean)![0]
  }

  #release(cut: Cut): void {
    const waiting = this.#waiting.get(cut)
    if (!waiting) return
    this.#waiting.delete(cut)
    this.#bytes -= waiting.bytes
    waiting.timer.cancel()
  }
}
