/**
 * Worker threads, with spares that have booted already, so that restarts do not wait. A heap limit is fixed when a thread
 * is made, so each class has spares of its own: every class that was needed, as many as the bound allows, the one needed
 * last first.
 */
import type { Logger } from '../actors/logger.ts'
import { describe } from '../errors.ts'
import { type Spawner, type Thread, WorkerThread } from './thread.ts'

/** Of all classes together, where `warmSpares` does not ask for more of one. */
const MOST_SPARES = 8

/** What a spawner needs to know of the threads that it makes. */
export interface SpareThread extends Thread {
  warm: boolean
  /** Resolves when nobody waits for its start any more. */
  readonly settled: Promise<void>
  /** Resolves when the thread is gone. */
  gone(): Promise<void>
}

interface HeapClass {
  readonly maxHeapMb: number | null
  readonly spares: SpareThread[]
}

export class WorkerSpawner implements Spawner {
  readonly #ofEach: number
  readonly #most: number
  readonly #logger: Logger
  readonly #make: (maxHeapMb: number | null) => SpareThread
  /** The one needed last comes first. */
  readonly #classes: HeapClass[] = []
  /** Threads that somebody waits for: a spare that boots beside them would only slow them. */
  readonly #starting = new Set<SpareThread>()
  #scheduled = false
  #closed = false

  constructor(
    warmSpares: number,
    logger: Logger,
    make: (maxHeapMb: number | null) => SpareThread = (maxHeapMb) => new WorkerThread(maxHeapMb),
  ) {
    this.#ofEach = warmSpares
    this.#most = Math.max(warmSpares, MOST_SPARES)
    this.#logger = logger
    this.#make = make
  }

  spawn(maxHeapMb: number | null): Thread {
    const thread = this.#needed(maxHeapMb).spares.shift() ?? this.#make(maxHeapMb)
    this.#starting.add(thread)
    void thread.settled.then(() => {
      this.#starting.delete(thread)
      this.#refillSoon()
    })
    return thread
  }

  #needed(maxHeapMb: number | null): HeapClass {
    const at = this.#classes.findIndex((known) => known.maxHeapMb === maxHeapMb)
    const [heapClass = { maxHeapMb, spares: [] }] = at < 0 ? [] : this.#classes.splice(at, 1)
    this.#classes.unshift(heapClass)
    return heapClass
  }

  /**
   * Boots what is missing, when the loop is idle and no thread starts that is needed now. Where the system has no more
   * threads, whoever needs one is told; a spare is needed by nobody, and tried again when the next thread has started.
   */
  #refillSoon(): void {
    if (this.#scheduled || this.#ofEach === 0) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (this.#closed || this.#starting.size > 0) return
      try {
        this.#refill()
      } catch (error) {
        this.#logger.warn(
          { error: describe(error), spares: this.spares, wanted: this.#ofEach },
          'a spare thread could not be made; it is tried again when the next thread has started (threads.warmSpares)',
        )
      }
    })
  }

  #refill(): void {
    for (const heapClass of this.#classes)
      while (heapClass.spares.length < this.#ofEach) {
        if (this.spares >= this.#most && !this.#endSpareAfter(heapClass)) return
        this.#addSpare(heapClass)
      }
  }

  get spares(): number {
    return this.#classes.reduce((sum, { spares }) => sum + spares.length, 0)
  }

  /** Ends a spare of the class that was not needed for the longest; false: all that there are were needed later. */
  #endSpareAfter(heapClass: HeapClass): boolean {
    const later = this.#classes.slice(this.#classes.indexOf(heapClass) + 1)
    const spare = later.findLast(({ spares }) => spares.length > 0)?.spares.pop()
    spare?.terminate()
    return spare !== undefined
  }

  #addSpare({ maxHeapMb, spares }: HeapClass): void {
    const spare = this.#make(maxHeapMb)
    spare.warm = true
    spare.onExit(() => {
      const at = spares.indexOf(spare)
      if (at >= 0) spares.splice(at, 1)
    })
    spares.push(spare)
  }

  async close(): Promise<void> {
    this.#closed = true
    const spares = this.#classes.flatMap((heapClass) => heapClass.spares.splice(0))
    for (const spare of spares) spare.terminate()
    await Promise.all(spares.map((spare) => spare.gone()))
  }
}
