/**
 * Event streams. Each is a cursor on the log of a run: nothing is queued for a client. Events that it has not read yet
 * stay in the log, and the id of each event is its place there, so a client that was cut off goes on behind the last.
 */
import type { RuntimeEvent } from '../../index.ts'
import type { Caller, HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'

/** Form of a stream, by the header `Accept`. */
export type StreamForm = 'sse' | 'ndjson'

export interface StreamPlan {
  readonly request: Request
  readonly caller: Caller
  readonly form: StreamForm
  /** Name of the log that numbers the events. */
  readonly log: string | undefined
  /** Frames before the first event. */
  readonly before?: readonly string[]
  /** Yields the events. The signal is aborted when nobody reads any more. */
  events(signal: AbortSignal): AsyncIterable<RuntimeEvent<unknown>>
  /** Called when the client has left before the end. */
  left?(): void
}

/** Headers of a stream. `no-transform` and `x-accel-buffering` keep proxies from holding events back. */
const HEADERS = { 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' }
const TYPES = { sse: 'text/event-stream; charset=utf-8', ndjson: 'application/x-ndjson; charset=utf-8' }
const RETRY_MS = 1_000
const encoder = new TextEncoder()

export class Streams {
  readonly #limits: HttpLimits
  /** Functions that end each open stream, by caller. */
  readonly #open = new Map<string, Set<() => void>>()
  readonly #quiet = new Set<() => void>()

  constructor(limits: HttpLimits) {
    this.#limits = limits
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
    const headers = { ...HEADERS, 'content-type': TYPES[plan.form] }
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

  #body({ caller, form, log, before = [], events, left }: StreamPlan): ReadableStream<Uint8Array> {
    const { heartbeatMs, unreadMs } = this.#limits
    const reading = new AbortController()
    const source = events(reading.signal)[Symbol.asyncIterator]()
    const frames = [...(form === 'sse' ? [`retry: ${RETRY_MS}\n\n`] : []), ...before]
    let next: Promise<IteratorResult<RuntimeEvent<unknown>>> | undefined
    let unread: NodeJS.Timeout | undefined
    let isOver = false
    /** Ends the reading; `closes` ends the body too. */
    const end = (closes: () => void) => {
      if (isOver) return
      isOver = true
      clearTimeout(unread)
      reading.abort()
      this.#close(caller.id, endNow)
      closes()
    }
    let endNow = () => {}
    const waitForReader = (controller: ReadableStreamDefaultController) => {
      unread = setTimeout(
        () => end(() => controller.error(new Error(`The client has read nothing for ${unreadMs} ms.`))),
        unreadMs,
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
          clearTimeout(unread)
          let frame = frames.shift()
          if (frame === undefined) {
            next ??= source.next()
            const got = await within(next, heartbeatMs)
            if (isOver) return
            if (got === undefined) frame = form === 'sse' ? ': hb\n\n' : '\n'
            else if (got.done) return end(() => controller.close())
            else frame = frameOf(got.value, log, form)
            if (got) next = undefined
          }
          controller.enqueue(encoder.encode(frame))
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

/** Returns an event as it is sent. */
function frameOf(event: RuntimeEvent<unknown>, log: string | undefined, form: StreamForm): string {
  const id = log === undefined ? undefined : `${log}.${event.seq}`
  if (form === 'ndjson') return `${JSON.stringify({ ...(id !== undefined && { id }), ...event })}\n`
  return sseFrame(event.type, event, id)
}

/** Returns a frame of `text/event-stream`. JSON has no line breaks, so the data is one line. */
export const sseFrame = (type: string, data: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`

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
