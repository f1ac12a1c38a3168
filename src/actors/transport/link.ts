/**
 * The thread's end of the transport: writes frames, takes frames, sleeps and wakes.
 *
 * Each frame is published at once, so that nothing is lost if the thread dies. Wake-ups of the host are batched. The
 * host is woken for the first frame of a slice, for every 512th, and at the end of the slice. A frame whose writer
 * waits for an answer wakes it at once. The end of a turn that nobody waits for does not wake it earlier.
 */
import type { Scheduler } from '../../clock.ts'
import { copyFrame, FRAGMENT, KIND, lengthOf, priorityOf } from '../../mailbox/frame.ts'
import { allocate, type Memory } from '../../mailbox/memory.ts'
import type { Ring } from '../../mailbox/ring.ts'
import { HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED, type TeamMemory } from '../../mailbox/room.ts'
import {
  ASLEEP,
  BEAT,
  CLAIM,
  FrameJoiner,
  FrameWriter,
  inlineLimit,
  OUT_BLOCKED,
  ROOM_WANTED,
  type Window,
} from '../../mailbox/window.ts'
import type { Memories } from './external-memory.ts'
import type { OwnWork } from './own-work.ts'

/** Connects a thread to its host: one wake-up signal in each direction, and time. */
export interface ThreadPort {
  ring(): void
  onRing(listener: () => void): void
  readonly scheduler: Scheduler
  /** Asks the host for the bytes with that hash; undefined if it has none. Absent where no code reads any. */
  bytesOf?(hash: string): Uint8Array | undefined
  /** Present if the thread has a heap of its own. */
  readonly memories?: Memories
  /** Tracks the resources that turns have open. Present if the thread has an event loop of its own. */
  readonly work?: OwnWork | undefined
}

const FRAMES_A_RING = 512 // waking a thread costs as much as writing some dozens of frames

/**
 * Time at which the host is woken for a frame: `now`, `soon` (now if it is the first of a slice), or `later` (at
 * `flush`).
 */
export type Urgency = 'now' | 'soon' | 'later'

/** For a message that can claim its room in a mailbox when the outbox has room for it, in place of asking the host. */
export interface LateClaim {
  /** Claims the room and marks the frame accordingly. Returns false if there is none: then the frame asks. */
  claim(): boolean
  /** Called when the frame is written with its claim. */
  claimed(): void
}

/** A frame that waits for room in the outbox. */
interface Blocked {
  readonly memory: Memory
  readonly bytes: number
  readonly late: LateClaim | undefined
}

/** A taken frame. Its memory is its own, or the ring's until `done` is called. */
export interface Taken {
  memory: Memory
  at: number
}

/** Initial value of a `Taken` object. */
export const NOTHING_TAKEN: Readonly<Taken> = { memory: allocate(0), at: 0 }

