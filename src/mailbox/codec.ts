import { type DramatisError, type ErrorData, errorFrom } from '../shared/errors.ts'
import {
  answerMsOf,
  type Body,
  CANCEL,
  CORRELATION,
  correlationOf,
  END,
  FAILED,
  type FrameId,
  flagsOf,
  HAS_METADATA,
  idOf,
  idText,
  KIND,
  kindOf,
  LIMIT,
  MANY,
  type Memory,
  NOBODY,
  PRIORITY,
  REQUEST,
  RESPONSE,
  RUN_INDEX,
  readBody,
  readId,
  recipientOf,
  SEND,
  STEP,
  senderOf,
  TIME,
  TO_ALL,
  WHO,
} from './frame.ts'
import { nestsTooDeep } from './json.ts'
import {
  ACTING,
  type AgentMessage,
  FIXED_NAMES,
  MESSAGE_TYPES,
  type MessageType,
  ORCHESTRATOR,
  type TypedMessage,
} from './message.ts'
import { type MessagePart, PARTS, partsIn } from './parts.ts'
import { type ReadBytes, readableParts } from './stored-parts.ts'
import { failedSubTask, headIn, resultOfSubTask, SUB_TASK, type SubTaskHead } from './sub-task.ts'

/** Resolves names and run ids, because a frame has only their indices. */
export interface Directory {
  name(index: number): string
  runId(index: number): string
  /** Returns what reads the stored bytes with that hash for a run; undefined: parts with them stay references. */
  bytesOf?(run: number, hash: string): ReadBytes | undefined
}

/** Checks whether the frame is a message, as shown in history. An END is one if it carries a reply. */
export function isMessage(memory: Memory, at: number): boolean {
  const kind = kindOf(memory, at)
  return kind === SEND || kind === REQUEST || ((kind === END || kind === RESPONSE) && correlationOf(memory, at) !== 0)
}

/**
 * Checks whether the frame is one recipient's copy of a message to several. The original precedes its copies and has
 * the same id. History shows it once, as it was sent.
 */
export function isCopy(memory: Memory, at: number): boolean {
  return isToMany(memory, at) && !isHead(memory, at)
}

/** Checks whether the frame is the original of a message to several. Only its copies are delivered. */
export function isHead(memory: Memory, at: number): boolean {
  if (!isToMany(memory, at) || recipientOf(memory, at) !== NOBODY) return false
  return correlationOf(memory, at) === 0 || (flagsOf(memory, at) & TO_ALL) !== 0
}

const isToMany = (memory: Memory, at: number) => kindOf(memory, at) === SEND && (flagsOf(memory, at) & MANY) !== 0

export function isFailure(memory: Memory, at: number): boolean {
  return (flagsOf(memory, at) & FAILED) !== 0
}

/** Returns the error that a failed END, RESPONSE or REFUSED carries. */
export function errorOf(memory: Memory, at: number): DramatisError {
  return errorFrom(jsonIn(readBody(memory, at).data) as ErrorData)
}

/**
 * Parses a JSON text of a frame. Our own thread code writes only JSON, nested 1,000 levels at most. Text that is no
 * JSON, or is nested deeper, returns null.
 */
