/**
 * Reports the memory that a thread holds outside of its heap (buffers, typed arrays, WebAssembly memories) to the host.
 * The value is in a shared word, updated after a wake-up and at the end of a slice, at most every 100 ms. The thread
 * needs no timer, because the host wakes it.
 */
import { EXTERNAL_KIB } from '../../mailbox/window.ts'

const EVERY_MS = 100
/**
 * Pause after a garbage collection, as a multiple of the collection's duration. LONGEST_PAUSE_MS is its upper limit.
 */
const PAUSE_PER_COLLECTION = 10
const LONGEST_PAUSE_MS = 1_000

/** Memory functions of one thread. */
export interface Memories {
  /** Returns the bytes outside of the heap, including garbage that is not collected yet. */
  external(): number
  collect(): void
}

export class ExternalMemory {
  readonly #words: Int32Array
  readonly #limit: number
  readonly #memories: Memories
  readonly #now: () => number
  #next = Number.NEGATIVE_INFINITY

  constructor(words: Int32Array, limitMb: number, memories: Memories, now: () => number) {
    this.#words = words
    this.#limit = limitMb * 2 ** 20
    this.#memories = memories
    this.#now = now
  }

  /**
   * Updates the shared word. A value above the limit is reported only if a garbage collection has not lowered it,
   * because garbage alone must not count against the agent.
   */
  sample(): void {
    const now = this.#now()
    if (now < this.#next) return
    this.#next = now + EVERY_MS
    let bytes = this.#memories.external()
    if (bytes > this.#limit) {
      this.#memories.collect()
      const collected = this.#now()
      const pauseMs = Math.min(PAUSE_PER_COLLECTION * (collected - now), LONGEST_PAUSE_MS)
      this.#next = collected + Math.max(EVERY_MS, pauseMs)
      bytes = this.#memories.external()
    }
    Atomics.store(this.#words, EXTERNAL_KIB, Math.ceil(bytes / 1_024))
  }
}

let collectGarbage: (() => void) | undefined
// Loaded on demand: few threads need it, and each would load it while it boots.
const v8 = () => process.getBuiltinModule('node:v8')

/** Memory functions of the current thread. */
export const threadMemories: Memories = {
  external: () => v8().getHeapStatistics().external_memory,
  collect() {
    collectGarbage ??= collector()
    // The second call counts the buffers that the first call has found as freed.
    collectGarbage()
    collectGarbage()
  },
}

/** Returns V8's gc function. The flag is valid for the whole process, so it is removed again. */
function collector(): () => void {
  v8().setFlagsFromString('--expose-gc')
  const collect = process.getBuiltinModule('node:vm').runInNewContext('gc') as () => void
  v8().setFlagsFromString('--no-expose-gc')
  return collect
}
