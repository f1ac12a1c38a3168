/**
 * Keeps messages that no agent will handle, with the reason, so that nothing is dropped silently. The list is bounded,
 * and counts the entries that it gives up.
 */
import type { DramatisError } from '../shared/errors.ts'
import { type AgentMessage, jsonIssue, MESSAGE_TYPES, USER } from './message.ts'

/** The reason why a message is not handled. */
export type DeadLetterReason =
  | 'failed'
  | 'late'
  | 'expired'
  | 'unknown_agent'
  | 'stopped'
  | 'rejected'
  | 'overflow'
  | 'poison'
  | 'cancelled'

/**
 * A message that one recipient will not handle. `message.recipient` is that recipient, even if the message was for
 * several.
 *
 * If a message was refused as invalid or too large, `message` holds its valid and small parts, and `metadata.omitted`
 * names the other fields. `at` is epoch ms. `errors` are those of its attempts, the last one last.
 */
export interface DeadLetter {
  /** Id of the message, or an id of its own if the message has several dead letters. */
  id: string
  message: AgentMessage
  reason: DeadLetterReason
  errors: DramatisError[]
  at: number
}

const LETTERS = 10_000
const BYTES = 64 * 2 ** 20

/** Keeps the newest dead letters, limited by count and by the bytes of their messages. Removed ones stay counted. */
export class DeadLetterList {
  /** Dead letters by id, oldest first. */
  readonly #letters = new Map<string, { letter: DeadLetter; bytes: number }>()
  readonly #limit: number
  readonly #byteLimit: number
  #bytes = 0
  /** Number of all dead letters so far. */
  total = 0
  /** Number of dead letters given up because the list was full. */
  forgotten = 0
  /** Ids of messages that repeat a dead letter and are not accepted yet. Their dead letters are still in the list. */
  readonly replayed = new Set<string>()

  constructor(limit = LETTERS, byteLimit = BYTES) {
    this.#limit = limit
    this.#byteLimit = byteLimit
  }

  /**
   * Adds a dead letter, whose id must be unique. The newest one is kept, however large it is.
   *
   * @param bytes encoded size of the message
   */
  add(letter: DeadLetter, bytes: number): void {
    this.total += 1
    this.#letters.set(letter.id, { letter, bytes })
    this.#bytes += bytes
    while (this.length > this.#limit || (this.#bytes > this.#byteLimit && this.length > 1)) {
      this.delete(this.#letters.keys().next().value!)
      this.forgotten += 1
    }
  }

  get length(): number {
    return this.#letters.size
  }

  get(id: string): DeadLetter | undefined {
    return this.#letters.get(id)?.letter
  }

  /** Removes a dead letter that was sent again or is no longer wanted. Returns false if it is not in the list. */
  delete(id: string): boolean {
    this.#bytes -= this.#letters.get(id)?.bytes ?? 0
    return this.#letters.delete(id)
  }

  /** Dead letters with their bytes, oldest first. */
  get entries(): Iterable<{ readonly letter: DeadLetter; readonly bytes: number }> {
    return this.#letters.values()
  }

  list(): DeadLetter[] {
    return [...this.#letters.values()].map(({ letter }) => letter)
  }
}

/*
 * Extracts the parts of a refused message that are kept: those that are valid and small. A dead letter shows what the
 * sender tried, but must not hold data that was refused for its size.
 */

const CONTENT = 1_024
const JSON_TEXT = 4_096
const NAME = 256
const RECIPIENTS = 64

export type Remains = Omit<AgentMessage, 'id' | 'runId' | 'sentAt'>

/**
 * Returns the kept parts; undefined if the message has no recipient. `metadata.omitted` names the fields that were not
 * kept, or not completely.
 *
 * @param to the recipient, if it is known
 */
export function remainsOf(given: unknown, to?: string): Remains | undefined {
  const fields = new Fields(given)
  const recipient = to ?? fields.recipient()
  if (recipient === undefined) return undefined
  const content = fields.take('content', isText) ?? ''
  if (content.length > CONTENT) fields.omit('content')
  const metadata = fields.takeJson('metadata', isObject) ?? {}
  const remains = {
    type: fields.take('type', isType) ?? 'request',
    sender: fields.take('sender', isName) ?? USER,
    recipient,
    content: content.slice(0, CONTENT),
    structuredData: fields.takeJson('structuredData', isPresent) ?? null,
    priority: fields.take('priority', isInteger) ?? 0,
    requiresResponse: fields.take('requiresResponse', isFlag) ?? false,
    responseTimeoutMs: fields.take('responseTimeoutMs', isDuration) ?? null,
    threadId: fields.take('threadId', isName) ?? null,
    correlationId: fields.take('correlationId', isName) ?? null,
  }
  return {
    ...remains,
    metadata: fields.omitted.length > 0 ? { ...metadata, omitted: fields.omitted } : { ...metadata },
  }
}

class Fields {
  readonly #given: unknown
  readonly omitted: string[] = []

  constructor(given: unknown) {
    this.#given = given
  }

  omit(field: string): void {
    this.omitted.push(field)
  }

  take<T>(field: string, fits: (value: unknown) => value is T): T | undefined {
    const value = this.#get(field)
    if (value === undefined || value === null) return undefined
    try {
      if (fits(value)) return value
    } catch {} // the value throws when it is read, so it cannot be kept
    this.omit(field)
    return undefined
  }

  /** Returns a copy of the field's current value, because the original may change or throw later. */
  takeJson<T>(field: string, fits: (value: unknown) => value is T): T | undefined {
    const value = this.#get(field)
    if (value === undefined || value === null) return undefined
    try {
      const text = jsonIssue(value) === undefined ? JSON.stringify(value) : ''
      const copy: unknown = text.length <= JSON_TEXT ? JSON.parse(text) : undefined
      if (fits(copy)) return copy
    } catch {} // the value is no JSON, or throws when it is read
    this.omit(field)
    return undefined
  }

  recipient(): string | string[] | undefined {
    const value = this.#get('recipient')
    if (isName(value)) return value
    try {
      return Array.isArray(value) ? this.#names(value) : undefined
    } catch {
      return undefined // the value throws when it is read
    }
  }

  #names(value: readonly unknown[]): string[] | undefined {
    const names = value.slice(0, RECIPIENTS).filter(isName)
    if (names.length < value.length) this.omit('recipient')
    return names.length > 0 ? names : undefined
  }

  #get(field: string): unknown {
    try {
      return Reflect.get(Object(this.#given), field) as unknown
    } catch {
      return undefined
    }
  }
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isName = (value: unknown): value is string => isText(value) && value !== '' && value.length <= NAME
const isFlag = (value: unknown): value is boolean => typeof value === 'boolean'
const isInteger = (value: unknown): value is number => Number.isInteger(value) && (Number(value) | 0) === value
const isDuration = (value: unknown): value is number => typeof value === 'number' && value >= 0
const isType = (value: unknown): value is AgentMessage['type'] => MESSAGE_TYPES.some((type) => type === value)
const isPresent = (value: unknown): value is NonNullable<unknown> => value !== undefined && value !== null
const isObject = (value: unknown): value is object =>
  isPresent(value) && typeof value === 'object' && !Array.isArray(value)
