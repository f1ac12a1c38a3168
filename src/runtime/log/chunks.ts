/**
 * Memory that the frames of a run are copied into: chunks that grow to 1 MiB, filled one after the other. Touching
 * memory for the first time costs more than the copy, and so does its collection. So a chunk whose frames the log has
 * discarded is filled again if nothing else refers to it.
 */
import { copyFrame } from '../../mailbox/frame.ts'
import { allocate, type Memory, renewed } from '../../mailbox/memory.ts'

const SMALLEST = 1 << 14
const LARGEST = 1 << 20
const MOST_SPARE = 16

interface Chunk {
  readonly memory: Memory
  /** Number of log entries in the chunk. */
  entries: number
}

export class LogChunks {
  /** Oldest first. The last one is being filled. */
  readonly #filled: Chunk[] = []
  /** Chunks without log entries. */
  #given: Memory[] = []
  readonly #spare: Memory[] = []
  #bytes = SMALLEST
  /** End of the last copy. To be read only. */
  end = 0

  /** Appends a copy of the bytes. Returns the memory that holds the copy, which ends at `end`. */
  copy(from: Memory, start: number, end: number): Memory {
    const bytes = end - start
    let chunk = this.#filled[this.#filled.length - 1]
    if (!chunk || this.end + bytes > chunk.memory.u8.length) chunk = this.#next(bytes)
    chunk.entries += 1
    copyFrame(from, start, chunk.memory, this.end, bytes)
    this.end += bytes
    return chunk.memory
  }

  #next(bytes: number): Chunk {
    const spare = this.#bytes === LARGEST && bytes <= LARGEST ? this.#spare.pop() : undefined
    const memory = spare ? renewed(spare) : allocate(Math.max(this.#bytes, bytes))
    const chunk: Chunk = { memory, entries: 0 }
    this.#filled.push(chunk)
    this.#bytes = Math.min(this.#bytes * 2, LARGEST)
    this.end = 0
    return chunk
  }

  /** Registers that the log has discarded its oldest entry with frames. `memory` may be a chunk, or the entry's own. */
  giveUp(memory: Memory): void {
    const oldest = this.#filled[0]
    if (oldest?.memory !== memory) return
    oldest.entries -= 1
    while (this.#filled.length > 1 && this.#filled[0]!.entries === 0) this.#given.push(this.#filled.shift()!.memory)
  }

  /** Makes discarded chunks available again. Chunks in `held` are left to the garbage collector. */
  reuse(held: () => ReadonlySet<Memory>): void {
    if (this.#given.length === 0) return
    const inUse = held()
    for (const memory of this.#given)
      if (memory.u8.length === LARGEST && this.#spare.length < MOST_SPARE && !inUse.has(memory))
        this.#spare.push(memory)
    this.#given = []
  }

  /** Leaves all discarded chunks to the garbage collector, because a reader may still look at them. */
  leave(): void {
    this.#given = []
  }
}
