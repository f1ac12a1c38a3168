/** An answer that arrives in pieces. The reader tells the writer how much it has read, so that the writer can wait. */
import type { AgentMessage } from '../../mailbox/message.ts'
import type { Streamed } from './replay.ts'

/** Pieces that may be under way before the writer's next verb waits. */
export const STREAM_CREDIT = 64

/** A turn that writes a stream of its own. */
export interface Relay {
  /** Whether its reader is far behind, and how it waits for it. */
  readonly breathless: boolean
  breathe(): Promise<void>
}

export class ResponseStream implements AsyncIterable<string> {
  readonly #response: Promise<AgentMessage>
  readonly #relay: Relay
  readonly #read: (count: number) => void
  readonly #leave: () => void
  #chunks: string[] = []
  #wake: (() => void) | undefined
  #over = false
  #error: unknown
  #unreported = 0
  #iterated = false
  /** Pieces count as read when they come. */
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

  /** The whole answer. Who waits for it without reading the pieces does not hold the writer up. */
  get response(): Promise<AgentMessage> {
    if (!this.#iterated && !this.#unheld) {
      this.#unheld = true
      for (const _ of this.#chunks) this.#report()
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

  /** What had come to an earlier attempt comes again; what that one had reported is not reported twice. */
  resume({ pieces, reported }: Streamed): void {
    this.#unreported = -reported
    for (const piece of pieces) this.push(piece)
  }

  #end(error: unknown): void {
    this.#over = true
    this.#error = error
    this.#wake?.()
  }

  /** Ends with the answer; throws what the request failed with. Leaving the loop cancels the request. */
  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    this.#iterated = true
    try {
      for (;;) {
        // Who passes on what it reads is as slow as its own reader, and so is who it reads from.
        while (this.#relay.breathless) await this.#relay.breathe()
        const chunk = this.#chunks.shift()
        if (chunk !== undefined) {
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
