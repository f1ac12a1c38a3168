/**
 * Writes an answer in chunks. `emit` cannot wait, so later verbs wait while the reader is far behind (back-pressure).
 */
import { CHUNK, STREAM_WAIT, STREAMS } from '../../mailbox/frame.ts'
import { checkText } from '../definition/checks.ts'
import type { Link } from '../transport/link.ts'
import type { Outbox } from '../transport/outbox.ts'
import { STREAM_CREDIT } from './stream.ts'
import type { TurnStart } from './turn-start.ts'

export interface EmitterNeeds {
  readonly outbox: Outbox
  readonly link: Link
  /** Notes that the turn may only wait for others now. It parks once the loop is idle, if its permit is wanted. */
  mayPark(start: TurnStart): void
  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void
}

export class Emitter {
  readonly #needs: EmitterNeeds
  readonly #start: TurnStart
  /** Chunks that the reader has not read; counted only if the caller reads the stream. */
  #unread = 0
  #closed = false
  #waiting: (() => void)[] = []

  constructor(needs: EmitterNeeds, start: TurnStart) {
    this.#needs = needs
    this.#start = start
  }

  emit(chunk: string, step: number): void {
    checkText(chunk, 'chunk')
    const { outbox } = this.#needs
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

  /** Number of verbs that wait for the reader. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** True if the next verb must wait. */
  get behind(): boolean {
    return this.#unread > STREAM_CREDIT && !this.#closed
  }

  /** Notes that the reader has read `count` more chunks. */
  read(count: number): void {
    this.#unread = Math.max(0, this.#unread - count)
    if (!this.behind) this.#release()
  }

  async gate(): Promise<void> {
    while (this.behind) {
      if (this.#waiting.length === 0) this.#needs.writeControl(STREAM_WAIT, this.#start, 0, 1)
      this.#needs.link.flush()
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
        this.#needs.mayPark(this.#start)
      })
    }
  }

  /** Releases all waiting verbs, because the turn has ended or must stop. */
  close(): void {
    this.#closed = true
    this.#release()
  }

  #release(): void {
    const waiting = this.#waiting
    if (waiting.length > 0) this.#needs.writeControl(STREAM_WAIT, this.#start, 0, 0)
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}
