/** Writes this agent's frames into the shared ring. Without room they wait, in order, in memory of their own. */
import { BLANK, type FrameFields, PART, setTimes } from '../../mailbox/frame.ts'
import { frameBytes, writeFrame } from '../../mailbox/frame-body.ts'
import { type FrameId, IdSource, writeId } from '../../mailbox/frame-id.ts'
import { allocate, type Memory } from '../../mailbox/memory.ts'
import { tooLarge } from '../definition/checks.ts'
import type { GrantedKeys } from './granted-keys.ts'
import type { Link, Urgency } from './link.ts'

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
    const bytes = this.size()
    if (bytes > this.maxMessageBytes) throw tooLarge(bytes, this.maxMessageBytes)
    return bytes
  }

  /** Writes the frame into the ring if there is room, otherwise queues it behind the frames that wait for room. */
  write(bytes: number, urgency: Urgency): void {
    const at = this.link.reserve(bytes)
    if (at < 0) return this.link.post(this.encode(bytes), bytes)
    this.#encodeAt(this.link.memory, at)
    this.link.commit(bytes, urgency)
  }

  /** Writes the frame at the place that `Link.reserve` has returned for it. */
  writeAt(at: number, bytes: number, urgency: Urgency): void {
    this.#encodeAt(this.link.memory, at)
    this.link.commit(bytes, urgency)
  }

  /** Writes the bytes of a part for a run. */
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
    writeId(memory, Math.max(at, 0), id)
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
    this.#encodeAt(memory, 0)
    return memory
  }

  #encodeAt(memory: Memory, at: number): void {
    const now = this.#now()
    writeFrame(memory, at, this.fields, now)
    this.#ids.write(memory.i32, at, now)
  }

  /**
   * Writes the commit of a turn and returns its time. The frame has the id of the request, because the response's id is
   * derived from it.
   */
  writeEnd(bytes: number, id: FrameId, started: number): number {
    const at = this.link.reserve(bytes)
    const memory = at < 0 ? allocate(bytes) : this.link.memory
    const target = Math.max(at, 0)
    writeFrame(memory, target, this.fields, 0)
    writeId(memory, target, id)
    const ended = this.#now()
    setTimes(memory, target, started, ended)
    if (at < 0) this.link.post(memory, bytes)
    else this.link.commit(bytes, this.fields.correlation === 0 ? 'later' : 'soon')
    return ended
  }
}
