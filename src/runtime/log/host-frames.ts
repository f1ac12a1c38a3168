/** Frames that the host itself writes: messages of outside callers, answers, notices. Each has memory of its own. */
import type { TeamNotice } from '../../actors/definition/assignment.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  ABORT,
  allocate,
  BLANK,
  FAILED,
  type FrameFields,
  flagsOf,
  frameBytes,
  HAS_THREAD,
  HEADER,
  IdSource,
  idOf,
  idText,
  kindOf,
  LOG,
  limitOf,
  type Memory,
  REPLAY,
  RUN,
  readBody,
  STEP_BEGAN,
  STEP_DONE,
  TEAM,
  writeControl,
  writeFrame,
} from '../../mailbox/frame.ts'
import { type Envelope, MISMATCH_MODES, type OnMismatch, RINGS } from '../../mailbox/mailbox.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { type DramatisError, type ErrorCode, type ErrorData, errorData } from '../../shared/errors.ts'
import { thrownData } from '../../shared/thrown.ts'
import type { ToolEvent, ToolFinished } from './records.ts'

export interface OwnFrame {
  memory: Memory
  bytes: number
}

export type Question = Pick<FrameFields, 'content'> &
  Partial<Pick<FrameFields, 'type' | 'data' | 'metadata' | 'threadId' | 'priority' | 'limit'>> & {
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
  abort(
    run: number,
    { turn, ring, ringAt: windowAt, ringEnd: windowEnd }: Envelope<unknown>,
    error: DramatisError,
  ): OwnFrame {
    const place = { step: windowAt, limit: windowEnd, priority: RINGS.indexOf(ring) }
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

/*
 * Errors that a thread reports. Code in the thread can forge them, so they are checked, and cut to a length that can be
 * passed on.
 */

/** Maximum length of a message, of the details as JSON, and of a tool's output as JSON. */
const LONGEST = 65_536

/** Returns the error; undefined if the value is none. */
export function errorIn(told: unknown): ErrorData | undefined {
  const { code, message, details, cause } = Object(told) as Record<string, unknown>
  if (typeof code !== 'string' || typeof message !== 'string') return undefined
  return {
    code: code as ErrorCode,
    message: message.slice(0, LONGEST),
    details: isShort(details) ? details : {},
    ...(cause !== undefined && { cause: thrownData(cause) }),
  }
}

function isShort(details: unknown): details is Record<string, unknown> {
  if (typeof details !== 'object' || details === null || Array.isArray(details)) return false
  try {
    return JSON.stringify(details).length <= LONGEST
  } catch {
    return false // not JSON
  }
}

/** Returns the field that says what a tool has returned, from its output as JSON: '' and undefined are none. */
export function outputField(json: string | undefined): Pick<ToolFinished, 'output'> {
  if (!json) return {}
  return { output: json.length <= LONGEST ? jsonIn(json) : `${json.slice(0, LONGEST)}…` }
}

/** Returns the tool event of a frame; undefined if it has none. A step that is a tool call carries the call's id. */
export function toolEventOf(memory: Memory, at: number, agent: string): ToolEvent | undefined {
  if ((flagsOf(memory, at) & HAS_THREAD) === 0) return undefined
  const kind = kindOf(memory, at)
  if (kind !== STEP_BEGAN && kind !== STEP_DONE && kind !== LOG) return undefined
  const { content, data, threadId: callId = '' } = readBody(memory, at)
  const messageId = idOf(memory, at)
  switch (kind) {
    case STEP_BEGAN:
      return { type: 'tool.started', agent, messageId, callId, tool: content, input: jsonIn(data) }
    case STEP_DONE: {
      const error = isFailure(memory, at) ? errorOf(memory, at) : null
      return {
        type: 'tool.finished',
        agent,
        messageId,
        callId,
        tool: content,
        durationMs: Math.max(0, limitOf(memory, at)),
        ...(!error && outputField(data)),
        error,
      }
    }
    default: {
      const { tool } = Object(jsonIn(data)) as { tool?: unknown }
      return { type: 'tool.progress', agent, messageId, callId, tool: String(tool), note: content }
    }
  }
}
