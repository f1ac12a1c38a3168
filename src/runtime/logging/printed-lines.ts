/**
 * Makes log lines of what an agent prints, within bounds: an agent that prints without end, or a line without end, must
 * cost the host neither memory nor time. Omitted text is counted and reported.
 */
import { jsonIn } from '../../mailbox/codec.ts'

/** Maximum characters of a log line, and of its fields as JSON. */
const LONGEST_AGENT_LINE = 65_536

/** Only a plain object is accepted: other JSON could be spread into a million fields. */
export function fieldsIn(data: string | undefined): object {
  if (data === undefined) return {}
  if (data.length > LONGEST_AGENT_LINE)
    return { leftOut: `${data.length} characters of fields; at most ${LONGEST_AGENT_LINE} are kept` }
  const fields = jsonIn(data)
  return typeof fields === 'object' && fields !== null && !Array.isArray(fields) ? fields : {}
}

export function wordsIn(text: string): string {
  return text.length > LONGEST_AGENT_LINE
    ? `${text.slice(0, LONGEST_AGENT_LINE)} [${text.length - LONGEST_AGENT_LINE} more]`
    : text
}

/** Maximum characters of one line; the rest of a longer one is omitted. */
const LONGEST_LINE = 16_384
/** Maximum of one thread, in a second. */
const CHARACTERS = 1_048_576
const LINES = 10_000
const SECOND_MS = 1_000

export interface PrintListener {
  line(text: string): void
  /** Called when the agent prints too fast: lines are omitted until the second is over. */
  flooded(): void
  /** Called with the number of omitted lines, before the next line that is kept, or at the end. */
  leftOut(lines: number): void
}

export class PrintedLines {
  readonly #listener: PrintListener
  readonly #now: () => number
  #rest = ''
  #cut = 0
  #secondFrom = Number.NEGATIVE_INFINITY
  #characters = 0
  #lines = 0
  #leftOut = 0

  constructor(listener: PrintListener, now: () => number) {
    this.#listener = listener
    this.#now = now
  }

  write(text: string): void {
    let from = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#keep(text, from, end)
      this.#endLine()
      from = end + 1
    }
    this.#keep(text, from, text.length)
  }

  /** Ends the output. Text without a line end counts as a line. */
  end(): void {
    if (this.#rest !== '') this.#endLine()
    this.#tellLeftOut()
  }

  #keep(text: string, from: number, to: number): void {
    const room = LONGEST_LINE - this.#rest.length
    this.#rest += text.slice(from, Math.min(to, from + room))
    this.#cut += Math.max(0, to - from - room)
  }

  #endLine(): void {
    const line = this.#cut === 0 ? this.#rest : `${this.#rest} ... (${this.#cut} characters left out)`
    this.#rest = ''
    this.#cut = 0
    this.#renew()
    this.#lines += 1
    this.#characters += line.length
    if (this.#lines <= LINES && this.#characters <= CHARACTERS) this.#listener.line(line)
    else {
      if (this.#leftOut === 0) this.#listener.flooded()
      this.#leftOut += 1
    }
  }

  #renew(): void {
    const now = this.#now()
    if (now - this.#secondFrom < SECOND_MS) return
    this.#secondFrom = now
    this.#lines = 0
    this.#characters = 0
    this.#tellLeftOut()
  }

  #tellLeftOut(): void {
    if (this.#leftOut > 0) this.#listener.leftOut(this.#leftOut)
    this.#leftOut = 0
  }
}
