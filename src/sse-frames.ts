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
  /** Bytes in `#parts`. */
  #pending = 0
  /** Begin of the last line, in `#parts` and in their bytes. */
  #line = { part: 0, byte: 0 }
  #afterCR = false
  #hasData = false
  #empty = 0

  /** Bytes of the event that is not over yet. */
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
