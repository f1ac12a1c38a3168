import { nextTurn } from './timers.ts'
import { JsonValues, valuesIn } from './values.ts'

/**
 * Cuts a stream of server-sent events into whole events, in time linear in its bytes. Comments and blank lines that end
 * no event are left out and counted, and so are events without data. Source: the WHATWG HTML standard, 9.2.5 and 9.2.6,
 * "Parsing an event stream".
 */
const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a
const END_OF_LINE = Uint8Array.of(LF)
const DATA = Buffer.from('data')

export class SseFrames {
  /** Bytes of the event that is not complete: its lines, each with one LF, and the parts of its last line. */
  #parts: Uint8Array[] = []
  #pending = 0
  /** Begin of the last line, in `#parts` and in their bytes. */
  #line = { part: 0, byte: 0 }
  #afterCR = false
  #hasData = false
  #empty = 0

  get pending(): number {
    return this.#pending
  }

  /** Bytes so far that carry no data: comments, blank lines that end no event, events without data. */
  get empty(): number {
    return this.#empty
  }

  /** The events that are whole with this chunk, each with its blank line at the end. */
  *take(chunk: Uint8Array): Generator<Uint8Array> {
    let from = 0
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at]
      if (byte !== LF && byte !== CR) {
        this.#afterCR = false
        continue
      }
      const isSecondOfPair = byte === LF && this.#afterCR
      this.#afterCR = byte === CR
      if (!isSecondOfPair) {
        this.#add(chunk.subarray(from, at))
        const event = this.#endLine()
        if (event) yield event
      }
      from = at + 1
    }
    this.#add(chunk.subarray(from))
  }

  /** Yields the rest of a finished stream: an event without its blank line, which some servers leave out. */
  *end(): Generator<Uint8Array> {
    const event = this.#endLine() ?? this.#endLine()
    if (event) yield event
  }

  #add(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    this.#parts.push(bytes)
    this.#pending += bytes.length
  }

  /** The event, if the line that ends here is the blank one after it. */
  #endLine(): Uint8Array | undefined {
    const { part, byte } = this.#line
    const length = this.#pending - byte
    if (length === 0 || this.#parts[part]?.[0] === COLON) {
      this.#empty += length + 1
      this.#parts.length = part
      this.#pending = byte
      return length === 0 && byte > 0 ? this.#event() : undefined
    }
    if (this.#startsWithData()) this.#hasData = true
    this.#add(END_OF_LINE)
    this.#line = { part: this.#parts.length, byte: this.#pending }
    return undefined
  }

  /** Checks whether the line that ends here is a field `data`. The end of a chunk can cut its name in two. */
  #startsWithData(): boolean {
    const head = Buffer.concat(this.#parts.slice(this.#line.part, this.#line.part + DATA.length))
    return head.subarray(0, DATA.length).equals(DATA)
  }

  /** undefined: it has no data, so no reader acts on it. */
  #event(): Uint8Array | undefined {
    this.#add(END_OF_LINE)
    const event = this.#hasData ? Buffer.concat(this.#parts) : undefined
    this.#empty += event ? -1 : this.#pending - 1 // the blank line is counted, and is part of an event with data
    this.#parts = []
    this.#pending = 0
    this.#line = { part: 0, byte: 0 }
    this.#hasData = false
    return event
  }
}

/*
 * The answer of an HTTP server, with bounds on what it can make this process hold and read: the decompressed bytes of a
 * body, of one event, and of all that carries no data; and on the values that whoever parses it would make. A stream is
 * passed on as one whole event at a time, without blank lines and comments, and the event loop goes round in between:
 * readers of events take quadratic time for long events and for long runs of blank lines.
 */

/** In bytes, after decompression. */
export interface AnswerLimits {
  /** Bytes of a body in one piece, which is read at once, or of an error. 16 MiB. */
  readonly body: number
  /** Bytes of a whole stream of events. 128 MiB. */
  readonly stream: number
  /** Bytes of one event of a stream. 16 MiB. */
  readonly event: number
  /** Bytes of blank lines and comments in one stream. 1 MiB. */
  readonly empty: number
  /** Events in one stream. 1,000,000. */
  readonly events: number
  /** Values in the JSON of a body or of one event. No bound where it is left out. */
  readonly values?: number
}

export const MIB = 2 ** 20
/** JSON values in what a server of tools says at once: a million of them are parsed in a tenth of a second. */
export const MOST_TOOL_VALUES = 1_048_576
export const ANSWER_LIMITS: AnswerLimits = {
  body: 16 * MIB,
  stream: 128 * MIB,
  event: 16 * MIB,
  empty: MIB,
  events: 1e6,
}

