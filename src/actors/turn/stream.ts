/**
 * A response that arrives in chunks. The reader reports to the writer how much it has read, so that the writer can
 * wait.
 */
import type { AgentMessage } from '../../mailbox/message.ts'

/** Maximum number of unread chunks before the writer's next verb waits. */
export const STREAM_CREDIT = 64

/** A turn that writes a stream of its own. */
export interface Relay {
  /** True if the reader of that stream is far behind. `breathe` waits for it. */
  readonly breathless: boolean
  breathe(): Promise<void>
}

export class ResponseStream implements AsyncIterable<string> {
  readonly #response: Promise<AgentMessage>
  readonly #relay: Relay
  readonly #read: (count: number) => void
  readonly #leave: () => void
  #chunks: string[] = []
  /** Number of those that are read: a list of thousands is not moved with each. */
  #taken = 0
  #wake: (() => void) | undefined
  #over = false
  #error: unknown
  #unreported = 0
  #iterated = false
  /** True if chunks count as read when they arrive. */
  #unheld = false

  constructor(response: Promise<AgentMessage>, relay: Relay, read: (count: number) => void, leave: () => void) {
    this.#response = response
    this.#relay = relay
    this.#read = read
    this.#leave = leave
    response.then(
      () => this.#end(undefined),
      (error: unknown) => this.#end(error),
    )
  }

  /** The whole answer. A caller that awaits it without reading the chunks does not block the writer. */
  get response(): Promise<AgentMessage> {
    if (!this.#iterated && !this.#unheld) {
      this.#unheld = true
      for (let n = this.#taken; n < this.#chunks.length; n++) this.#report()
    }
    return this.#response
  }

  push(chunk: string): void {
    this.#chunks.push(chunk)
    if (this.#unheld) this.#report()
    this.#wake?.()
  }

  #report(): void {
    if (++this.#unreported < STREAM_CREDIT / 4) return
    this.#read(this.#unreported)
    this.#unreported = 0
  }

  /** Notes how many of its chunks an earlier attempt had reported as read: they are not reported twice. */
  reportedBefore(count: number): void {
    this.#unreported = -count
  }

  #end(error: unknown): void {
    this.#over = true
    this.#error = error
    this.#wake?.()
  }

  /**
   * Yields the chunks until the answer is complete; throws the error of the request. Leaving the loop cancels the
   * request.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    this.#iterated = true
    try {
      for (;;) {
        // A turn that relays a stream reads only as fast as its own reader, so back-pressure reaches the original
        // writer.
        while (this.#relay.breathless) await this.#relay.breathe()
        const chunk = this.#chunks[this.#taken]
        if (chunk !== undefined) {
          this.#taken += 1
          if (this.#taken === this.#chunks.length) {
            this.#chunks = []
            this.#taken = 0
          }
          if (!this.#unheld) this.#report()
          yield chunk
        } else if (this.#over) {
          if (this.#error !== undefined) throw this.#error
          return
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
          this.#wake = undefined
        }
      }
    } finally {
      if (!this.#over) this.#leave()
    }
  }
}