export class Link {
  readonly team: TeamMemory
  readonly #window: Window
  readonly #claim: Int32Array
  readonly #port: ThreadPort
  readonly #me: number
  readonly #writer: FrameWriter
  readonly #joiners = { plain: new FrameJoiner(), replies: new FrameJoiner() }
  #blocked: Blocked[] = []
  /** True if the host was woken in this slice. */
  #rung = false
  /** Frames written since the last wake-up. */
  #unrung = 0
  #unrungBytes = 0
  /** True once the agent is fenced. To be read only. */
  closed = false
  /** Memory of the outbox ring, in which `reserve` finds a place. */
  readonly memory: Memory
  readonly #flush = () => this.flush()
  readonly #better = (at: number, than: number) =>
    priorityOf(this.#window.ranked.memory, at) > priorityOf(this.#window.ranked.memory, than)

  /** `me`: index of the agent. */
  constructor(window: Window, team: TeamMemory, port: ThreadPort, me: number) {
    this.#window = window
    this.#claim = window.words.subarray(CLAIM, CLAIM + 4)
    this.team = team
    this.#port = port
    this.#me = me
    this.#writer = new FrameWriter(window.outbox)
    this.memory = window.outbox.memory
  }

  /**
   * Closes the link of a fenced agent, so that it writes nothing more. Only in-process agents need it, because a worker
   * thread that is terminated cannot write.
   */
  close(): void {
    this.closed = true
  }

  /** True if no frame waits for room in the ring to the host. */
  get isClear(): boolean {
    return this.#blocked.length === 0
  }

  // ---- out

  /**
   * Returns the offset at which a frame of `bytes` can be written now. Returns -1 if it cannot: then the frame must be
   * encoded separately and passed to `post`.
   */
  reserve(bytes: number): number {
    const { outbox } = this.#window
    if (this.closed || this.#blocked.length > 0 || bytes > outbox.capacity >> 2) return -1
    return outbox.reserve(bytes)
  }

  /** Publishes the frame that was written at the reserved offset. */
  commit(bytes: number, urgency: Urgency): void {
    this.#window.outbox.commit(bytes)
    this.team.wrote(this.#me)
    if (urgency === 'later' || (urgency === 'soon' && this.#rung)) return this.#bell(bytes, urgency)
    this.#rung = true
    this.#unrung = 0
    this.#unrungBytes = 0
    this.wakeHost()
  }

  /**
   * Copies a separately encoded frame into the ring. The caller must have checked with `reserve` that there is room.
   */
  put(frame: Memory, bytes: number, urgency: Urgency): void {
    copyFrame(frame, 0, this.memory, this.reserve(bytes), bytes)
    this.commit(bytes, urgency)
  }

  /** Queues a separately encoded frame behind the frames that already wait for room. */
  post(memory: Memory, bytes: number, late?: LateClaim): void {
    if (this.closed) return
    this.#blocked.push({ memory, bytes, late })
    this.#unblock()
  }

  #unblock(): void {
    while (this.#blocked.length > 0) {
      const { memory, bytes, late } = this.#blocked[0]!
      const hasClaim = late !== undefined && this.#hasPlace(bytes) && late.claim()
      const whole = this.#writer.write(memory.u8, 0, bytes)
      this.#publish()
      if (!whole) {
        // Set the flag first, then look again: the host may have freed room in between.
        Atomics.store(this.#window.words, OUT_BLOCKED, 1)
        this.wakeHost()
        if (this.#window.outbox.free() < this.#window.outbox.capacity >> 1) return
        continue
      }
      this.#blocked.shift()
      this.#bell(bytes, hasClaim ? 'soon' : 'now')
      if (!hasClaim) continue
      this.claimed()
      late.claimed() // may write frames itself
    }
  }

  /** Checks whether a frame can be written whole now. */
  #hasPlace(bytes: number): boolean {
    const { outbox } = this.#window
    return bytes <= inlineLimit(outbox) && outbox.reserve(bytes) >= 0
  }

  #publish(): void {
    this.#window.outbox.publish()
    this.team.wrote(this.#me)
  }

  #bell(bytes: number, urgency: Urgency): void {
    if (urgency === 'now' || (urgency === 'soon' && !this.#rung)) {
      this.#rung = true
      this.#unrung = 0
      this.#unrungBytes = 0
      return this.wakeHost()
    }
    this.#unrung += 1
    this.#unrungBytes += bytes
    if (this.#unrung >= FRAMES_A_RING || this.#unrungBytes >= this.#window.outbox.capacity >> 1) this.#announce()
    else if (this.#unrung === 1 && urgency === 'soon') this.#port.scheduler.defer(this.#flush)
  }

  #announce(): void {
    this.#rung = true
    this.#unrung = 0
    this.#unrungBytes = 0
    this.wakeHost()
  }

  /** Ends a slice: wakes the host if frames were written since the last wake-up. */
  flush(): void {
    if (this.#unrung > 0) this.#announce()
    this.#rung = false
  }

  wakeHost(): void {
    const { words } = this.team
    Atomics.store(words, HOST_CALLED, 1)
    if (Atomics.load(words, HOST_ASLEEP) === 1 && Atomics.compareExchange(words, HOST_ASLEEP, 1, 0) === 1)
      this.#port.ring()
  }

  /**
   * Claims room in a mailbox. The claim is recorded, so that the host can return it if this thread dies before using
   * it.
   */
  claim(recipient: number, bytes: number, turn: number, step: number): boolean {
    if (this.closed) return false
    const note = this.#claim
    note[1] = bytes
    note[2] = turn
    note[3] = step
    return this.team.claim(recipient, bytes, note)
  }

  /** Clears the recorded claim: its frame is published. */
  claimed(): void {
    this.#claim[0] = 0
  }

  // ---- in

  /** Handles a wake-up from the host: writes the waiting frames if the outbox has room again. */
  woken(): void {
    Atomics.add(this.#window.words, BEAT, 1)
    if (this.#blocked.length > 0) this.#unblock()
  }

  /** Takes the next message: the highest priority above 0 first, then priority 0 in order, then priorities below 0. */
  takeMessage(into: Taken): boolean {
    const { ranked, plain } = this.#window
    const urgent = ranked.best(this.#better)
    if (urgent >= 0 && (priorityOf(ranked.memory, urgent) > 0 || !plain.more())) return this.#takeRanked(urgent, into)
    return this.#take('plain', plain, into)
  }

  #takeRanked(at: number, into: Taken): boolean {
    const { ranked } = this.#window
    const bytes = lengthOf(ranked.memory, at)
    into.memory = allocate(bytes)
    into.memory.u8.set(ranked.memory.u8.subarray(at, at + bytes))
    into.at = 0
    ranked.take(at)
    ranked.release()
    this.#madeRoom(ranked)
    return true
  }

  takeReply(into: Taken): boolean {
    return this.#take('replies', this.#window.replies, into)
  }

  #take(lane: 'plain' | 'replies', ring: Ring, into: Taken): boolean {
    for (;;) {
      const at = ring.peek()
      if (at < 0) return false
      if ((ring.memory.i32[(at >> 2) + KIND]! & 0xff) !== FRAGMENT) {
        into.memory = ring.memory
        into.at = at
        return true
      }
      const whole = this.#joiners[lane].join(ring.memory, at)
      ring.pass(lengthOf(ring.memory, at))
      ring.release()
      this.#madeRoom(ring)
      if (whole) {
        into.memory = whole
        into.at = 0
        return true
      }
    }
  }

  /**
   * Releases a frame that has been read. If it is in the ring, this frees its space, and the host may treat it as
   * begun.
   */
  done(lane: 'plain' | 'replies', taken: Taken): void {
    const ring = this.#window[lane]
    if (taken.memory !== ring.memory) return
    ring.done(ring.memory.i32[taken.at >> 2]!)
    if (Atomics.load(this.#window.words, ROOM_WANTED) !== 0) this.#madeRoom(ring)
  }

  /** Wakes the host if it waits for room, once at least half of the ring is free. */
  #madeRoom(ring: Ring): void {
    const { words } = this.#window
    if (Atomics.load(words, ROOM_WANTED) === 0 || ring.used() > ring.capacity >> 1) return
    if (Atomics.compareExchange(words, ROOM_WANTED, 1, 0) === 1) this.wakeHost()
  }

  // ---- sleep

  /** Announces sleep, then looks again. Returns false if something arrived in between; then the loop must continue. */
  sleep(forReplies: boolean): boolean {
    const { words, ranked, plain, replies } = this.#window
    Atomics.store(words, ASLEEP, forReplies ? 2 : 1)
    if (replies.more() || (!forReplies && (ranked.more() || plain.more()))) {
      Atomics.store(words, ASLEEP, 0)
      return false
    }
    return true
  }

  /** Checks whether the host needs permits. If not, parking a turn has no use. */
  arePermitsWanted(): boolean {
    return Atomics.load(this.team.words, PERMITS_WANTED) === 1
  }
}
