/**
 * Reads what servers send in all the shapes that they send it in. The package refuses a whole list for one bad tool,
 * and a result for one part that it does not know, though its call has been made.
 */
import { createHash } from 'node:crypto'
import type { JSONRPCMessage } from '@modelcontextprotocol/client'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { toolParts } from '../actors/definition/content.ts'
import { kindOf, type SchemaKind } from '../json-schema/bounds.ts'
import { targetOf } from '../json-schema/check.ts'
import { isPattern } from '../json-schema/patterns.ts'
import type { MessagePart } from '../mailbox/parts.ts'
import { shown, ToolFailedError } from '../shared/errors.ts'
import { LISTEN, type Line } from './transports.ts'

export type Fields = Readonly<Record<string, unknown>>

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Field of `_meta` in which a result goes past the package's own reading of it. */
const RAW = 'dramatis/result'
/** The package asks for these in each result of which it knows the method. */
const EMPTY = { resultType: 'complete', tools: [], resources: [], contents: [], messages: [], content: [] }
const CACHED = { ttlMs: 0, cacheScope: 'private' }

/** The package says of each wrong part of a handshake what is wrong, and there can be many. */
const LONGEST_HANDSHAKE = 262_144

/** Requests of a session that are under way. */
export interface Passing {
  /** The run whose requests are sent now. */
  runId: string | undefined
  /** Runs of the calls that the server has not answered, by ids of requests: also of those that were given up here. */
  readonly runs: ReadonlyMap<unknown, string>
}

/** Lets results of requests pass as they are. Those of the handshake are read by the package, and bounded. */
export function passResults({ transport, end, fateOf }: Line): Passing {
  const asked = new Set<unknown>()
  const handshake = new Set<unknown>()
  const runs = new Map<unknown, string>()
  const passing: Passing = { runId: undefined, runs }
  const send = transport.send.bind(transport)
  transport.send = async (message, options) => {
    if (!('method' in message) || !('id' in message)) return send(message, options)
    const { id, method } = message
    if (method === LISTEN) return send(message, options) // it has no result that is read
    if (HANDSHAKE.test(method)) {
      handshake.add(id)
      return send(message, options)
    }
    asked.add(id)
    if (passing.runId !== undefined && method === 'tools/call') runs.set(id, passing.runId)
    // the package waits on when a stream ends without the answer that it was for
    const onRequestStreamEnd = () => {
      options?.onRequestStreamEnd?.()
      if (asked.delete(id)) listener?.({ jsonrpc: '2.0', id, error: CUT_OFF })
    }
    try {
      await send(message, { ...options, onRequestStreamEnd })
    } catch (error) {
      if (fateOf(error) !== 'unclear') runs.delete(id) // no answer will come
      throw error
    }
  }
  let listener: Line['transport']['onmessage']
  const received: NonNullable<Line['transport']['onmessage']> = (message, extra) => {
    const isAsked = !('method' in message) && asked.delete(message.id)
    if (!('method' in message)) runs.delete(message.id)
    if (!('result' in message)) return listener?.(message, extra)
    if (isAsked) return listener?.(hidden(message), extra)
    if (!handshake.delete(message.id)) return listener?.({ ...message, result: {} }, extra) // nobody waits for it
    if (JSON.stringify(message.result).length <= LONGEST_HANDSHAKE) return listener?.(message, extra)
    end(`begins with more than ${LONGEST_HANDSHAKE} characters of itself`)
  }
  Object.defineProperty(transport, 'onmessage', {
    get: () => listener && received,
    set: (given: Line['transport']['onmessage']) => {
      listener = given
    },
  })
  return passing
}

const CUT_OFF = { code: -32_000, message: 'the answer was cut off', data: 'dramatis/cut-off' }

/** Checks whether a request failed because its answer was cut off. */
export const isCutOff = (error: unknown): boolean => Object(error).data === CUT_OFF.data

const HANDSHAKE = /^(initialize|server\/discover)$/

const hidden = (message: JSONRPCMessage & { result: object }): JSONRPCMessage => ({
  ...message,
  result: { ...EMPTY, ...CACHED, _meta: { [RAW]: message.result } },
})

/** Schema of a result that has gone past the package. */
export const passedResult: StandardSchemaV1<unknown, Fields> = {
  '~standard': {
    version: 1,
    vendor: 'dramatis',
    validate(value) {
      const { _meta }: { _meta?: unknown } = Object(value)
      return { value: Object(Object(_meta)[RAW]) as Fields }
    },
  },
}

/** Schema of what a server asks, which is read by who answers. */
export const passedParams: StandardSchemaV1<unknown, Fields> = {
  '~standard': { version: 1, vendor: 'dramatis', validate: (value) => ({ value: Object(value) as Fields }) },
}

export interface OfferedTool {
  name: string
  description?: string | undefined
  inputSchema: object
  outputSchema?: object | undefined
  annotations: { readOnlyHint?: unknown; idempotentHint?: unknown }
}

/** Called with a keyword that is left out of a schema, and why. */
export type Dropped = (keyword: string, why: string) => void

