/** An answer in pieces, as its writer gives it. `emit` cannot wait, so the verbs after it do while the reader is far behind. */
import { CHUNK, STREAM_WAIT, STREAMS } from '../../mailbox/frame.ts'
import { checkText } from '../definition/checks.ts'
import { STREAM_CREDIT } from './stream.ts'
import type { TurnHost, TurnStart } from './turn-host.ts'

export class Emitter {
  readonly #loop: TurnHost
  readonly #start: TurnStart
  /** Pieces that the reader has not read; counted where somebody reads. */
  #unread = 0
  #closed = false
  #waiting: (() => void)[] = []

  constructor(loop: TurnHost, start: TurnStart) {
    this.#loop = loop
    this.#start = start
  }

  emit(chunk: string, step: number): void {
    checkText(chunk, 'chunk')
    const { outbox } = this.#loop
    const { run, turn, caller, correlation, streams, replay, id } = this.#start
    const fields = outbox.begin(CHUNK, run, turn, step, chunk, undefined)
    fields.recipient = caller
    fields.correlation = correlation
    if (streams) fields.flags = STREAMS
    const bytes = outbox.checkedSize()
    if (replay?.match(outbox.encode(bytes))) return
    outbox.writeAbout(id)
    if (streams) this.#unread += 1
  }

  /** How many verbs wait for the reader. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Whether the next verb has to wait. */
  get behind(): boolean {
    return this.#unread > STREAM_CREDIT && !this.#closed
  }

  /** The reader has read that many pieces more. */
  read(count: number): void {
    this.#unread = Math.max(0, this.#unread - count)
    if (!this.behind) this.#release()
  }

  async gate(): Promise<void> {
    while (this.behind) {
      if (this.#waiting.length === 0) this.#loop.writeControl(STREAM_WAIT, this.#start, 0, 1)
      this.#loop.link.flush()
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
        this.#loop.mayPark(this.#start)
      })
    }
  }

  /** The turn has ended or is to stop: nobody waits for the reader any more. */
  close(): void {
    this.#closed = true
    this.#release()
  }

  #release(): void {
    const waiting = this.#waiting
    if (waiting.length > 0) this.#loop.writeControl(STREAM_WAIT, this.#start, 0, 0)
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}
