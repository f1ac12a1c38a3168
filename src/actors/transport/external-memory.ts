/**
 * What a thread holds outside of its heap (buffers, typed arrays, memories of WebAssembly), told to the host by a shared word: when a
 * bell is answered, and at the end of a slice, but not more often than every 100 ms. There is no timer here: the host rings.
 */
import { EXTERNAL_KIB } from '../../mailbox/window.ts'

const EVERY_MS = 100
/** After a collection, as many times as long as it took, but no longer than that. */
const PAUSE_PER_COLLECTION = 10
const LONGEST_PAUSE_MS = 1_000

/** The memory of a thread, as it can be asked. */
export interface Memories {
  /** Bytes outside of the heap, with what is garbage but not collected yet. */
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

  /** More than the limit is told only when a collection has not helped: garbage is nobody's fault. */
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
const v8 = () => process.getBuiltinModule('node:v8') // few threads need it, and each would load it as it boots

/** Of the thread that asks. */
export const threadMemories: Memories = {
  external: () => v8().getHeapStatistics().external_memory,
  collect() {
    collectGarbage ??= collector()
    // The buffers that the first has found are counted as freed by the second.
    collectGarbage()
    collectGarbage()
  },
}

/** The flag is the process's own, so it does not stay. */
function collector(): () => void {
  v8().setFlagsFromString('--expose-gc')
  const collect = process.getBuiltinModule('node:vm').runInNewContext('gc') as () => void
  v8().setFlagsFromString('--no-expose-gc')
  return collect
}