/** How much is read before timers and other sockets have their turn. */
const SLICE_BYTES = 64 * 1_024
const SLICE_EVENTS = 512

/** Makes the error. `what` continues after the server's name: 'sends a body of more than 16 MiB'. */
export type Refuse = (what: string) => Error

export function isEventStream({ ok, headers }: Response): boolean {
  return ok && (headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') ?? false)
}

/** Reading the body of what this returns throws what `refuse` makes, once more comes than that. */
export function boundedAnswer(
  response: Response,
  refuse: Refuse,
  { limits = ANSWER_LIMITS, isStream = isEventStream(response) }: { limits?: AnswerLimits; isStream?: boolean } = {},
): Response {
  const { body, headers, status, statusText, url } = response
  if (!body) return response
  const chunks = isStream ? events(body, limits, refuse) : wholeBody(body, limits, refuse)
  const copy = new Response(ReadableStream.from(chunks), { headers, status, statusText })
  // the constructor knows no url, and callers look at it
  return Object.defineProperty(copy, 'url', { value: url })
}

/** Yields the chunks as they are, and throws when there are more bytes than that. */
async function* counted(
  body: ReadableStream<Uint8Array>,
  limit: number,
  of: string,
  refuse: Refuse,
): AsyncGenerator<Uint8Array> {
  let size = 0
  let sincePause = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > limit) throw refuse(tooLarge(of, limit))
    yield chunk
    sincePause += chunk.byteLength
    if (sincePause < SLICE_BYTES) continue
    sincePause = 0
    await nextTurn() // a body that is here already would keep timers and other sockets waiting
  }
}

async function* wholeBody(
  body: ReadableStream<Uint8Array>,
  { body: limit, values: most = Number.POSITIVE_INFINITY }: AnswerLimits,
  refuse: Refuse,
): AsyncGenerator<Uint8Array> {
  const values = new JsonValues()
  for await (const chunk of counted(body, limit, 'a body', refuse)) {
    if (most < Number.POSITIVE_INFINITY) values.take(chunk)
    if (values.count > most) throw refuse(tooMany('a body', most))
    yield chunk
  }
}

async function* events(
  body: ReadableStream<Uint8Array>,
  limits: AnswerLimits,
  refuse: Refuse,
): AsyncGenerator<Uint8Array> {
  const frames = new SseFrames()
  let count = 0
  for await (const chunk of counted(body, limits.stream, 'a stream', refuse)) {
    for (const event of frames.take(chunk)) {
      if (event.byteLength > limits.event) throw refuse(tooLarge('an event', limits.event))
      checkValues(event, limits, refuse)
      yield event
      count += 1
      if (count > limits.events) throw refuse(`sends a stream of more than ${limits.events} events`)
      if (count % SLICE_EVENTS === 0) await nextTurn()
    }
    if (frames.pending > limits.event) throw refuse(tooLarge('an event', limits.event))
    if (frames.empty > limits.empty) throw refuse(tooLarge('a stream without data', limits.empty))
  }
  for (const event of frames.end()) {
    checkValues(event, limits, refuse)
    yield event
  }
}

function checkValues(
  event: Uint8Array,
  { values: most = Number.POSITIVE_INFINITY }: AnswerLimits,
  refuse: Refuse,
): void {
  if (event.byteLength <= most) return // each value has a byte at least
  if (valuesIn(event) > most) throw refuse(tooMany('an event', most))
}

/** How it is said that a server sends too much. */
export const tooLarge = (of: string, bytes: number): string => `sends ${of} of more than ${bytes / MIB} MiB`

export const tooMany = (of: string, values: number): string => `sends ${of} of more than ${values} JSON values`

/** Cuts what comes in chunks into lines, in time linear in its bytes however small the chunks are. */
export class Lines {
  #parts: Uint8Array[] = []
  #pending = 0

  get pending(): number {
    return this.#pending
  }

  /** The lines that are whole with this chunk, without their ends. */
  *take(chunk: Uint8Array): Generator<Buffer> {
    let from = 0
    for (let at = chunk.indexOf(LF); at !== -1; at = chunk.indexOf(LF, from)) {
      this.#add(chunk.subarray(from, at))
      from = at + 1
      yield this.#line()
    }
    this.#add(chunk.subarray(from))
  }

  drop(): void {
    this.#parts = []
    this.#pending = 0
  }

  #add(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    this.#parts.push(bytes)
    this.#pending += bytes.length
  }

  #line(): Buffer {
    const line = Buffer.concat(this.#parts)
    this.drop()
    return line
  }
}
