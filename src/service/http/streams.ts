/**
 * Event streams. Each is a cursor on the log of a run: nothing is queued for a client. Events that it has not read yet
 * stay in the log, and the id of each event is its place there, so a client that was cut off goes on behind the last.
 */
import { onAbort } from '../../on-abort.ts'
import { clearTimeout, setTimeout } from '../../timers.ts'
import type { Caller, HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'
import type { Unread } from './unread.ts'

/** Form of a stream, by the header `Accept`. */
export type StreamForm = 'sse' | 'ndjson'

export interface StreamPlan {
  readonly request: Request
  readonly caller: Caller
  readonly form: StreamForm
  readonly headers?: Record<string, string>
  /** Yields what is sent. The signal is aborted when nobody reads any more. */
  frames(signal: AbortSignal): AsyncIterable<string>
  /** Called when the client has left before the end. */
  left?(): void
}

/** Headers of a stream. `no-transform` and `x-accel-buffering` keep proxies from holding events back. */
const HEADERS = { 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' }
const TYPES = { sse: 'text/event-stream; charset=utf-8', ndjson: 'application/x-ndjson; charset=utf-8' }
const HEARTBEATS = { sse: ': hb\n\n', ndjson: '\n' }
const encoder = new TextEncoder()

export class Streams {
  readonly #limits: HttpLimits
  readonly #unread: Unread
  readonly #failed: (error: unknown) => void
  /** Functions that end each open stream, by caller. */
  readonly #open = new Map<string, Set<() => void>>()
  readonly #quiet = new Set<() => void>()

  /** `failed`: told of what has kept a stream from going on. */
  constructor(limits: HttpLimits, unread: Unread, failed: (error: unknown) => void) {
    this.#limits = limits
    this.#unread = unread
    this.#failed = failed
  }

  /** Number of open streams. */
  get open(): number {
    return [...this.#open.values()].reduce((sum, { size }) => sum + size, 0)
  }

  /**
   * Answers with a stream.
   *
   * @throws HttpError if there are too many.
   */
  respond(plan: StreamPlan): Response {
    const headers = { ...HEADERS, ...plan.headers, 'content-type': TYPES[plan.form] }
    if (plan.request.method === 'HEAD') return new Response(null, { headers })
    this.#assertRoom(plan.caller)
    return new Response(this.#body(plan), { headers })
  }

  #assertRoom({ id }: Caller): void {
    const own = this.#open.get(id)?.size ?? 0
    const { streamsPerCaller, streams } = this.#limits
    const headers = { 'retry-after': '1' }
    if (own >= streamsPerCaller) {
      const detail = `"${id}" has ${own} open streams (limits.streamsPerCaller). Close one of them.`
      throw new HttpError('RATE_LIMITED', detail, { headers })
    }
    if (this.open >= streams)
      throw new HttpError('TEAM_OVERLOADED', `There are ${streams} open streams (limits.streams).`, { headers })
  }

  #body({ request, caller, form, frames, left }: StreamPlan): ReadableStream<Uint8Array> {
    const { heartbeatMs } = this.#limits
    const reading = new AbortController()
    const { signal } = reading
    const source = frames(signal)[Symbol.asyncIterator]()
    let next: Promise<IteratorResult<string>> | undefined
    let held = 0
    const end = () => {
      reading.abort()
      this.#close(caller.id, end)
    }
    this.#add(caller.id, end)
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
      over(isAtEnd) {
        end()
        if (!isAtEnd) left?.()
      },
    })
  }

  #add(caller: string, end: () => void): void {
    const own = this.#open.get(caller) ?? new Set()
    this.#open.set(caller, own.add(end))
  }

  #close(caller: string, end: () => void): void {
    const own = this.#open.get(caller)
    own?.delete(end)
    if (own?.size === 0) this.#open.delete(caller)
    if (this.#open.size === 0) for (const resolve of this.#quiet) resolve()
  }

  /** Resolves when all streams have come to their end, or after that many ms. */
  async quiet(ms: number): Promise<void> {
    if (this.#open.size === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, ms)
      const quiet = this.#quiet
      quiet.add(done)
      function done() {
        clearTimeout(timer)
        quiet.delete(done)
        resolve()
      }
    })
  }

  /** Ends all streams. Their clients can go on elsewhere, or later. */
  end(): void {
    for (const own of [...this.#open.values()]) for (const end of [...own]) end()
  }
}

/** Returns the form that a client asks for; undefined if it asks for no stream. */
export function streamFormOf(request: Request): StreamForm | undefined {
  const accept = request.headers.get('accept') ?? ''
  if (accept.includes('application/x-ndjson')) return 'ndjson'
  return accept.includes('text/event-stream') ? 'sse' : undefined
}

/** Resolves to undefined after that many ms, or when the signal is aborted. */
async function within<T>(promise: Promise<T>, ms: number, signal: AbortSignal): Promise<T | undefined> {
  let stop = () => {}
  const late = new Promise<undefined>((resolve) => {
    const timer = setTimeout(resolve, ms, undefined)
    const unlisten = onAbort(signal, () => resolve(undefined))
    stop = () => {
      clearTimeout(timer)
      unlisten()
    }
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    stop()
  }
}
