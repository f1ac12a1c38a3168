/**
 * The parts whose bytes a durable log has, and where they stand. They belong to the team: several runs, conversations
 * and dead letters may refer to the same bytes.
 */
import { hashesInMessages } from '../../actors/definition/content.ts'
import { type Conversation, historyOf } from '../../actors/model/context/conversation.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import { hashesOf } from '../../mailbox/stored-parts.ts'
import { type PartEntry, partBytes } from '../log/part-entries.ts'
import { whileMoved } from '../log/read-entries.ts'
import type { LogStore, Position } from '../store/log-store.ts'
import type { LoggedRun } from './run-index.ts'

interface Place {
  readonly seq: number
  readonly size: number
  /** Undefined as long as the block is not written. */
  readonly position: Position | undefined
}

/** A part as a checkpoint has it: its hash, and what the index knows of it. */
export type PartRow = readonly [hash: string, seq: number, size: number, position: Position]

/** Owners of references to parts. */
export interface Referrers {
  readonly index: { values(): Iterable<Pick<LoggedRun, 'parts'>> }
  readonly conversations: Iterable<{ readonly conversation: Conversation }>
  readonly letters: Iterable<{ readonly letter: DeadLetter }>
}

export class PartIndex {
  readonly #places = new Map<string, Place>()
  #unwritten = 0
  /** Hashes of parts that a record refers to which is not written yet. */
  readonly #asked = new Set<string>()

  /** Bytes of all parts. */
  get bytes(): number {
    let bytes = 0
    for (const { size } of this.#places.values()) bytes += size
    return bytes
  }

  /** The parts that are written. */
  rows(): PartRow[] {
    const rows: PartRow[] = []
    for (const [hash, { seq, size, position }] of this.#places)
      if (position !== undefined) rows.push([hash, seq, size, position])
    return rows
  }

  /** Adds the parts of a checkpoint. */
  restore(rows: readonly PartRow[]): void {
    for (const [hash, seq, size, position] of rows) this.#places.set(hash, { seq, size, position })
  }

  /** Notes that the log has nothing before that position any more. */
  dropped(before: Position): void {
    for (const [hash, { position }] of this.#places)
      if (position !== undefined && position < before) this.#places.delete(hash)
  }

  /** Checks for a part, for who is about to refer to it: it stays until `referred`. */
  has(hash: string): boolean {
    if (!this.#places.has(hash)) return false
    this.#asked.add(hash)
    return true
  }

  /** Notes that the record which refers to a part is among those that the index of runs knows. */
  referred(hash: string): void {
    this.#asked.delete(hash)
  }

  /** True if there are parts that are not written yet. */
  get areComing(): boolean {
    return this.#unwritten > 0
  }

  /** Notes a part that will be written. */
  see({ hash, seq, size }: PartEntry): void {
    this.#places.set(hash, { seq, size, position: undefined })
    this.#unwritten += 1
  }

  /** Notes where a block stands that has these parts. */
  at(position: Position, parts: Iterable<PartEntry>): void {
    for (const { hash, seq, size } of parts) {
      const place = this.#places.get(hash)
      if (place && place.position === undefined) this.#unwritten -= 1
      this.#places.set(hash, { seq, size, position })
    }
  }

  /**
   * Returns the numbers of the entries of the parts that something refers to. The log forgets the others: who refers to
   * them later writes them again.
   */
  needed(referrers: Referrers): Set<number> {
    const needed = hashesIn(referrers)
    for (const [hash, { position }] of this.#places)
      if (!needed.has(hash) && !this.#asked.has(hash) && position !== undefined) this.#places.delete(hash)
    return new Set(Array.from(this.#places.values(), ({ seq }) => seq))
  }

  /** Reads parts from the log. Those that it does not have are left out. */
  async read(store: LogStore, hashes: Iterable<string>): Promise<Map<string, Uint8Array>> {
    const found = new Map<string, Uint8Array>()
    for (const hash of hashes) {
      const bytes = found.has(hash) ? undefined : await whileMoved(() => this.#readOne(store, hash))
      if (bytes) found.set(hash, bytes)
    }
    return found
  }

  async #readOne(store: LogStore, hash: string): Promise<Uint8Array | undefined> {
    const from = this.#places.get(hash)?.position
    if (from === undefined) return undefined
    for await (const { entries } of store.read({ from })) return partBytes(entries, hash)
    return undefined
  }
}

/** Returns the hashes of all parts that something refers to. */
export function hashesIn({ index, conversations, letters }: Referrers): Set<string> {
  const hashes = new Set<string>()
  for (const { parts } of index.values()) for (const hash of parts) hashes.add(hash)
  for (const { conversation } of conversations)
    for (const hash of hashesInMessages(historyOf(conversation))) hashes.add(hash)
  for (const { letter } of letters) for (const hash of hashesOf(letter.message.parts ?? [])) hashes.add(hash)
  return hashes
}
