/**
 * The memory that the frames of a run are copied into: chunks that grow to 1 MiB, filled one after the other. Memory that
 * is touched for the first time costs more than the copy, and so does its collection. So a chunk whose frames the log has
 * given up is filled again, if nobody else looks there.
 */
import { allocate, type Memory, renewed } from '../../mailbox/memory.ts'

const SMALLEST = 1 << 14
const LARGEST = 1 << 20
const MOST_SPARE = 16

interface Chunk {
  readonly memory: Memory
  /** Entries of the log that stand in it. */
  entries: number
}

export class LogChunks {
  /** Oldest first. The last one is being filled. */
  readonly #filled: Chunk[] = []
  /** No entry stands there any more. */
  #given: Memory[] = []
  readonly #spare: Memory[] = []
  #bytes = SMALLEST
  #end = 0

  /** Copies bytes behind those before them; returns the memory where they are, up to `end`. */
  copy(from: Memory, start: number, end: number): Memory {
    const bytes = end - start
    let chunk = this.#filled[this.#filled.length - 1]
    if (!chunk || this.#end + bytes > chunk.memory.u8.length) chunk = this.#next(bytes)
    chunk.entries += 1
    chunk.memory.u8.set(from.u8.subarray(start, end), this.#end)
    this.#end += bytes
    return chunk.memory
  }

  /** Where the last copy ends. */
  get end(): number {
    return this.#end
  }

  #next(bytes: number): Chunk {
    const spare = this.#bytes === LARGEST && bytes <= LARGEST ? this.#spare.pop() : undefined
    const memory = spare ? renewed(spare) : allocate(Math.max(this.#bytes, bytes))
    const chunk: Chunk = { memory, entries: 0 }
    this.#filled.push(chunk)
    this.#bytes = Math.min(this.#bytes * 2, LARGEST)
    this.#end = 0
    return chunk
  }

  /** The oldest entry with frames is gone from the log; its memory may be a chunk or its own. */
  giveUp(memory: Memory): void {
    const oldest = this.#filled[0]
    if (oldest?.memory !== memory) return
    oldest.entries -= 1
    while (this.#filled.length > 1 && this.#filled[0]!.entries === 0) this.#given.push(this.#filled.shift()!.memory)
  }

  /** What was given up can be filled again, but for what is `held`; that is left to the collector. */
  reuse(held: () => ReadonlySet<Memory>): void {
    if (this.#given.length === 0) return
    const inUse = held()
    for (const memory of this.#given)
      if (memory.u8.length === LARGEST && this.#spare.length < MOST_SPARE && !inUse.has(memory))
        this.#spare.push(memory)
    this.#given = []
  }

  /** Somebody may look at what was given up: all of that is left to the collector. */
  leave(): void {
    this.#given = []
  }
}
