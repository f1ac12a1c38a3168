/**
 * Event streams. Each is a cursor on the log of a run: nothing is queued for a client. Events that it has not read yet
 * stay in the log, and the id of each event is its place there, so a client that was cut off goes on behind the last.
 */
import { type Timer, timerBehind } from '../../clock.ts'
import { cutConnection } from './connections.ts'
import type { Caller, HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'

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
  readonly #failed: (error: unknown) => void
  /** Functions that end each open stream, by caller. */
  readonly #open = new Map<string, Set<() => void>>()
  readonly #quiet = new Set<() => void>()

  /** `failed`: told of what has kept a stream from going on. */
  constructor(limits: HttpLimits, failed: (error: unknown) => void) {
    this.#limits = limits
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
    const { heartbeatMs, unreadMs } = this.#limits
    const reading = new AbortController()
    const source = frames(reading.signal)[Symbol.asyncIterator]()
    let next: Promise<IteratorResult<string>> | undefined
    let unread: Timer | undefined
    let isOver = false
    /** Ends the reading; `closes` ends the body too. */
    const end = (closes: () => void) => {
      if (isOver) return
      isOver = true
      unread?.cancel()
      reading.abort()
      this.#close(caller.id, endNow)
      closes()
    }
    let endNow = () => {}
    const waitForReader = (controller: ReadableStreamDefaultController) => {
      unread = timerBehind(unreadMs, () =>
        end(() => {
          if (!cutConnection(request)) controller.error(new Error(`The client has read nothing for ${unreadMs} ms.`))
        }),
      )
    }
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          endNow = () => end(() => controller.close())
          this.#add(caller.id, endNow)
          waitForReader(controller)
        },
        pull: async (controller) => {
          unread?.cancel()
          next ??= source.next()
          const got = await within(next, heartbeatMs).catch((error: unknown) => {
            this.#failed(error)
            return { done: true as const, value: undefined }
          })
          if (isOver) return
          if (got) next = undefined
          if (got?.done) return end(() => controller.close())
          controller.enqueue(encoder.encode(got?.value ?? HEARTBEATS[form]))
          waitForReader(controller)
        },
        cancel: () => {
          end(() => {})
          left?.()
        },
      },
      { highWaterMark: 0 },
    )
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

/** Resolves to undefined after that many ms. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
