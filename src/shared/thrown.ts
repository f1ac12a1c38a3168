/**
 * Errors, and anything else that was thrown, in words and as data that crosses threads and logs: with name, code and
 * status, causes, and the errors of an `AggregateError`, within bounds and without what looks like a key. It may throw
 * when it is looked at.
 */
import { own } from './values.ts'

/** Fields that Node, `fetch`, and clients of HTTP and of databases give their errors. */
const FIELDS = ['code', 'status', 'statusCode', 'errno', 'syscall', 'address', 'port', 'hostname'] as const

type Fields = Partial<Record<(typeof FIELDS)[number], string | number>>

/** Tokens and keys as the large providers issue them. */
export const SECRET_SHAPE =
  /\bBearer\s+[\w.~+/=-]{8,}|\bsk-[\w-]{16,}|\bAIza[\w-]{30,}|\bgsk_\w{20,}|\bxox[abprs]-[\w-]{10,}|\bgh[pousr]_\w{30,}/g
export const REDACTED = '[redacted]'

/** An error, or anything else that was thrown, as data. */
export interface ThrownData extends Fields {
  name: string
  message: string
  stack?: string
  cause?: ThrownData
  /** The errors of an `AggregateError`. */
  errors?: ThrownData[]
}

// All lengths are in characters.
const LONGEST_FIELD = 200
const LONGEST_MESSAGE = 2_000
const LONGEST_STACK = 20_000 // it begins with the whole message
const LONGEST_INNER_STACK = 2_000
const LONGEST_DESCRIPTION = 2_000
/** A shorter message can be in a text by chance. */
const SHORTEST_REPEATED = 8
const MOST = 16

/** Mark of the errors of this library, whose messages say what lies beneath them. */
export const BRAND = Symbol.for('dramatis.error')

/** Returns what was thrown as data. It also takes such data, which a stranger may have written. */
export function thrownData(thrown: unknown, longestStack = LONGEST_STACK, seen = new Set<unknown>()): ThrownData {
  seen.add(thrown)
  const stack = textIn(thrown, 'stack', longestStack)
  const data: ThrownData = {
    name: textIn(thrown, 'name', LONGEST_FIELD) ?? 'Error',
    message: textIn(thrown, 'message', LONGEST_MESSAGE) ?? cut(wordsOf(thrown), LONGEST_MESSAGE),
    ...(stack !== undefined && { stack }),
    ...fieldsOf(thrown),
  }
  const errors: ThrownData[] = []
  for (const { label, error } of beneath(thrown, seen)) {
    const inner = thrownData(error, LONGEST_INNER_STACK, seen)
    if (label === 'cause') data.cause = inner
    else errors.push(inner)
  }
  return errors.length === 0 ? data : { ...data, errors }
}

export const errorOf = (thrown: unknown): Error => made(thrownData(thrown))

const NATIVE: Readonly<Record<string, ErrorConstructor>> = {
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
}

function made({ name, message, stack, cause, errors, ...fields }: ThrownData): Error {
  const options = cause && { cause: made(cause) }
  const Class = own(NATIVE, name) ?? Error
  const error = errors ? new AggregateError(errors.map(made), message, options) : new Class(message, options)
  Object.defineProperty(error, 'name', { value: name, configurable: true, writable: true })
  error.stack = stack ?? `${name}: ${message}`
  return Object.assign(error, fields)
}

/**
 * Describes anything that can be thrown on one line, with what lies beneath it: `TypeError: fetch failed; cause: Error:
 * connect ECONNREFUSED 127.0.0.1:80`. What is no Error, such as `throw 'x'` or `throw undefined`, is described too.
 */
export function describe(thrown: unknown): string {
  const text = described(thrown, '', '', new Set())
  const short = cut(text, LONGEST_DESCRIPTION)
  return text.length > LONGEST_DESCRIPTION ? `${short}...` : short
}

