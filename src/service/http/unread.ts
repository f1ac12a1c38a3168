/**
 * Bounds answers that clients have not read yet. Each piece of an answer has `limits.unreadMs` to be read, and all that
 * wait together have `limits.unreadBytes`. A slow client gets on piece by piece; one that reads nothing is cut.
 */
import { type Timer, timerBehind } from '../../clock.ts'
import { cutConnection, onClosed } from './connections.ts'
import type { HttpLimits } from './options.ts'

/** Gives the pieces of an answer. */
export interface Source {
  /** Returns the next piece, or undefined at the end. */
  next(): Uint8Array | undefined | Promise<Uint8Array | undefined>
  /** Bytes that are in memory until the piece that was returned last is read. */
  held(): number
  /** Called once when nobody reads any more: at the end, or before it if the client has left or was cut. */
  over(isAtEnd: boolean): void
}

/** An answer that waits for its client. */
interface Waiting {
  bytes: number
  readonly timer: Timer
}

interface Sent {
  readonly body: ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer> | null
  readonly bytes?: number
}

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

  /** Bytes that wait for their clients now. */
  get bytes(): number {
    return this.#bytes
  }

  /** Number of answers that were cut. */
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
  async bodyOf(request: Request, response: Response): Promise<Sent> {
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
