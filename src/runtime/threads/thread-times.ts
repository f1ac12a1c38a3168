/**
 * Processor times of a thread, and the memory that it takes. Linux tells for each thread how long it ran, how long it
 * waited for a processor, and whether it could run now (Documentation/scheduler/sched-stats.rst, proc(5)). Elsewhere,
 * and where the permission model forbids reading it, the processor time comes from newer Nodes (`worker.cpuUsage`), and
 * the rest is concluded from the whole machine. Memory is what the thread was the first to touch, its heap and its
 * buffers alike; elsewhere newer Nodes say what it holds.
 */
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import type { Worker } from 'node:worker_threads'
import { systemClock } from '../../clock.ts'

/** Since the thread began. */
export interface ThreadTimes {
  cpuMs: number
  /** In the queue for a processor, as far as that is over and known. */
  waitedMs: number
  /** True if it may be waiting for a processor now; false if it sleeps or is blocked. */
  runnable: boolean
  /** MiB that it has taken from the system; undefined if that is not known. */
  takenMb?: number
}

/** Pages have 4 KiB; where they are larger, less is counted. */
const PAGES_PER_MB = 256

const readText = (path: string): string => readFileSync(path, 'utf8')

/** Undefined where the system does not tell, or has no such thread in this process. */
export function kernelTimes(tid: number, read = readText): ThreadTimes | undefined {
  try {
    const [cpuNs, waitedNs] = read(`/proc/self/task/${tid}/schedstat`).split(' ', 2).map(Number)
    const stat = read(`/proc/self/task/${tid}/stat`)
    if (!(cpuNs! >= 0 && waitedNs! >= 0)) return undefined
    // The name before them may have brackets of its own. Pages count that were new to the whole process (minflt).
    const [state, , , , , , , faults] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const taken = faults !== undefined && { takenMb: Number(faults) / PAGES_PER_MB }
    return { cpuMs: cpuNs! / 1e6, waitedMs: waitedNs! / 1e6, runnable: state === 'R', ...taken }
  } catch {
    return undefined
  }
}

type CountsItself = Worker & {
  cpuUsage?(): Promise<NodeJS.CpuUsage>
  getHeapStatistics?(): Promise<{ total_heap_size: number; external_memory: number }>
}

/** The clock of one thread. It costs nothing until it is read. */
export class ThreadClock {
  readonly #worker: CountsItself
  /** As the thread told it before any code of an agent was there; 0: not known. */
  tid = 0
  #cpuMs = 0
  #takenMb: number | undefined
  #asked = false
  #idleMs = 0
  #idleAt = Number.NEGATIVE_INFINITY

  constructor(worker: Worker) {
    this.#worker = worker
  }

  read(): ThreadTimes {
    const exact = this.tid > 0 ? kernelTimes(this.tid) : undefined
    if (exact) return exact
    this.tid = 0
    this.#ask()
    const taken = this.#takenMb !== undefined && { takenMb: this.#takenMb }
    return { cpuMs: this.#cpuMs, waitedMs: 0, runnable: this.#noneWasIdle(), ...taken }
  }

  /**
   * The answer is for the next reading: the thread gives it between two of its instructions, also in an endless loop.
   */
  #ask(): void {
    if (this.#asked || !this.#worker.cpuUsage) return
    this.#asked = true
    const told = ({ user, system }: NodeJS.CpuUsage) => {
      this.#cpuMs = (user + system) / 1_000
    }
    const held = (heap: { total_heap_size: number; external_memory: number } | undefined) => {
      if (heap) this.#takenMb = (heap.total_heap_size + heap.external_memory) / 2 ** 20
    }
    const refused = () => {} // the thread has not begun, or is gone
    void this.#worker.getHeapStatistics?.().then(held, refused)
    void this.#worker
      .cpuUsage()
      .then(told, refused)
      .finally(() => {
        this.#asked = false
      })
  }

  /**
   * Since the last reading the machine had less than half of a processor to spare: who could run may have had to wait.
   */
  #noneWasIdle(): boolean {
    const now = systemClock.monotonic()
    const idleMs = cpus().reduce((sum, { times }) => sum + times.idle, 0)
    const none = idleMs - this.#idleMs < (now - this.#idleAt) / 2
    this.#idleMs = idleMs
    this.#idleAt = now
    return none
  }
}