/** Appends the words for an error, and for those beneath it, unless the text has them: many repeat their cause's. */
function described(thrown: unknown, label: string, before: string, seen: Set<unknown>): string {
  seen.add(thrown)
  const words = cut(wordsOf(thrown), LONGEST_MESSAGE)
  if (has(thrown, BRAND)) return `${before}${label}${words}`
  const { code, status, statusCode = status } = isError(thrown) ? fieldsOf(thrown) : {}
  const message = textIn(thrown, 'message', LONGEST_MESSAGE) ?? ''
  const isSaid = before.includes(message.length < SHORTEST_REPEATED ? words : message)
  const said = isSaid ? before : `${before}${label}${words}`
  const marks = [code, statusCode === undefined ? undefined : `status ${statusCode}`]
  const unsaid = marks.filter((mark) => mark !== undefined && !said.includes(`${mark}`)).join(', ')
  const head = isSaid && unsaid !== '' ? `${label}${textIn(thrown, 'name', LONGEST_FIELD)}` : ''
  let text = `${said}${head}${unsaid === '' ? '' : ` (${unsaid})`}`
  for (const { label, error } of beneath(thrown, seen)) text = described(error, `; ${label}: `, text, seen)
  return text
}

function* beneath(thrown: unknown, seen: Set<unknown>): Generator<{ label: 'cause' | 'error'; error: unknown }> {
  const isNew = (error: unknown) => error !== undefined && error !== null && !seen.has(error) && seen.size < MOST
  const cause = read(thrown, 'cause')
  if (isNew(cause)) yield { label: 'cause', error: cause }
  const errors = read(thrown, 'errors')
  for (const error of Array.isArray(errors) ? errors.slice(0, MOST) : [])
    if (isNew(error)) yield { label: 'error', error }
}

function wordsOf(thrown: unknown): string {
  try {
    if (isError(thrown)) return thrown.message === '' ? thrown.name : `${thrown.name}: ${thrown.message}`
    if (typeof thrown === 'string') return thrown
    if (typeof thrown === 'function') return `a function (${thrown.name || 'anonymous'})`
    if (typeof thrown === 'bigint') return `${thrown}n`
    return JSON.stringify(thrown) ?? String(thrown)
  } catch {
    return tagOf(thrown)
  }
}

function tagOf(value: unknown): string {
  try {
    return Object.prototype.toString.call(value)
  } catch {
    return 'what throws when it is looked at'
  }
}

/** Checks for an error, also for one of another realm: `node:vm`, and test runners that use it. */
function isError(value: unknown): value is Error {
  try {
    return value instanceof Error || tagOf(value) === '[object Error]'
  } catch {
    return false
  }
}

/** Checks whether whoever threw it says that no other try would end differently: `final: true`. */
export const isMarkedFinal = (thrown: unknown): boolean => read(thrown, 'final') === true

function fieldsOf(thrown: unknown): Fields {
  const fields: Fields = {}
  for (const name of FIELDS) {
    const value = read(thrown, name)
    if (typeof value === 'string' && value !== '') fields[name] = cut(value, LONGEST_FIELD)
    if (typeof value === 'number' && Number.isFinite(value)) fields[name] = value
  }
  return fields
}

function textIn(thrown: unknown, name: string, longest: number): string | undefined {
  const text = read(thrown, name)
  return typeof text === 'string' ? cut(text, longest) : undefined
}

/** Cuts between two words, because nobody would find half a key, and removes keys. */
function cut(text: string, longest: number): string {
  let end = longest
  if (text.length > longest) while (end > longest / 2 && /[\w.~+/=-]/.test(text[end] ?? '')) end -= 1
  return text.slice(0, end > longest / 2 ? end : longest).replace(SECRET_SHAPE, REDACTED)
}

function read(thrown: unknown, name: string): unknown {
  try {
    return typeof thrown === 'object' && thrown !== null ? Reflect.get(thrown, name) : undefined
  } catch {
    return undefined // it throws when it is looked at
  }
}

function has(thrown: unknown, mark: symbol): boolean {
  try {
    return typeof thrown === 'object' && thrown !== null && mark in thrown
  } catch {
    return false
  }
}
