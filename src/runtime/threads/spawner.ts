/**
 * Worker threads. A few boot side by side, as many as the machine has cores, and others wait for their turn: more at
 * once would boot no sooner, keep the host from its work while they are made, and could not begin with what the first
 * have compiled.
 *
 * Spares have booted before they are needed, so that restarts do not wait. A heap limit is fixed when a thread is made,
 * so each class has spares of its own: every class that was needed, as many as the bound allows, the one needed last
 * first. A class whose threads runs take faster than they are made ready gets more of them, until none was taken for a
 * while.
 */
import { availableParallelism } from 'node:os'
import type { Logger } from '../../actors/definition/tool.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { describe } from '../../shared/errors.ts'
import { setImmediate } from '../../shared/timers.ts'
import type { SeatedThread, Spawner } from './thread.ts'
import { WorkerThread } from './worker-thread.ts'

/** Maximum number of spare threads of all classes together, unless `warmSpares` asks for more of one class. */
const MOST_SPARES = 8
/** How long more spares than `warmSpares` are kept for runs that make agents. */
const KEEP_MS = 10_000
/** The host makes one thread after the other: it could not keep more of them busy. */
const MOST_SIDE_BY_SIDE = 16

export interface SpareThread extends SeatedThread {
  warm: boolean
  readonly booted: Promise<void>
  /** Lets it prepare what is not the agent's own, but is not needed before there is one. */
  warmUp(): void
  /** Resolves when nobody waits for its start any more. */
  readonly settled: Promise<void>
  gone(): Promise<void>
}

interface HeapClass {
  readonly maxHeapMb: number | null
  readonly spares: SpareThread[]
  wanted: number
}

/** For tests. */
export interface SpawnerKit {
  make(maxHeapMb: number | null): SpareThread
  readonly sideBySide: number
}

const workers: SpawnerKit = {
  make: (maxHeapMb) => new WorkerThread(maxHeapMb),
  sideBySide: Math.min(MOST_SIDE_BY_SIDE, Math.max(2, availableParallelism())),
}

/**
 * Makes the threads of a team. The team itself keeps the process alive while a caller waits for it
 * (run-entries.ts), unless its clock is virtual.
 */
export const workersFor = ({ virtual }: Scheduler): SpawnerKit => ({
  ...workers,
  make(maxHeapMb) {
    const thread = new WorkerThread(maxHeapMb)
    if (!virtual) thread.unref()
    return thread
  },
})

export class WorkerSpawner implements Spawner {
  readonly #ofEach: number
  readonly #most: number
  readonly #clock: Scheduler
  readonly #logger: Logger
  readonly #kit: SpawnerKit
  /** The one needed last comes first. */
  readonly #classes: HeapClass[] = []
  /** Threads that somebody waits for: a spare that boots beside them would only slow them. */
  readonly #starting = new Set<SpareThread>()
  readonly #booting = new Set<SpareThread>()
  /** Callbacks that wait until fewer threads boot. */
  readonly #line: (() => void)[] = []
  #lastTaken = 0
  #keeping: Timer | undefined
  #scheduled = false
  #closed = false

  constructor(warmSpares: number, clock: Scheduler, logger: Logger, kit = workers) {
    this.#ofEach = warmSpares
    this.#most = Math.max(warmSpares, MOST_SPARES)
    this.#clock = clock
    this.#logger = logger
    this.#kit = kit
  }

