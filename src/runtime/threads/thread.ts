/**
 * A thread as the supervisor sees it. The real one is a worker (worker-thread.ts); a loop in the host's own thread
 * (local-thread.ts) and the seats of a shared thread (shared-threads.ts) have the same interface.
 */
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import type { Worker } from 'node:worker_threads'
import type { Assignment, CodeAssignment, Started } from '../../actors/definition/assignment.ts'
import { systemClock } from '../../shared/clock.ts'
import type { PrintListener } from '../logging/printed-lines.ts'

/*
 * Measures how a thread spent the time since its last sign of life: it ran, it slept (or was blocked), or it waited for
 * a processor. Only the first two count against it. Time that is neither known to be sleep nor known to be a wait is in
 * doubt: it counts as a wait, up to a limit.
 */

/**
 * In the end doubt counts too, at that many times the limit: no thread is silent for ever because nothing is known of
 * it.
 */
const DOUBT = 10

export class Silence {
  readonly beat: number
  /** All of it, as the host saw it; late looks of the host are cut. */
  totalMs = 0
  cpuMs = 0
  blockedMs = 0
  waitedMs = 0
  #doubtMs = 0
  #last: ThreadTimes | undefined

  constructor(beat: number) {
    this.beat = beat
  }

  /** `passedMs` since the last look, of which at most `mostMs` were seen: the host itself may have been late. */
  add(passedMs: number, mostMs: number, now: ThreadTimes | undefined): void {
    this.totalMs += Math.min(passedMs, mostMs)
    if (!now)
      this.blockedMs = this.totalMs // nothing is known but the time
    else if (this.#last) this.#account(passedMs, mostMs, this.#last, now)
    this.#last = now
  }

  #account(passedMs: number, mostMs: number, last: ThreadTimes, now: ThreadTimes): void {
    const ranMs = Math.max(0, now.cpuMs - last.cpuMs)
    const waitedMs = Math.max(0, now.waitedMs - last.waitedMs)
    this.cpuMs += ranMs
    this.waitedMs += waitedMs
    const restMs = Math.min(passedMs - ranMs - waitedMs, mostMs)
    // A wait is told when it is over: until then it is in doubt, and less than nothing is left when it is told.
    if (now.runnable || restMs < 0) this.#doubtMs = Math.max(0, this.#doubtMs + restMs)
    else this.blockedMs += restMs
  }

  isStuck(limitMs: number): boolean {
    return this.cpuMs + this.blockedMs >= limitMs || this.isDoubtful(limitMs)
  }

  /**
   * Checks whether the thread has been silent for so long that it must end, although a lack of processor time may be
   * the only reason.
   */
  isDoubtful(limitMs: number): boolean {
    const surelyMs = this.cpuMs + this.blockedMs
    return surelyMs < limitMs && surelyMs + this.#doubtMs >= DOUBT * limitMs
  }

  get words(): string {
    const [all, cpu, blocked] = [this.totalMs, this.cpuMs, this.blockedMs].map(Math.round)
    const waited = Math.round(this.waitedMs + this.#doubtMs)
    return this.#last
      ? `${all} ms: it used ${cpu} ms of processor time, was blocked for ${blocked} ms and waited ${waited} ms for a processor`
      : `${all} ms`
  }
}

/*
 * Processor times of a thread, and the memory that it takes. Linux tells for each thread how long it ran, how long it
 * waited for a processor, and whether it could run now (Documentation/scheduler/sched-stats.rst, proc(5)). Elsewhere,
 * and where the permission model forbids reading it, the processor time comes from newer Nodes (`worker.cpuUsage`), and
 * the rest is concluded from the whole machine. Memory is what the thread was the first to touch, its heap and its
 * buffers alike; elsewhere newer Nodes say what it holds.
 */

export interface ThreadTimes {
  cpuMs: number
  /** In the queue for a processor, as far as that is over and known. */
  waitedMs: number
  /** True if it may be waiting for a processor now; false if it sleeps or is blocked. */
  runnable: boolean
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

/** From Node 22.16 and 24 on. */
export type CountsItself = Worker & {
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

/** Why a thread is gone. `error` is what it threw outside of any turn. */
export interface ThreadExit {
  code: number
  error: Error | undefined
  /** Ended from outside: to have died twice in the same way is no evidence against the message. */
  outside?: boolean
  /** Set for the agent at whose work a shared thread was stuck. */
  stuck?: boolean
  /** Set for an agent that shared the thread with others and is not to blame for its end. */
  bystander?: Bystander
}

/** The end of a shared thread, for an agent that is not to blame for it. */
export interface Bystander {
  /** The agent that the thread worked for when it ended; undefined: it was ended from outside. */
  readonly culprit: string | undefined
  readonly why: string
}

/** Returns the stored bytes with that hash; undefined if they are gone. */
export type StoredBytes = (hash: string) => Uint8Array | undefined

export interface Thread {
  /** False for a loop in the host's own thread: it has no watchdog and cannot be killed. */
  readonly isolated: boolean
  /** True if the thread was kept ready before it was needed. */
  readonly warm: boolean
  /** The thread that this agent shares with others; undefined: it has one for itself. */
  readonly shared?: object
  onWake(listener: () => void): void
  onExit(listener: (exit: ThreadExit) => void): void
  onPrint(listener: PrintListener): void
  /** Anything that the agent itself posted to its parent port: no wakeup, so nothing that the runtime knows. */
  onOwnPost(listener: () => void): void
  /** Sets what gives the agent's code the bytes of stored parts. */
  givesBytes(bytesOf: StoredBytes): void
  wake(): void
  /** How long its event loop has worked and waited, in ms; undefined for one without a loop of its own. */
  eventLoop(): { active: number; idle: number } | undefined
  /**
   * Bytes outside of its heap, with what is garbage but not collected yet; undefined where that cannot be asked. It is
   * known also of a thread in an endless loop. Rejects when the thread ends.
   */
  held?(): Promise<number> | undefined
  times(): ThreadTimes | undefined
  load(assignment: CodeAssignment): Promise<Started>
  start(assignment: Assignment): Promise<Started>
  /** Resolves to false if the thread has something to do, or ends. */
  isIdle(): Promise<boolean>
  stop(): Promise<void>
  terminate(): void
  /** The agent's thread that a shared thread works for, or worked for last; undefined if it is not shared. */
  readonly atWork?: Thread
}

/** A thread that can have several agents, each at a seat of its own. */
export interface SeatedThread extends Thread {
  wake(seat?: number): void
  isIdle(seat?: number): Promise<boolean>
  stop(seat?: number): Promise<void>
  /** Ends the agent at that seat. Resolves when it writes nothing more, or when the thread is gone. */
  leave(seat: number): Promise<void>
}

export interface Spawner {
  /**
   * Undefined: `spawn` may be called now. Else it resolves when it is the caller's turn, or when there will be no
   * threads any more.
   */
  room(maxHeapMb: number | null): Promise<void> | undefined
  /** Lets a thread boot that is asked for soon, unless one does already. A spare, if nobody asks for it after all. */
  expect(maxHeapMb: number | null): void
  /**
   * A thread that waits for its assignment. `maxHeapMb` is its heap class; null: the default one. `ofRun`: a run makes
   * agents, and may make more.
   */
  spawn(maxHeapMb: number | null, ofRun?: boolean): SeatedThread
  readonly spares: number
  close(): Promise<void>
}

/**
 * A thread that has not ended that long after it was terminated sits in a native call: it is fenced off and replaced.
 */
export const FENCE_MS = 1_000
/** Stands in place of an exit code when the thread was fenced off. */
export const FENCED = -1
