/** A log that holds the facts with which a play begins, and keeps nothing of the play. */
import { EntryEncoder } from '../../log/entry-codec.ts'
import { type HostRecord, SEQ_STEP, type Unrecorded } from '../../log/records.ts'
import type { Block, LogState, LogStore, OpenedLog, Position, StoredBlock } from '../../store/log-store.ts'

export class GivenLog implements LogStore {
  state: LogState = 'new'
  readonly #block: StoredBlock
  #position = 0

  /** `at`: time of the facts, in epoch ms. */
  constructor(facts: readonly Unrecorded[], at: number) {
    const entries = facts.map((fact, i) => ({ ...fact, seq: i * SEQ_STEP, at, run: 0 }) as HostRecord)
    const lastSeq = facts.length * SEQ_STEP
    const content = { carried: false, runs: [0], entries: new EntryEncoder().encode(entries) }
    this.#block = { firstSeq: 0, lastSeq, position: 0, incarnation: 0, ...content }
  }

  get bytes(): number {
    return this.#block.entries.byteLength
  }

  async open(): Promise<OpenedLog> {
    this.state = 'open'
    return { incarnation: 1, lastSeq: this.#block.lastSeq, cut: undefined }
  }

  async append(_block: Block): Promise<Position> {
    this.#position += 1
    return this.#position
  }

  async sync(): Promise<void> {}

  async *read(): AsyncGenerator<StoredBlock> {
    yield this.#block
  }

  async dropBefore(): Promise<void> {}

  async close(): Promise<void> {
    this.state = 'closed'
  }
}
