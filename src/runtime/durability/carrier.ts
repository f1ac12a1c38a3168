/** Gathers encoded entries of old parts of a log for a block that has them again, under their numbers. */
import type { Block } from '../store/log-store.ts'

/** Bytes from which on the gathered entries are written. */
export const CARRIED_BYTES = 2 ** 18

export class Carrier {
  readonly #runs = new Set<number>()
  #entries: Uint8Array[] = []
  #first = Number.POSITIVE_INFINITY
  #last = 0
  bytes = 0

  add(run: number, seq: number, entry: Uint8Array): void {
    this.#runs.add(run)
    this.#entries.push(entry)
    this.#first = Math.min(this.#first, seq)
    this.#last = Math.max(this.#last, seq)
    this.bytes += entry.byteLength
  }

  take(): Block {
    const entries = Buffer.concat(this.#entries)
    const block = { firstSeq: this.#first, lastSeq: this.#last, carried: true, runs: [...this.#runs], entries }
    this.#runs.clear()
    Object.assign(this, { bytes: 0 })
    this.#entries = []
    this.#first = Number.POSITIVE_INFINITY
    this.#last = 0
    return block
  }
}
