/** Frames that the host itself writes: messages of outside callers, answers, notices. Each has memory of its own. */
import type { TeamNotice } from '../../actors/definition/assignment.ts'
import type { Scheduler } from '../../clock.ts'
import { type DramatisError, errorData } from '../../errors.ts'
import { MISMATCH_MODES, type OnMismatch } from '../../mailbox/envelope.ts'
import { ABORT, BLANK, FAILED, type FrameFields, HEADER, REPLAY, RUN, TEAM, writeControl } from '../../mailbox/frame.ts'
import { frameBytes, writeFrame } from '../../mailbox/frame-body.ts'
import { IdSource, idText } from '../../mailbox/frame-id.ts'
import { type Envelope, LANES } from '../../mailbox/mailbox.ts'
import { allocate, type Memory } from '../../mailbox/memory.ts'

export interface OwnFrame {
  memory: Memory
  bytes: number
}

/** Fields of a request from an outside caller. */
export type Question = Pick<FrameFields, 'content'> &
  Partial<Pick<FrameFields, 'type' | 'data' | 'metadata' | 'threadId' | 'priority' | 'limit'>> & {
    /** The answer comes in pieces. */
    readonly streams?: boolean
  }

export class HostFrames {
  readonly #clock: Scheduler
  readonly #ids: IdSource
  readonly #scratch = new Int32Array(16)

  constructor(clock: Scheduler) {
    this.#clock = clock
    this.#ids = new IdSource(() => clock.random())
  }

  /** Returns an id for any purpose. It is made like the id of a message, so it follows from the clock and its seed. */
  id(): string {
    this.#ids.write(this.#scratch, 0, this.#clock.now())
    const [a = 0, b = 0, c = 0, d = 0] = this.#scratch.subarray(8)
    return idText(a, b, c, d)
  }

  make(fields: Partial<FrameFields> & { kind: number }): OwnFrame {
    const whole = { ...BLANK, ...fields }
    const bytes = frameBytes(whole)
    const memory = allocate(bytes)
    const now = this.#clock.now()
    writeFrame(memory, 0, whole, now)
    this.#ids.write(memory.i32, 0, now)
    return { memory, bytes }
  }

  /** Makes an answer that is an error. */
  failure(
    kind: number,
    fields: Pick<FrameFields, 'sender' | 'recipient' | 'run' | 'turn' | 'correlation'> &
      Partial<Pick<FrameFields, 'threadId' | 'metadata'>>,
    error: DramatisError,
  ): OwnFrame {
    return this.make({ kind, flags: FAILED, type: 'response', data: JSON.stringify(errorData(error)), ...fields })
  }

  /**
   * Makes an abort for a message that was handed over. It names the message's place in the ring, so that the thread can
   * tell whether the message has begun.
   */
  abort(run: number, { turn, lane, windowAt, windowEnd }: Envelope<unknown>, error: DramatisError): OwnFrame {
    const place = { step: windowAt, limit: windowEnd, priority: LANES.indexOf(lane) }
    return this.make({ kind: ABORT, run, turn, ...place, data: JSON.stringify(errorData(error)) })
  }

  runNotice(run: number, id: string, notice: object): OwnFrame {
    return this.make({ kind: RUN, run, content: id, data: JSON.stringify(notice) })
  }

  /** Makes a notice of agents that have joined, or of all that are there now; `run` 0: in the whole team. */
  teamNotice(run: number, notice: TeamNotice): OwnFrame {
    return this.make({ kind: TEAM, run, data: JSON.stringify(notice) })
  }

  control(kind: number, run: number, turn: number): OwnFrame {
    const memory = allocate(HEADER)
    writeControl(memory, 0, kind, 0, 0, run, turn, 0, 0)
    return { memory, bytes: HEADER }
  }

  /** Joins the logged frames of a turn behind one header; undefined if there are none. */
  replay(
    turn: number,
    frames: readonly { memory: Memory; at: number; bytes: number }[],
    onMismatch?: OnMismatch,
  ): OwnFrame | undefined {
    if (frames.length === 0) return undefined
    const bytes = frames.reduce((sum, frame) => sum + frame.bytes, HEADER)
    const memory = allocate(bytes)
    writeControl(memory, 0, REPLAY, 0, 0, 0, turn, MISMATCH_MODES.indexOf(onMismatch), 0)
    memory.i32[0] = bytes
    let to = HEADER
    for (const frame of frames) {
      memory.u8.set(frame.memory.u8.subarray(frame.at, frame.at + frame.bytes), to)
      to += frame.bytes
    }
    return { memory, bytes }
  }
}