export function jsonIn(text: string | undefined): unknown {
  if (text === undefined || nestsTooDeep(text)) return null
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

/** Parses metadata; returns an empty object if it is no object. */
function metadataIn(text: string | undefined): Record<string, unknown> {
  const metadata = jsonIn(text)
  return typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : {}
}

/**
 * Returns the agent in whose name the protocol script gives a task or asks for a proposal; undefined for any other
 * message. No agent can claim it: the sender of a frame is checked.
 */
export function actingSender(memory: Memory, at: number): string | undefined {
  return senderOf(memory, at) === SCRIPT && kindOf(memory, at) === REQUEST ? actingAt(memory, at) : undefined
}

/** Returns the agent in whose name the script has given the task that is answered; undefined for any other message. */
export function actingRecipient(memory: Memory, at: number): string | undefined {
  const kind = kindOf(memory, at)
  const isAnswer = (kind === END || kind === RESPONSE) && recipientOf(memory, at) === SCRIPT
  return isAnswer ? actingAt(memory, at) : undefined
}

/** Returns the agent that the metadata name as `actingSender`; of a handoff, for whom the task was given. */
export function actingAt(memory: Memory, at: number): string | undefined {
  return (flagsOf(memory, at) & HAS_METADATA) !== 0 ? actingIn(readBody(memory, at).metadata) : undefined
}

function actingIn(metadata: string | undefined): string | undefined {
  const name = metadata?.includes(ACTING) ? metadataIn(metadata)[ACTING] : undefined
  return typeof name === 'string' ? name : undefined
}

const SCRIPT = FIXED_NAMES.indexOf(ORCHESTRATOR)

/** Returns the parts that a message has beside its content, as they cross threads; undefined if there are none. */
export function partsOf(memory: Memory, at: number): MessagePart[] | undefined {
  const { metadata } = (flagsOf(memory, at) & HAS_METADATA) !== 0 ? readBody(memory, at) : { metadata: undefined }
  return metadata?.includes(PARTS) ? partsIn(metadataIn(metadata)) : undefined
}

/**
 * Decodes a complete message into its own memory. A failed response has the error's text as its content, and the error
 * in its metadata.
 */
export function decodeMessage(memory: Memory, at: number, directory: Directory): TypedMessage {
  const received = new ReceivedMessage(memory, at, readId(memory, at), directory)
  const message = received.toJSON()
  const kind = kindOf(memory, at)
  if ((kind !== END && kind !== RESPONSE) || !isFailure(memory, at)) return message
  const { code, message: content } = errorOf(memory, at)
  const structuredData = received.subTask ? failedSubTask(received.subTask, content, code) : null
  return { ...message, content, structuredData, metadata: { error: jsonIn(readBody(memory, at).data) } }
}

/** Returns the fields that an answer has of the request at `at`: its thread, and what `answeredBy` says. */
export function answering(memory: Memory, at: number): Partial<Pick<Body, 'threadId' | 'metadata'>> {
  const { threadId, metadata } = readBody(memory, at)
  const told = answeredBy(subTaskAt(memory, at), actingIn(metadata))
  return { ...(threadId !== undefined && { threadId }), ...(told && { metadata: JSON.stringify(told) }) }
}

/** Returns the metadata of an answer to a sub-task, or to a task in an agent's name; undefined for most answers. */
export function answeredBy(subTask: SubTaskHead | undefined, acting: string | undefined): object | undefined {
  if (!subTask && acting === undefined) return undefined
  return { ...(subTask && { [SUB_TASK]: subTask }), ...(acting !== undefined && { [ACTING]: acting }) }
}

/** Returns the head of the sub-task that the message gives or answers; undefined for most messages. */
export function subTaskAt(memory: Memory, at: number): SubTaskHead | undefined {
  const { data, metadata } = readBody(memory, at)
  return subTaskIn(metadata, () => idOf(memory, at)) ?? subTaskOf(data)
}

function subTaskIn(metadata: string | undefined, id: () => string): SubTaskHead | undefined {
  return metadata?.includes(SUB_TASK)
    ? headIn({ subTaskId: id(), ...Object(metadataIn(metadata)[SUB_TASK]) })
    : undefined
}

/** Checks for the metadata of a message that is no sub-task. */
export function saysNoSubTask(metadata: string | undefined): boolean {
  if (!metadata?.includes(SUB_TASK)) return false
  const mark = metadataIn(metadata)[SUB_TASK]
  return typeof mark === 'object' && mark !== null && !('assignedAgentRole' in mark)
}

/** Returns the metadata without the word that the message is no sub-task, as earlier versions wrote them. */
export function withoutMark(metadata: string | undefined): string | undefined {
  if (!saysNoSubTask(metadata)) return metadata
  const { [SUB_TASK]: mark, ...rest } = metadataIn(metadata)
  return Object.keys(Object(mark)).length > 0 ? metadata : JSON.stringify(rest)
}

/** Returns the head of the sub-task that data are. Other data are not parsed. */
function subTaskOf(data: string | undefined): SubTaskHead | undefined {
  return data?.includes('"subTaskId"') ? headIn(jsonIn(data)) : undefined
}

function recipientName(memory: Memory, at: number, body: Body, directory: Directory): string | string[] | null {
  if (flagsOf(memory, at) & TO_ALL) return null
  if (body.name !== undefined && isToMany(memory, at) && !isStray(memory, at)) return jsonIn(body.name) as string[]
  return body.name ?? directory.name(recipientOf(memory, at))
}

/** Returns the one agent that the frame itself is for, even if its message is for several. */
export function addresseeOf(memory: Memory, at: number, directory: Directory): string {
  const { name } = readBody(memory, at)
  const known = name === undefined || recipientOf(memory, at) !== NOBODY
  return known ? directory.name(recipientOf(memory, at)) : name
}

/** Checks for a copy for an unknown agent. Such a copy has that agent's name only. */
const isStray = (memory: Memory, at: number) => recipientOf(memory, at) === NOBODY && correlationOf(memory, at) !== 0

/**
 * Returns the id of a message. A response has its request's id with the last bit set, so each id follows from the
 * other.
 */
export function messageIdOf(memory: Memory, at: number): string {
  const id = idOf(memory, at)
  const kind = kindOf(memory, at)
  if (kind !== END && kind !== RESPONSE) return id
  return id.slice(0, -1) + (Number.parseInt(id.slice(-1), 16) | 1).toString(16)
}

/** The metadata of a message, and its parts. */
interface Beside {
  readonly metadata: Record<string, unknown>
  readonly parts: readonly MessagePart[] | undefined
}

/** A message in memory of its own. Id, structured data and metadata are decoded on first access. */
export class ReceivedMessage implements AgentMessage {
  readonly type: MessageType
  readonly sender: string
  readonly recipient: string | string[] | null
  readonly content: string
  readonly priority: number
  readonly requiresResponse: boolean
  readonly responseTimeoutMs: number | null
  readonly threadId: string | null
  readonly runId: string
  readonly sentAt: number
  readonly #id: FrameId
  #data: string | undefined
  #structuredData: unknown = null
  /** Head of the sub-task whose result the data are still to become. */
  #answers: SubTaskHead | undefined
  readonly #metadata: string | undefined
  /** Set once they are read. */
  #beside: Beside | undefined
  readonly #run: number
  readonly #directory: Directory

  constructor(memory: Memory, at: number, id: FrameId, directory: Directory) {
    const { i32 } = memory
    const i = at >> 2
    const word = i32[i + KIND]!
    const who = i32[i + WHO]!
    const run = i32[i + RUN_INDEX]!
    const kind = word & 0xff
    const body = readBody(memory, at)
    const response = kind === END || kind === RESPONSE
    const limit = i32[i + LIMIT]!
    const hasMore = body.metadata !== undefined
    const isPlain = ((word >>> 8) & TO_ALL) === 0 && body.name === undefined
    this.type = response ? 'response' : (MESSAGE_TYPES[(word >>> 24) & 7] ?? 'request')
    this.sender = (hasMore ? actingSender(memory, at) : undefined) ?? directory.name(who & 0xffff)
    const answered = response && hasMore ? actingRecipient(memory, at) : undefined
    this.recipient = answered ?? (isPlain ? directory.name(who >>> 16) : recipientName(memory, at, body, directory))
    this.content = body.content
    this.priority = response ? 0 : i32[i + PRIORITY]!
    this.requiresResponse = kind === REQUEST
    this.responseTimeoutMs = response || limit === -1 ? null : (answerMsOf(limit) ?? null)
    this.threadId = body.threadId ?? null
    this.runId = directory.runId(run)
    this.sentAt = memory.f64[(at >> 3) + TIME]!
    this.#id = id
    this.#data = body.data
    this.#metadata = body.metadata
    this.#answers = response && hasMore ? subTaskIn(body.metadata, () => idText(...id)) : undefined
    this.#run = run
    this.#directory = directory
  }

  get id(): string {
    const [a, b, c, d] = this.#id
    return idText(a, b, c, this.type === 'response' ? d | 1 : d)
  }

  get correlationId(): string | null {
    return this.type === 'response' ? idText(...this.#id) : null
  }

  get structuredData(): unknown {
    if (this.#data !== undefined) {
      this.#structuredData = jsonIn(this.#data)
      this.#data = undefined
    }
    if (this.#answers) {
      this.#structuredData = resultOfSubTask(this.#answers, this.content, this.#structuredData)
      this.#answers = undefined
    }
    return this.#structuredData
  }

  /** Head of the sub-task that the message gives or answers; undefined for most messages. */
  get subTask(): SubTaskHead | undefined {
    const named = subTaskIn(this.#metadata, () => idText(...this.#id))
    if (named || this.type === 'response') return named
    if (this.#data !== undefined) return subTaskOf(this.#data)
    return this.#structuredData === null ? undefined : headIn(this.#structuredData)
  }

  /** Agent in whose name the script has given the task; the answer is for it. Undefined for most messages. */
  get acting(): string | undefined {
    return actingIn(this.#metadata)
  }

  /** Identifier of the run of whose sub-tasks the message is one, or makes some; undefined for most messages. */
  get parentTaskId(): string | undefined {
    if (!this.#metadata?.includes(SUB_TASK)) return this.subTask?.parentTaskId
    const { parentTaskId } = Object(metadataIn(this.#metadata)[SUB_TASK]) as { parentTaskId?: unknown }
    return typeof parentTaskId === 'string' ? parentTaskId : undefined
  }

  get metadata(): Record<string, unknown> {
    return this.#read().metadata
  }

  // The type says that it is absent, as in JSON: an accessor that returns undefined is the same to who reads it.
  get parts(): readonly MessagePart[] | undefined {
    return this.#read().parts
  }

  /** Reads the metadata once: what a handler writes into them stays. */
  #read(): Beside {
    if (!this.#beside) {
      const all = metadataIn(this.#metadata)
      const { [PARTS]: _parts, [SUB_TASK]: _subTask, [ACTING]: _acting, ...metadata } = all
      const parts = partsIn(all)
      const bytesOf = ({ hash }: { hash: string }) => this.#directory.bytesOf?.(this.#run, hash)
      this.#beside = { metadata, parts: parts && readableParts(parts, bytesOf) }
    }
    return this.#beside
  }

  toJSON(): TypedMessage {
    const { id, type, sender, recipient, content, structuredData, priority, requiresResponse } = this
    const { responseTimeoutMs, threadId, metadata, parts, runId, correlationId, sentAt } = this
    const message: AgentMessage = {
      id,
      type,
      sender,
      recipient,
      content,
      structuredData,
      priority,
      requiresResponse,
      responseTimeoutMs,
      threadId,
      metadata,
      ...(parts && { parts }),
      runId,
      correlationId,
      sentAt,
    }
    return message as TypedMessage
  }
}

/*
 * A mark names the answer, or the piece of one, that a thread had got last for a turn. Frames for what the thread
 * settles by itself carry one, since answers stand in the log where the host has sent them: STEP_DONE and SLEPT in the
 * fields correlation and priority, CANCEL in step and priority.
 */

export interface Mark {
  /** Number of the wait that was answered. */
  readonly correlation: number
  /** Number of the piece; 0: the answer itself, or its end. */
  readonly piece: number
}

/** Nothing had been answered. Frames of older versions have 0 and 0: they do not tell. */
export const UNANSWERED: Mark = { correlation: 0, piece: -1 }

const placeOf = (memory: Memory, at: number) => (at >> 2) + (kindOf(memory, at) === CANCEL ? STEP : CORRELATION)

export function markOf(memory: Memory, at: number): Mark {
  return { correlation: memory.i32[placeOf(memory, at)]!, piece: memory.i32[(at >> 2) + PRIORITY]! }
}

/** Sets the mark of a frame that has its kind. */
export function setMark(memory: Memory, at: number, { correlation, piece }: Mark): void {
  memory.i32[placeOf(memory, at)] = correlation
  memory.i32[(at >> 2) + PRIORITY] = piece
}