/** Returns the tool that a server lists. Fields without a value may be null. Throws for what is none. */
export function toolIn(given: unknown, dropped: Dropped): OfferedTool {
  const { name, description, inputSchema, outputSchema, annotations, execution }: { [field: string]: unknown } =
    Object(given)
  if (typeof name !== 'string' || name === '') throw new Error(`its name is ${shown(name)}; accepted: a text`)
  const { type }: { type?: unknown } = Object(inputSchema)
  if (!isFields(inputSchema ?? {}) || (type ?? 'object') !== 'object')
    throw new Error(`its inputSchema is ${shown(inputSchema)}; accepted: a JSON Schema with the type "object"`)
  if (!isFields(outputSchema ?? {})) throw new Error(`its outputSchema is ${shown(outputSchema)}; accepted: an object`)
  if (typeof (description ?? '') !== 'string') throw new Error(`its description is ${shown(description)}, and no text`)
  if (!isFields(annotations ?? {})) throw new Error(`its annotations are ${shown(annotations)}; accepted: an object`)
  if (Object(execution).taskSupport === 'required') throw new Error('it can be called only as a task')
  return {
    name,
    inputSchema: tame({ ...(inputSchema as Fields | undefined), type: 'object' }, dropped),
    description: description as string | undefined,
    outputSchema: outputSchema ? tame(outputSchema as Fields, dropped) : undefined,
    annotations: annotations ?? {},
  }
}

/**
 * Returns the schema in today's words: models and checks refuse those of draft 4, and patterns that hold only without
 * the flag `u`. A reference to nothing says nothing.
 */
function tame(root: Fields, dropped: Dropped): Fields {
  const inside = (part: unknown, kind: SchemaKind): unknown => {
    if (kind === 'data' || typeof part !== 'object' || part === null) return part
    if (Array.isArray(part)) return part.map((each) => inside(each, kind))
    const fields = Object.entries(part).flatMap(([key, value]): [string, unknown][] => {
      const within = kind === 'names' ? 'schema' : kindOf(key)
      if (kind === 'schema' && key === '$schema') return []
      if (kind === 'schema' && key === '$ref') return refersTo(root, value, dropped) ? [[key, value]] : []
      if (kind === 'schema' && key === 'pattern' && typeof value === 'string') return [[key, withU(value)]]
      return [[key, inside(value, within)]]
    })
    return kind === 'schema' ? ofDraft6(Object.fromEntries(fields)) : Object.fromEntries(fields)
  }
  return inside(root, 'schema') as Fields
}

function refersTo(root: Fields, reference: unknown, dropped: Dropped): boolean {
  try {
    targetOf(root, String(reference))
    return true
  } catch (error) {
    dropped('$ref', (error as Error).message)
    return false
  }
}

/** In draft 4 the limits are numbers, and true beside one says that it does not fit itself. */
function ofDraft6(schema: Fields): Fields {
  let { ...fields } = schema
  for (const [limit, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    const { [limit]: edge, [exclusive]: isOut, ...rest } = fields
    if (typeof isOut !== 'boolean') continue
    fields = { ...rest, ...(edge !== undefined && { [isOut ? exclusive : limit]: edge }) }
  }
  return fields
}

/** Returns the pattern as it is written with the flag `u`, where it can be; else as it is. */
function withU(source: string): string {
  const isStrict: (pattern: string) => boolean = isPattern
  if (isStrict(source)) return source
  const strict = source
    .replaceAll(/\\([^A-Za-z0-9^$\\.*+?()[\]{}|/-])/g, '$1')
    .replaceAll('\\-', '\\x2d')
    .replaceAll(/(\\[dDsSwW])-(?!\])/g, '$1\\x2d')
  return isStrict(strict) ? strict : source
}

const LONGEST_NAME = 64
const DIGITS = 4

/** Returns names that models take, in the order of the names given. Of two that become one the second has a mark. */
export function namesFor(names: readonly string[], prefix: string): string[] {
  const taken = new Set<string>()
  return names.map((name) => {
    const plain = plainName(`${prefix}${name}`)
    const mark = `_${createHash('sha256').update(name).digest('hex').slice(0, DIGITS)}`
    const free = taken.has(plain) ? `${plain.slice(0, LONGEST_NAME - mark.length)}${mark}` : plain
    taken.add(free)
    return free
  })
}

function plainName(name: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9_-]/g, '_')
  return (/^[A-Za-z_]/.test(plain) ? plain : `_${plain}`).slice(0, LONGEST_NAME)
}

/**
 * Returns structured content, else text, else images and sounds as parts for the model, else the content as it is.
 *
 * @throws ToolFailedError for a result that says that it is an error.
 */
export function outputOf(tool: string, result: Fields, clean: (text: string) => string): unknown {
  const { content: given, structuredContent, isError, toolResult } = result
  const content = Array.isArray(given) ? (given as unknown[]) : []
  const texts = content.flatMap((part) => textOf(part) ?? [])
  if (isError === true) {
    const text = clean(texts.join('\n')) || 'it said nothing of why'
    throw new ToolFailedError(`Tool "${tool}" failed: ${text}`, { tool })
  }
  if (structuredContent !== undefined && structuredContent !== null) return structuredContent
  if (!Array.isArray(given) && toolResult !== undefined) return toolResult
  if (texts.length === content.length) return texts.join('\n')
  const parts = content.flatMap((part) => partOf(part) ?? [])
  return parts.length < content.length ? content : toolParts(parts)
}

function textOf(part: unknown): string | undefined {
  const { type, text }: { type?: unknown; text?: unknown } = Object(part)
  return type === 'text' && typeof text === 'string' ? text : undefined
}

/** Returns the part of a message that it is; undefined for a link, a resource, and what is of another year. */
export function partOf(part: unknown): MessagePart | undefined {
  const { type, data, mimeType }: Fields = Object(part)
  const text = textOf(part)
  if (text !== undefined) return { type: 'text', text }
  if ((type !== 'image' && type !== 'audio') || typeof data !== 'string' || typeof mimeType !== 'string')
    return undefined
  return { type, data, mediaType: mimeType }
}
