/**
 * The thread's end of the transport: writes frames, takes frames, sleeps and wakes.
 *
 * Each frame is published at once, so that nothing is lost if the thread dies. Wake-ups of the host are batched. The
 * host is woken for the first frame of a slice, for every 512th, and at the end of the slice. A frame whose writer
 * waits for an answer wakes it at once. The end of a turn that nobody waits for does not wake it earlier.
 */

import {
  ASLEEP,
  BEAT,
  type Channel,
  CLAIM,
  FrameJoiner,
  FrameWriter,
  OUT_BLOCKED,
  type Ring,
  ROOM_WANTED,
} from '../../mailbox/channel.ts'
import {
  ASKS,
  allocate,
  BLANK,
  clearFlag,
  copyFrame,
  FRAGMENT,
  type FrameFields,
  type FrameId,
  frameBytes,
  ID,
  IdSource,
  idOf,
  KIND,
  lengthOf,
  type Memory,
  NOBODY,
  PART,
  priorityOf,
  STARTED,
  setCorrelation,
  setFlag,
  writeFrame,
} from '../../mailbox/frame.ts'
import { HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED, type TeamMemory } from '../../mailbox/team-memory.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { tooLarge } from '../definition/checks.ts'
import type { GrantedKeys } from './granted.ts'
import type { Memories, OwnWork } from './own-work.ts'

/** Connects a thread to its host: one wake-up signal in each direction, and time. */
export interface ThreadPort {
  wake(): void
  onWake(listener: () => void): void
  readonly scheduler: Scheduler
  /** Asks the host for the bytes with that hash; undefined if it has none. Absent where no code reads any. */
  bytesOf?(hash: string): Uint8Array | undefined
  /** Present if the thread has a heap of its own. */
  readonly memories?: Memories
  /** Tracks the resources that turns have open. Present if the thread has an event loop of its own. */
  readonly work?: OwnWork | undefined
}

const FRAMES_A_WAKEUP = 512 // waking a thread costs as much as writing some dozens of frames

/**
 * Time at which the host is woken for a frame: `now`, `soon` (now if it is the first of a slice), or `later` (at
 * `flush`).
 */
export type Urgency = 'now' | 'soon' | 'later'

/**
 * For a message that can reserve its room in a mailbox when the outbox has room for it, in place of asking the host.
 */
export interface LateReservation {
  /** Claims the room and marks the frame accordingly. Returns false if there is none: then the frame asks. */
  reserve(): boolean
  /** Called when the frame is written with its reservation. */
  reserved(): void
}

