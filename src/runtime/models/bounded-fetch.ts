/**
 * The `fetch` that a provider's client is given. It bounds what a server can make this process hold and read: the decompressed
 * bytes of a body, of one event, and of all that carries no data. It passes a stream on as one whole event at a time, without
 * blank lines and comments, and lets the event loop go round in between: the client's own reader takes quadratic time for long
 * events and for long runs of blank lines. It follows a redirect to the same origin alone: any other would take the prompt along.
 */
import { setImmediate } from 'node:timers/promises'
import { SseFrames } from './sse-frames.ts'

/** In bytes, after decompression. */
export interface AnswerLimits {
  /** Of a body in one piece, which is read at once; of an error too. 16 MiB. */
  readonly body: number
  /** Of a whole stream of events. 128 MiB. */
  readonly stream: number
  /** Of one event of a stream. 16 MiB. */
  readonly event: number
  /** Of blank lines and comments in one stream. 1 MiB. */
  readonly empty: number
  /** Events in one stream. 1,000,000. */
  readonly events: number
}

const MIB = 2 ** 20
const ANSWER_LIMITS: AnswerLimits = {
  body: 16 * MIB,
  stream: 128 * MIB,
  event: 16 * MIB,
  empty: MIB,
  events: 1e6,
}

const MOST_REDIRECTS = 3
/** How much is read before timers and other sockets have their turn. */
const SLICE_BYTES = 64 * 1_024
const SLICE_EVENTS = 512

/** Why an answer is not read on: `what` goes on after 'Model "x" of y'. */
export class AnswerRefusedError extends Error {
  readonly what: string
  readonly advice: string
  readonly reason: 'invalid_answer' | 'not_found'

  constructor(what: string, advice: string, reason: AnswerRefusedError['reason'] = 'invalid_answer') {
    super(`${what}. ${advice}`)
    this.reason = reason
    this.what = what
    this.advice = advice
  }
}

/** The bounded form of `fetch`. It rejects with `AnswerRefusedError`, and so does reading the body of what it resolves to. */
export function boundedFetch(limits: AnswerLimits = ANSWER_LIMITS): typeof fetch {
  return async (input, init) => bounded(await withinOrigin(input, init), limits)
}

async function withinOrigin(input: string | URL | Request, init: RequestInit | undefined): Promise<Response> {
  const origin = new URL(input instanceof Request ? input.url : input).origin
  let from = input
  for (let redirects = 0; ; redirects += 1) {
    const response = await fetch(from, { ...init, redirect: 'manual' })
    const location = response.headers.get('location')
    if (response.status < 300 || response.status > 399 || location === null) return response
    await response.body?.cancel()
    const target = URL.canParse(location, response.url) ? new URL(location, response.url) : undefined
    if (target?.origin !== origin)
      throw new AnswerRefusedError(
        `sends its callers elsewhere (${response.status} to ${target?.host ?? 'what is no address'})`,
        'Neither key nor prompt was sent there. Set baseURL to the address that is meant.',
        'not_found',
      )
    if (response.status !== 307 && response.status !== 308)
      throw new AnswerRefusedError(
        `sends its callers to another path in a way that loses the request (${response.status})`,
        'Set baseURL to the address that is meant.',
        'not_found',
      )
    if (redirects === MOST_REDIRECTS)
      throw new AnswerRefusedError(`redirects more than ${MOST_REDIRECTS} times`, 'Check its baseURL.', 'not_found')
    from = target
  }
}

function bounded(response: Response, limits: AnswerLimits): Response {
  const { body, headers, status, statusText, url } = response
  if (!body) return response
  const isStream = response.ok && headers.get('content-type')?.toLowerCase().startsWith('text/event-stream')
  const chunks = isStream ? events(body, limits) : counted(body, limits.body, 'a body')
  const copy = new Response(ReadableStream.from(chunks), { headers, status, statusText })
  // the constructor knows no url, and callers look at it
  return Object.defineProperty(copy, 'url', { value: url })
}

/** Yields the chunks as they are, and throws when there are more bytes than that. */
async function* counted(body: ReadableStream<Uint8Array>, limit: number, of: string): AsyncGenerator<Uint8Array> {
  let size = 0
  let sincePause = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > limit) throw tooLarge(of, limit)
    yield chunk
    sincePause += chunk.byteLength
    if (sincePause < SLICE_BYTES) continue
    sincePause = 0
    await setImmediate() // a body that is here already would keep timers and other sockets waiting
  }
}

/** Yields one whole event at a time. */
async function* events(body: ReadableStream<Uint8Array>, limits: AnswerLimits): AsyncGenerator<Uint8Array> {
  const frames = new SseFrames()
  let count = 0
  for await (const chunk of counted(body, limits.stream, 'a stream')) {
    for (const event of frames.take(chunk)) {
      if (event.byteLength > limits.event) throw tooLarge('an event', limits.event)
      yield event
      count += 1
      if (count > limits.events)
        throw new AnswerRefusedError(`sends a stream of more than ${limits.events} events`, ADVICE)
      if (count % SLICE_EVENTS === 0) await setImmediate()
    }
    if (frames.pending > limits.event) throw tooLarge('an event', limits.event)
    if (frames.empty > limits.empty) throw tooLarge('a stream without data', limits.empty)
  }
  yield* frames.end()
}

const ADVICE = 'It was not read on. Look at what stands at its baseURL; ask for less at once if that is right.'

const tooLarge = (of: string, bytes: number) =>
  new AnswerRefusedError(`sends ${of} of more than ${bytes / MIB} MiB`, ADVICE)
