/**
 * Extracts the parts of a refused message that are kept: those that are valid and small. A dead letter shows what the
 * sender tried, but must not hold data that was refused for its size.
 */
import { type AgentMessage, jsonIssue, MESSAGE_TYPES, USER } from './message.ts'

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