  room(maxHeapMb: number | null): Promise<void> | undefined {
    const ready = this.#classes.some((known) => known.maxHeapMb === maxHeapMb && known.spares.length > 0)
    if (ready || this.#closed || (this.#hasRoom && this.#line.length === 0)) return undefined
    return new Promise((resolve) => {
      this.#line.push(resolve)
    })
  }

  expect(maxHeapMb: number | null): void {
    if (this.#ofEach === 0 || this.#closed || !this.#hasRoom || this.#line.length > 0) return
    const heapClass = this.#needed(maxHeapMb)
    if (heapClass.spares.length > 0) return
    try {
      this.#addSpare(heapClass).warm = false
    } catch {
      // Whoever asks for it is told.
    }
  }

  get #hasRoom(): boolean {
    return this.#booting.size < this.#kit.sideBySide
  }

  spawn(maxHeapMb: number | null, ofRun = false): SeatedThread {
    const heapClass = this.#needed(maxHeapMb)
    const spare = heapClass.spares.shift()
    if (ofRun) this.#expectMore(heapClass, spare)
    const thread = spare ?? this.#make(maxHeapMb)
    this.#starting.add(thread)
    void thread.settled.then(() => {
      this.#starting.delete(thread)
      this.#goOnSoon()
    })
    return thread
  }

  #needed(maxHeapMb: number | null): HeapClass {
    const at = this.#classes.findIndex((known) => known.maxHeapMb === maxHeapMb)
    const [heapClass = { maxHeapMb, spares: [], wanted: this.#ofEach }] = at < 0 ? [] : this.#classes.splice(at, 1)
    this.#classes.unshift(heapClass)
    return heapClass
  }

  #make(maxHeapMb: number | null): SpareThread {
    const thread = this.#kit.make(maxHeapMb)
    this.#booting.add(thread)
    void thread.booted.then(() => {
      this.#booting.delete(thread)
      this.#goOnSoon()
    })
    return thread
  }

  /**
   * A run that makes one agent often makes others: one that found no spare that had booted is a sign that there are too
   * few.
   */
  #expectMore(heapClass: HeapClass, spare: SpareThread | undefined): void {
    if (this.#ofEach === 0) return
    this.#lastTaken = this.#clock.monotonic()
    if (spare && !this.#booting.has(spare)) return
    heapClass.wanted = Math.min(heapClass.wanted + 1, this.#most)
    if (!this.#keeping) this.#keepFor(KEEP_MS)
  }

  #keepFor(ms: number): void {
    this.#keeping = this.#clock.timer(ms, () => {
      const left = this.#lastTaken + KEEP_MS - this.#clock.monotonic()
      if (left > 0) return this.#keepFor(left)
      this.#keeping = undefined
      for (const heapClass of this.#classes) {
        heapClass.wanted = this.#ofEach
        for (const spare of heapClass.spares.splice(this.#ofEach)) spare.terminate()
      }
    })
  }

  /** When the loop is idle: lets those boot that wait, then what is missing of spares. */
  #goOnSoon(): void {
    if (this.#scheduled || this.#closed) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (!this.#closed) this.#goOn()
    })
  }

  /**
   * Calls the first callback that waits. It may no longer need a thread, so those behind it are called after it had its
   * chance.
   */
  #goOn(): void {
    if (this.#line.length > 0) {
      const places = this.#kit.sideBySide - this.#booting.size
      for (const call of this.#line.splice(0, Math.max(0, places))) call()
      if (places > 0) this.#goOnSoon()
    } else if (this.#ofEach > 0) this.#refill()
  }

  /**
   * Boots spares: of those that every class has, none while a thread starts that is needed now; of those that runs ask
   * for, also beside it. Where the system has no more threads, whoever needs one is told; a spare is needed by nobody,
   * and tried again when the next thread has started.
   */
  #refill(): void {
    try {
      for (const heapClass of this.#classes) {
        if (this.#starting.size > 0 && heapClass.wanted === this.#ofEach) continue
        while (heapClass.spares.length < heapClass.wanted) {
          if (!this.#hasRoom || (this.spares >= this.#most && !this.#endSpareAfter(heapClass))) return
          this.#addSpare(heapClass)
        }
      }
    } catch (error) {
      this.#logger.warn(
        { error: describe(error), spares: this.spares, wanted: this.#ofEach },
        'a spare thread could not be made; it is tried again when the next thread has started (threads.warmSpares)',
      )
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

  #addSpare({ maxHeapMb, spares }: HeapClass): SpareThread {
    const spare = this.#make(maxHeapMb)
    spare.warm = true
    void spare.booted.then(() => {
      if (spares.includes(spare)) spare.warmUp()
    })
    spare.onExit(() => {
      const at = spares.indexOf(spare)
      if (at >= 0) spares.splice(at, 1)
    })
    spares.push(spare)
    return spare
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#keeping?.cancel()
    for (const call of this.#line.splice(0)) call()
    const spares = this.#classes.flatMap((heapClass) => heapClass.spares.splice(0))
    for (const spare of spares) spare.terminate()
    await Promise.all(spares.map((spare) => spare.gone()))
  }
}