/** A frame that waits for room in the outbox. */
interface Blocked {
  readonly memory: Memory
  readonly bytes: number
  readonly late: LateReservation | undefined
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
  readonly #channel: Channel
  readonly #reservation: Int32Array
  readonly #port: ThreadPort
  readonly #me: number
  readonly #writer: FrameWriter
  readonly #joiners = { plain: new FrameJoiner(), replies: new FrameJoiner() }
  #blocked: Blocked[] = []
  /** True if the host was woken in this slice. */
  #hasWoken = false
  /** Frames written since the last wake-up. */
  #unrung = 0
  #unrungBytes = 0
  /** True once the agent is fenced. To be read only. */
  closed = false
  /** Memory of the outbox ring, in which `reserve` finds a place. */
  readonly memory: Memory
  readonly #flush = () => this.flush()
  readonly #better = (at: number, than: number) =>
    priorityOf(this.#channel.ranked.memory, at) > priorityOf(this.#channel.ranked.memory, than)

  /** `me`: index of the agent. */
  constructor(channel: Channel, team: TeamMemory, port: ThreadPort, me: number) {
    this.#channel = channel
    this.#reservation = channel.words.subarray(CLAIM, CLAIM + 4)
    this.team = team
    this.#port = port
    this.#me = me
    this.#writer = new FrameWriter(channel.outbox)
    this.memory = channel.outbox.memory
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
    const { outbox } = this.#channel
    if (this.closed || this.#blocked.length > 0 || bytes > outbox.capacity >> 2) return -1
    return outbox.reserve(bytes)
  }

  /** Publishes the frame that was written at the reserved offset. */
  commit(bytes: number, urgency: Urgency): void {
    this.#channel.outbox.commit(bytes)
    this.#reservation[0] = 0 // the frame that has the reserved room is published
    this.team.wrote(this.#me)
    if (urgency === 'later' || (urgency === 'soon' && this.#hasWoken)) return this.#wakeUp(bytes, urgency)
    this.#hasWoken = true
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
  post(memory: Memory, bytes: number, late?: LateReservation): void {
    if (this.closed) return
    this.#blocked.push({ memory, bytes, late })
    this.#unblock()
  }

  #unblock(): void {
    while (this.#blocked.length > 0) {
      const { memory, bytes, late } = this.#blocked[0]!
      const isReserved = late !== undefined && this.#hasPlace(bytes) && late.reserve()
      const whole = this.#writer.write(memory.u8, 0, bytes)
      this.#publish()
      if (!whole) {
        // Set the flag first, then look again: the host may have freed room in between.
        Atomics.store(this.#channel.words, OUT_BLOCKED, 1)
        this.wakeHost()
        if (this.#channel.outbox.free() < this.#channel.outbox.capacity >> 1) return
        continue
      }
      this.#blocked.shift()
      this.#wakeUp(bytes, isReserved ? 'soon' : 'now')
      if (!isReserved) continue
      this.#reservation[0] = 0
      late.reserved() // may write frames itself
    }
  }

  /** Checks whether a frame can be written whole now. */
  #hasPlace(bytes: number): boolean {
    const { outbox } = this.#channel
    return bytes <= outbox.inlineLimit && outbox.reserve(bytes) >= 0
  }

  #publish(): void {
    this.#channel.outbox.publish()
    this.team.wrote(this.#me)
  }

  #wakeUp(bytes: number, urgency: Urgency): void {
    if (urgency === 'now' || (urgency === 'soon' && !this.#hasWoken)) return this.#announce()
    this.#unrung += 1
    this.#unrungBytes += bytes
    if (this.#unrung >= FRAMES_A_WAKEUP || this.#unrungBytes >= this.#channel.outbox.capacity >> 1) this.#announce()
    else if (this.#unrung === 1 && urgency === 'soon') this.#port.scheduler.defer(this.#flush)
  }

  #announce(): void {
    this.#hasWoken = true
    this.#unrung = 0
    this.#unrungBytes = 0
    this.wakeHost()
  }

  /** Ends a slice: wakes the host if frames were written since the last wake-up. */
  flush(): void {
    if (this.#unrung > 0) this.#announce()
    this.#hasWoken = false
  }

  wakeHost(): void {
    const { words } = this.team
    Atomics.store(words, HOST_CALLED, 1)
    if (Atomics.load(words, HOST_ASLEEP) === 1 && Atomics.compareExchange(words, HOST_ASLEEP, 1, 0) === 1)
      this.#port.wake()
  }

  /**
   * Reserves room in a mailbox. The reservation is recorded, so that the host can return it if this thread dies before
   * using it.
   */
  reserveRoom(recipient: number, bytes: number, turn: number, step: number): boolean {
    if (this.closed) return false
    const note = this.#reservation
    note[1] = bytes
    note[2] = turn
    note[3] = step
    return this.team.reserve(recipient, bytes, note)
  }

  // ---- in

  /** Handles a wake-up from the host: writes the waiting frames if the outbox has room again. */
  woken(): void {
    Atomics.add(this.#channel.words, BEAT, 1)
    if (this.#blocked.length > 0) this.#unblock()
  }

  /** Takes the next message: the highest priority above 0 first, then priority 0 in order, then priorities below 0. */
  takeMessage(into: Taken): boolean {
    const { ranked, plain } = this.#channel
    if (ranked.more()) {
      const urgent = ranked.best(this.#better)
      if (urgent >= 0 && (priorityOf(ranked.memory, urgent) > 0 || !plain.more())) return this.#takeRanked(urgent, into)
    }
    return this.take('plain', into)
  }

  #takeRanked(at: number, into: Taken): boolean {
    const { ranked } = this.#channel
    const bytes = lengthOf(ranked.memory, at)
    into.memory = allocate(bytes)
    into.memory.u8.set(ranked.memory.u8.subarray(at, at + bytes))
    into.at = 0
    ranked.take(at)
    ranked.release()
    this.#madeRoom(ranked)
    return true
  }

  /** Takes the next frame of a ring that keeps its order. */
  take(name: 'plain' | 'replies', into: Taken): boolean {
    const ring = this.#channel[name]
    for (;;) {
      const at = ring.peek()
      if (at < 0) return false
      if ((ring.memory.i32[(at >> 2) + KIND]! & 0xff) !== FRAGMENT) {
        into.memory = ring.memory
        into.at = at
        return true
      }
      const whole = this.#joiners[name].join(ring.memory, at)
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
  done(name: 'plain' | 'replies', taken: Taken): void {
    const ring = this.#channel[name]
    if (taken.memory !== ring.memory) return
    ring.done(ring.memory.i32[taken.at >> 2]!)
    if (Atomics.load(this.#channel.words, ROOM_WANTED) !== 0) this.#madeRoom(ring)
  }

  /** Wakes the host if it waits for room, once at least half of the ring is free. */
  #madeRoom(ring: Ring): void {
    const { words } = this.#channel
    if (Atomics.load(words, ROOM_WANTED) === 0 || ring.used() > ring.capacity >> 1) return
    if (Atomics.compareExchange(words, ROOM_WANTED, 1, 0) === 1) this.wakeHost()
  }

  // ---- sleep

  /** Announces sleep, then looks again. Returns false if something arrived in between; then the loop must continue. */
  sleep(forReplies: boolean): boolean {
    const { words, ranked, plain, replies } = this.#channel
    Atomics.store(words, ASLEEP, forReplies ? 2 : 1)
    if (replies.more() || (!forReplies && (ranked.more() || plain.more()))) {
      Atomics.store(words, ASLEEP, 0)
      return false
    }
    return true
  }

  /**
   * Checks whether the host needs permits. Nothing is parked before that. An agent that begins to wait for a permit
   * wakes the threads of all that have one, so a turn that waits by then is judged too.
   */
  arePermitsWanted(): boolean {
    return Atomics.load(this.team.words, PERMITS_WANTED) === 1
  }
}

export class Outbox {
  readonly link: Link
  /** Fields of the next frame. One object serves all frames, because each is written before the next one begins. */
  readonly fields: FrameFields
  readonly maxMessageBytes: number
  /** Keys that no frame may hold; undefined for most agents. */
  readonly keys: GrantedKeys | undefined
  readonly #ids: IdSource
  readonly #now: () => number
  readonly #me: number

  constructor(
    link: Link,
    me: number,
    maxMessageBytes: number,
    now: () => number,
    random: () => number,
    keys?: GrantedKeys,
  ) {
    this.link = link
    this.keys = keys
    this.maxMessageBytes = maxMessageBytes
    this.#me = me
    this.#now = now
    this.#ids = new IdSource(random)
    this.fields = { ...BLANK, sender: me }
  }

  /** Resets the fields for a frame of that kind. Fields that are not set are absent from the frame. */
  begin(kind: number, run: number, turn: number, step: number, content: string, data: string | undefined): FrameFields {
    const { fields } = this
    fields.kind = kind
    fields.flags = 0
    fields.type = 'request'
    fields.sender = this.#me
    fields.recipient = 0
    fields.run = run
    fields.turn = turn
    fields.correlation = 0
    fields.step = step
    fields.attempt = 1
    fields.content = content
    fields.data = data
    fields.metadata = undefined
    fields.threadId = undefined
    fields.name = undefined
    fields.limit = -1
    fields.priority = 0
    fields.waiting = 0
    fields.polling = false
    return fields
  }

  /** Returns the size in bytes of the frame that the fields describe, without keys. */
  size(): number {
    this.keys?.clean(this.fields)
    return frameBytes(this.fields)
  }

  /**
   * Returns the size in bytes of the frame.
   *
   * @throws an error if the frame is larger than one message may be (maxMessageBytes).
   */
  checkedSize(): number {
    this.keys?.clean(this.fields)
    const bytes = frameBytes(this.fields)
    if (bytes > this.maxMessageBytes) throw tooLarge(bytes, this.maxMessageBytes)
    return bytes
  }

  /** Writes the frame into the ring if there is room, otherwise queues it behind the frames that wait for room. */
  write(bytes: number, urgency: Urgency): void {
    const at = this.link.reserve(bytes)
    if (at < 0) this.link.post(this.encode(bytes), bytes)
    else this.writeAt(at, bytes, urgency)
  }

  /** Writes the frame at the place that `Link.reserve` has returned for it. */
  writeAt(at: number, bytes: number, urgency: Urgency): void {
    const now = this.#now()
    writeFrame(this.link.memory, at, this.fields, now)
    this.#ids.write(this.link.memory.i32, at, now)
    this.link.commit(bytes, urgency)
  }

  writePart(run: number, bytes: Uint8Array): void {
    this.begin(PART, run, 0, 0, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1'), undefined)
    this.write(this.size(), 'later')
  }

  /** Writes a record about the message with that id. */
  writeAbout(id: FrameId): void {
    const bytes = this.size()
    const at = this.link.reserve(bytes)
    const memory = at < 0 ? allocate(bytes) : this.link.memory
    writeFrame(memory, Math.max(at, 0), this.fields, this.#now())
    memory.i32.set(id, (Math.max(at, 0) >> 2) + ID)
    if (at < 0) this.link.post(memory, bytes)
    else this.link.commit(bytes, 'soon')
  }

  /** Writes the frame with that time in it, and returns the time. */
  writeTimed(time: number): number {
    const bytes = this.size()
    const at = this.link.reserve(bytes)
    if (at >= 0) {
      writeFrame(this.link.memory, at, this.fields, time)
      this.link.commit(bytes, 'soon')
    } else {
      const memory = allocate(bytes)
      writeFrame(memory, 0, this.fields, time)
      this.link.post(memory, bytes)
    }
    return time
  }

  /** Encodes the frame into memory of its own. */
  encode(bytes: number): Memory {
    const memory = allocate(bytes)
    const now = this.#now()
    writeFrame(memory, 0, this.fields, now)
    this.#ids.write(memory.i32, 0, now)
    return memory
  }

  /**
   * Writes the commit of a turn and returns its time. The frame has the id of the request, because the response's id is
   * derived from it.
   */
  writeEnd(bytes: number, id: FrameId, started: number): number {
    const at = this.link.reserve(bytes)
    const memory = at < 0 ? allocate(bytes) : this.link.memory
    const target = Math.max(at, 0)
    const ended = this.#now()
    writeFrame(memory, target, this.fields, ended)
    memory.f64[(target >> 3) + STARTED] = started // in the place of limit and priority
    memory.i32.set(id, (target >> 2) + ID)
    if (at < 0) this.link.post(memory, bytes)
    else this.link.commit(bytes, this.fields.correlation === 0 ? 'later' : 'soon')
    return ended
  }
}

/*
 * Queues messages that found no room in a mailbox, one queue per recipient, so that no message overtakes another. The
 * first message asks the host and waits. Once the host has accepted it, the messages behind it reserve free room by
 * themselves. The first one without room asks the host again. So a full mailbox costs its senders one question for each
 * time that it runs empty, not one for each message. A message that waits for the outbox alone does not ask: it
 * reserves its room when the host has read what is there.
 *
 * A broadcast goes to the host after all queued messages; later messages wait for its acknowledgement.
 */

const SENDS_BEHIND_A_REQUEST = 64
const EVERYBODY = -1

/** A message that waits for room. */
export interface Queued {
  readonly kind: 'send' | 'request'
  /** Reserves room and writes the message. Returns false if there is no room. */
  reserve(): boolean
  /**
   * Writes the message to the host, which admits it when there is room. `isFirst`: no message before it waits at the
   * host, so it may still reserve room itself if it has to wait for the outbox.
   */
  ask(isFirst: boolean): void
  /**
   * Settles with the acknowledgement of a send or the response to a request. A message whose promise settles earlier is
   * never written.
   */
  readonly settled: Promise<unknown>
}

interface Line {
  /** Sends at the host whose acknowledgement is outstanding. */
  sends: number
  /**
   * Requests at the host. The response is their only acknowledgement; until it arrives no message may reserve room by
   * itself.
   */
  requests: number
  readonly queued: Queued[]
}

export class SendQueue {
  readonly #outbox: Outbox
  readonly #waits: ReadonlyMap<number, unknown>
  readonly #lines = new Map<number, Line>()
  /** True if no message waits for room, or for the host to accept it. To be read only. */
  isEmpty = true

  constructor(outbox: Outbox, waits: ReadonlyMap<number, unknown>) {
    this.#outbox = outbox
    this.#waits = waits
  }

  /** Checks whether later messages to that agent must join the queue too. */
  open(recipient: number): boolean {
    return this.#lines.size > 0 && (this.#lines.has(recipient) || this.#lines.has(EVERYBODY))
  }

  /**
   * Appends the message that the fields of the outbox describe to its recipient's queue. `reserved` is called once the
   * message has room, `onSent` with its id once it is sent. For `settled` see `Queued`.
   */
  add(
    kind: Queued['kind'],
    bytes: number,
    settled: Promise<unknown>,
    reserved: () => void,
    onSent?: (id: string) => void,
  ): void {
    this.append(this.#outbox.fields.recipient, this.#queued(kind, bytes, settled, reserved, onSent))
  }

  append(recipient: number, message: Queued): void {
    const line = this.#lineOf(recipient)
    line.queued.push(message)
    const done = () => {
      const at = line.queued.indexOf(message)
      if (at >= 0) line.queued.splice(at, 1)
      this.#advance(recipient, line)
    }
    message.settled.then(done, done)
    this.#advance(recipient, line)
  }

  #queued(
    kind: Queued['kind'],
    bytes: number,
    settled: Promise<unknown>,
    reserved: () => void,
    onSent?: (id: string) => void,
  ): Queued {
    const { link } = this.#outbox
    const { recipient, turn, step, correlation } = this.#outbox.fields
    const frame = this.#outbox.encode(bytes)
    const isWithdrawn = () => !this.#waits.has(correlation) // withdrawn a moment ago: the queue does not know it yet
    const reserveLate = () => {
      if (isWithdrawn() || !link.reserveRoom(recipient, bytes, turn, step)) return false
      clearFlag(frame, 0, ASKS)
      setCorrelation(frame, 0, 0) // a send that has room awaits no acknowledgement
      return true
    }
    return {
      kind,
      settled,
      reserve: () => {
        if (isWithdrawn()) return true
        if (recipient === NOBODY || link.reserve(bytes) < 0 || !link.reserveRoom(recipient, bytes, turn, step))
          return false
        if (kind === 'send') setCorrelation(frame, 0, 0) // a send that has room awaits no acknowledgement
        link.put(frame, bytes, kind === 'send' ? 'soon' : 'now')
        reserved()
        onSent?.(idOf(frame, 0))
        return true
      },
      ask: (isFirst) => {
        if (isWithdrawn()) return
        setFlag(frame, 0, ASKS)
        link.post(
          frame,
          bytes,
          isFirst && kind === 'send' && recipient !== NOBODY ? { reserve: reserveLate, reserved } : undefined,
        )
        onSent?.(idOf(frame, 0))
      },
    }
  }

  /** Notes a send that an earlier attempt of the turn has already passed to the host. */
  asked(recipient: number, acknowledgement: Promise<unknown>): void {
    this.#awaitHost(recipient, this.#lineOf(recipient), 'send', acknowledgement)
  }

  /** Passes all queued messages to the host before a broadcast, so that the broadcast overtakes none. */
  askAll(): void {
    for (const [recipient, line] of this.#lines)
      for (let next = line.queued.shift(); next; next = line.queued.shift()) this.#ask(recipient, line, next, false)
  }

  /** Notes a broadcast at the host. Until its acknowledgement arrives no message may reserve room by itself. */
  askedAll(acknowledgement: Promise<unknown>): void {
    this.asked(EVERYBODY, acknowledgement)
  }

  #lineOf(recipient: number): Line {
    let line = this.#lines.get(recipient)
    if (!line) {
      line = { sends: 0, requests: 0, queued: [] }
      this.#lines.set(recipient, line)
      this.isEmpty = false
    }
    return line
  }

  #awaitHost(recipient: number, line: Line, kind: Queued['kind'], settled: Promise<unknown>): void {
    const count = kind === 'send' ? 'sends' : 'requests'
    line[count] += 1
    const done = () => {
      line[count] -= 1
      if (recipient === EVERYBODY) for (const [of, waiting] of [...this.#lines]) this.#advance(of, waiting)
      else this.#advance(recipient, line)
    }
    settled.then(done, done)
  }

  #ask(recipient: number, line: Line, next: Queued, isFirst: boolean): void {
    next.ask(isFirst)
    this.#awaitHost(recipient, line, next.kind, next.settled)
  }

  #advance(recipient: number, line: Line): void {
    for (let next = line.queued[0]; next; next = line.queued[0]) {
      const sends = line.sends + (this.#lines.get(EVERYBODY)?.sends ?? 0)
      const first = sends === 0 && line.requests === 0
      if (first && next.reserve()) {
        line.queued.shift()
        continue
      }
      if (next.kind === 'send' && sends >= (line.requests > 0 ? SENDS_BEHIND_A_REQUEST : 1)) return
      line.queued.shift()
      this.#ask(recipient, line, next, first)
    }
    if (line.sends > 0 || line.requests > 0 || this.#lines.get(recipient) !== line) return
    this.#lines.delete(recipient)
    this.isEmpty = this.#lines.size === 0
  }
}
