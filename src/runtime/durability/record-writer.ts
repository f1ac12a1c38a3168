/** Writes records of the team into a log that no team has. */
import { EntryEncoder } from '../log/entry-codec.ts'
import { type HostRecord, SEQ_STEP } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { Block } from '../store/log-store.ts'
import type { Fact } from './team-facts.ts'

/** Records that are written together. */
const MOST_RECORDS = 256

export class RecordWriter {
  readonly #append: (block: Block) => Promise<void>
  readonly #encoder = new EntryEncoder()
  readonly #at: number
  #seq: number
  #records: HostRecord[] = []
  #last: Promise<void> = Promise.resolve()

  /**
   * `seq`: number of the first record. `at`: time of all records, in epoch ms. The first one has to be `log.opened`, so
   * that no time passes for the team meanwhile.
   */
  constructor(append: (block: Block) => Promise<void>, seq: number, at: number) {
    this.#append = append
    this.#seq = seq
    this.#at = at
  }

  /** Number of the next record. */
  get next(): number {
    return this.#seq
  }

  log(fact: Fact): void {
    this.#records.push(Object.assign({ ...fact }, { seq: this.#seq, at: this.#at, run: 0 }) as HostRecord)
    this.#seq += SEQ_STEP
    if (this.#records.length >= MOST_RECORDS) this.#write()
  }

  /** Resolves when all records are written. */
  written(): Promise<void> {
    if (this.#records.length > 0) this.#write()
    return this.#last
  }

  #write(): void {
    const records = this.#records
    this.#records = []
    const block = {
      firstSeq: records[0]!.seq,
      lastSeq: lastSeq(records.at(-1)!),
      carried: false,
      runs: [0],
      entries: this.#encoder.encode(records),
    }
    this.#last = this.#last.then(() => this.#append(block))
    this.#last.catch(() => {}) // told to who waits for it
  }
}
