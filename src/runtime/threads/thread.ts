/**
 * A thread as the supervisor sees it. The real one is a worker (worker-thread.ts); a loop in the host's own thread
 * (local-thread.ts) and the seats of a shared thread (shared-threads.ts) have the same interface.
 */
import type { Assignment, CodeAssignment, Started } from '../../actors/definition/assignment.ts'
import type { PrintListener } from '../logging/printed-lines.ts'
import type { ThreadTimes } from './thread-times.ts'

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
  /** The reason of the end, in words. */
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
  onRing(listener: () => void): void
  /** Each listener is called once. */
  onExit(listener: (exit: ThreadExit) => void): void
  /** Sets the listener for lines that the agent prints, on stdout and on stderr. */
  onPrint(listener: PrintListener): void
  /** Anything that the agent itself posted to its parent port: no bell, so nothing that the runtime knows. */
  onForeignPost(listener: () => void): void
  /** Sets what gives the agent's code the bytes of stored parts. */
  givesBytes(bytesOf: StoredBytes): void
  ring(): void
  /** How long its event loop has worked and waited, in ms; undefined for one without a loop of its own. */
  eventLoop(): { active: number; idle: number } | undefined
  /**
   * Bytes outside of its heap, with what is garbage but not collected yet; undefined where that cannot be asked. It is
   * known also of a thread in an endless loop. Rejects when the thread ends.
   */
  held?(): Promise<number> | undefined
  /** Returns the processor times of the thread; undefined where only the time is known. */
  times(): ThreadTimes | undefined
  /** Loads the code of the agent and its tools, before the start or with it. */
  load(assignment: CodeAssignment): Promise<Started>
  start(assignment: Assignment): Promise<Started>
  /** Resolves to false if the thread has something to do, or ends. */
  isIdle(): Promise<boolean>
  /** Rejects with what the stop hook throws. */
  stop(): Promise<void>
  terminate(): void
  /** The agent's thread that a shared thread works for, or worked for last; undefined if it is not shared. */
  readonly atWork?: Thread
}

/** A thread that can have several agents, each at a seat of its own. */
export interface SeatedThread extends Thread {
  ring(seat?: number): void
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
  /** How many threads wait for an agent. */
  readonly spares: number
  /** Ends the spares. */
  close(): Promise<void>
}

/**
 * A thread that has not ended that long after it was terminated sits in a native call: it is fenced off and replaced.
 */
export const FENCE_MS = 1_000
/** Stands in place of an exit code when the thread was fenced off. */
export const FENCED = -1
