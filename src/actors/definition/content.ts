/**
 * Content of model messages that is more than text: images, files, sound, and the reasoning of a model. Inside the
 * runtime the bytes of a part are a data URL, since calls cross threads as JSON; large ones are a reference
 * (mailbox/codec.ts).
 */

import { type MediaPart, type MessagePart, PARTS, type ProviderData, type TextPart } from '../../mailbox/parts.ts'
import {
  bytesOf,
  hashesOf,
  LARGEST_PART,
  type ReadBytes,
  readableParts,
  referenceIn,
  STORED_FROM,
  type StoredPart,
  storedForm,
  storedIn,
} from '../../mailbox/stored-parts.ts'
import { ToolFailedError } from '../../shared/errors.ts'

export type { MediaPart, MessagePart, ProviderData, TextPart }

/**
 * Reasoning of a model. Its provider wants it back, unchanged, with the results of the tools that the same answer
 * called.
 */
export interface ReasoningPart {
  type: 'reasoning'
  /** Empty if the provider keeps the words to itself. */
  text: string
  providerData?: ProviderData
}

export type ContentPart = TextPart | ReasoningPart | MediaPart

/** Content of a message: a text, or parts in their order. */
export type Content = string | readonly ContentPart[]

/** Returns the parts of a content as a message between agents carries them: without reasoning. */
export function messageParts(content: Content): MessagePart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return content.filter((part) => part.type !== 'reasoning')
}

/** Returns the text of a content, without reasoning. Media have none. */
export function textOf(content: Content): string {
  if (typeof content === 'string') return content
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('')
}

/** Returns the content as text for summaries and transcripts: a note stands for each image, sound and file. */
export function transcriptOf(content: Content): string {
  if (typeof content === 'string') return content
  return content
    .flatMap((part) => {
      if (part.type === 'text') return part.text
      return part.type === 'reasoning' ? [] : `(${part.type}${part.name === undefined ? '' : ` ${part.name}`})`
    })
    .filter((text) => text !== '')
    .join(' ')
}

/** Returns the content with another text in place of its own. Media stay, reasoning goes. */
export function withText(content: Content, text: string): Content {
  if (typeof content === 'string') return text
  const media = content.filter((part) => part.type !== 'text' && part.type !== 'reasoning')
  return media.length === 0 ? text : [{ type: 'text', text }, ...media]
}

/** Returns the content without reasoning. */
export function withoutReasoning(content: Content): Content {
  if (typeof content === 'string' || !content.some(({ type }) => type === 'reasoning')) return content
  const rest = content.filter(({ type }) => type !== 'reasoning')
  const [first] = rest
  return rest.length === 1 && first?.type === 'text' && !first.providerData ? first.text : rest
}

/** Returns the number of characters that the content takes. */
export function lengthOf(content: Content): number {
  if (typeof content === 'string') return content.length
  return content.reduce((sum, part) => sum + partLength(part), 0)
}

function partLength(part: ContentPart): number {
  const own = 'text' in part ? part.text.length : mediaLength(part)
  return own + (part.providerData ? JSON.stringify(part.providerData).length : 0)
}

/** Returns the length of the data of a part: of its reference, if its bytes are stored. */
const mediaLength = (part: MediaPart): number => (storedForm(part) ?? part).data.length

/** Returns the length of the data that is to be stored: media whose bytes are not yet, and are many. */
export function lengthToStore(content: Content): number {
  if (typeof content === 'string') return 0
  const lengths = content.map((part) => ('data' in part ? mediaLength(part) : 0))
  return lengths.reduce((sum, length) => sum + (length >= LONGEST_HELD ? length : 0), 0)
}

/** Characters of the longest base64 that is not stored. */
const LONGEST_HELD = Math.ceil(STORED_FROM / 3) * 4

/** A wrong content: the place of the fault, and what is needed there. */
export interface ContentFault {
  readonly path: string
  readonly value: unknown
  readonly needed: string
}

const MEDIA_TYPE = /^[\w.+-]+\/[\w.+*-]+$/
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)[^,]*;base64,/
const TYPES = ['text', 'image', 'audio', 'file', 'reasoning']

/** Returns the first fault of the parts of a message between agents, or undefined if they have none. */
export function partsFault(parts: unknown, path: string): ContentFault | undefined {
  if (!Array.isArray(parts)) return { path, value: parts, needed: 'a list of parts is needed' }
  const fault = contentFault(parts, path)
  if (fault) return fault
  const at = parts.findIndex(({ type }) => type === 'reasoning')
  const needed = 'one of text, image, audio, file is needed; reasoning goes back to its own model alone'
  return at < 0 ? undefined : { path: `${path}[${at}].type`, value: 'reasoning', needed }
}

/** Returns the first fault of a content, or undefined if it has none. */
export function contentFault(content: unknown, path: string): ContentFault | undefined {
  if (typeof content === 'string') return undefined
  if (!Array.isArray(content)) return { path, value: content, needed: 'a text or a list of parts is needed' }
  if (content.length === 0) return { path, value: content, needed: 'at least one part is needed' }
  for (const [i, part] of content.entries()) {
    const fault = partFault(part, `${path}[${i}]`)
    if (fault) return fault
  }
  return undefined
}

function partFault(part: unknown, path: string): ContentFault | undefined {
  if (typeof part !== 'object' || part === null) return { path, value: part, needed: 'a part is needed' }
  const { type, text, data, mediaType, name } = (storedForm(part) ?? part) as Record<string, unknown>
  if (!TYPES.includes(type as string))
    return { path: `${path}.type`, value: type, needed: `one of ${TYPES.join(', ')} is needed` }
  if (type === 'text' || type === 'reasoning')
    return typeof text === 'string' ? undefined : { path: `${path}.text`, value: text, needed: 'a text is needed' }
  if (name !== undefined && typeof name !== 'string')
    return { path: `${path}.name`, value: name, needed: 'a text is needed' }
  if (mediaType !== undefined && !(typeof mediaType === 'string' && MEDIA_TYPE.test(mediaType)))
    return { path: `${path}.mediaType`, value: mediaType, needed: "a media type like 'image/png' is needed" }
  return dataFault(data, mediaType, path)
}

function dataFault(data: unknown, mediaType: unknown, path: string): ContentFault | undefined {
  const at = `${path}.data`
  const { length } = Object(data) as { length?: number }
  if (length !== undefined && length > (typeof data === 'string' ? LONGEST_DATA : LARGEST_PART))
    return { path: at, value: `a length of ${length}`, needed: `at most ${LARGEST_PART} bytes are taken; give its URL` }
  if (storedIn(data)) return undefined
  if (!(data instanceof Uint8Array) && (typeof data !== 'string' || data === ''))
    return { path: at, value: data, needed: 'bytes, a data URL, an https URL or base64 is needed' }
  if (typeof data === 'string' && isLink(data)) return undefined
  if (typeof data === 'string' && data.startsWith('data:'))
    return DATA_URL.test(data.slice(0, LONGEST_HEAD))
      ? undefined
      : { path: at, value: data, needed: 'a data URL has to have a media type, and to be in base64' }
  if (typeof data === 'string' && !BASE64.test(data))
    return { path: at, value: data, needed: 'it is no URL and no base64; bytes can be given as they are' }
  if (mediaType === undefined)
    return { path: `${path}.mediaType`, value: mediaType, needed: 'bytes and base64 need their media type' }
  return undefined
}

const LONGEST_HEAD = 256
/** Characters of the longest base64, with room for the head of a data URL. */
const LONGEST_DATA = Math.ceil(LARGEST_PART / 3) * 4 + LONGEST_HEAD

/** Checks for a URL that the provider fetches itself. */
const isLink = (data: string): boolean => /^https?:\/\//.test(data)

/** Keeps the bytes of large parts for a run. */
export interface PartKeeper {
  /** True for that of the host: what it does not have the run does not have. */
  readonly knowsAll: boolean
  /** True if bytes with that hash are kept for the run. */
  has(hash: string): boolean
  /** Keeps bytes, and returns the reference to them. */
  keep(bytes: Uint8Array): string
}

/**
 * Returns a checked content as it crosses threads: bytes and base64 as data URLs, large ones as references if there is
 * a keeper.
 *
 * @throws PartLostError if a part is no more than a reference, and the run does not have its bytes.
 */
export function asJson(content: Content, keeper?: PartKeeper): Content {
  if (typeof content === 'string') return content
  return content.map((part) => (part.type === 'text' || part.type === 'reasoning' ? part : mediaAsJson(part, keeper)))
}

function mediaAsJson(part: MediaPart, keeper: PartKeeper | undefined): MediaPart {
  const form = storedForm(part)
  const stored = referenceIn(part)
  if (form && stored) {
    if (!keeper || keeper.has(stored.hash)) return form
    if (form === part && keeper.knowsAll) bytesOf(stored, undefined)
    if (form === part) return form // the host knows whether the run has them
  }
  const { data, mediaType } = part
  if (typeof data === 'string' && isLink(data)) return part
  if (keeper && data.length >= STORED_FROM) {
    const { bytes, mediaType: type } = decoded(part)
    if (bytes.length >= STORED_FROM) return { ...part, mediaType: type, data: keeper.keep(bytes) }
  }
  if (typeof data === 'string' && data.startsWith('data:')) return part
  const base64 = typeof data === 'string' ? data : Buffer.from(data).toString('base64')
  return { ...part, data: `data:${mediaType};base64,${base64}` }
}

/** Returns the bytes of a part that has them. */
function decoded(part: MediaPart): { bytes: Uint8Array; mediaType: string } {
  const { data, type, mediaType = USUAL[type] } = part
  if (typeof data !== 'string') return { bytes: data, mediaType }
  const media = mediaOf(part)
  if ('url' in media) return { bytes: new Uint8Array(), mediaType }
  return { bytes: Buffer.from(media.base64, 'base64'), mediaType: media.mediaType }
}

/** Finds the hashes of the stored parts in messages. */
export function* hashesInMessages(messages: Iterable<{ readonly content: Content }>): Generator<string> {
  for (const { content } of messages) if (typeof content !== 'string') yield* hashesOf(content)
}

/** Returns messages whose stored parts can be read. */
export function readableMessages<Message extends { content: Content }>(
  messages: readonly Message[],
  reader: (stored: StoredPart) => ReadBytes | undefined,
): Message[] {
  return messages.map((message) =>
    typeof message.content === 'string' ? message : { ...message, content: readableParts(message.content, reader) },
  )
}

/** Media of a part for a client: a URL that the provider fetches, or base64 with its media type. */
export function mediaOf({ type, data, mediaType }: MediaPart): { url: string } | { base64: string; mediaType: string } {
  if (typeof data !== 'string')
    return { base64: Buffer.from(data).toString('base64'), mediaType: mediaType ?? USUAL[type] }
  if (isLink(data)) return { url: data }
  const head = DATA_URL.exec(data.slice(0, LONGEST_HEAD))
  if (!head) return { base64: data, mediaType: mediaType ?? USUAL[type] }
  return { base64: data.slice(head[0].length), mediaType: mediaType ?? head[1]! }
}

const USUAL = { image: 'image/png', audio: 'audio/wav', file: 'application/pdf' } as const

/** Result of a tool with parts. Made by `toolParts`. */
export interface ToolParts {
  readonly [PARTS]: readonly MessagePart[]
}

/**
 * Makes a tool's result of parts: texts, images, sounds and files, in their order. The model gets them in place of
 * JSON. Code that calls the tool gets them with their bytes as data URLs.
 *
 * @throws {ToolFailedError} if a part is wrong: half of it is missing, or its type is unknown.
 *
 * @example
 * const screenshot = defineTool({
 *   name: 'screenshot',
 *   description: 'Shows a page.',
 *   input: z.object({ url: z.url() }),
 *   run: async ({ url }) => toolParts([{ type: 'image', data: await bytesOf(url), mediaType: 'image/png' }]),
 * })
 */
export function toolParts(parts: readonly MessagePart[]): ToolParts {
  const fault = partsFault(parts, 'parts')
  if (!fault) return resultOfParts(asJson(parts) as MessagePart[])
  const text = `toolParts: ${fault.path}: ${fault.needed}.`
  throw new ToolFailedError(text, { path: fault.path })
}

/** Returns the result of a tool with parts that are checked. */
export const resultOfParts = (parts: readonly MessagePart[]): ToolParts => ({ [PARTS]: parts })

/** Returns the parts of a tool's result; undefined if it is JSON for the model. */
export function partsOfResult(output: unknown): readonly MessagePart[] | undefined {
  const parts: unknown = Object(output)[PARTS]
  return parts !== undefined && partsFault(parts, PARTS) === undefined ? (parts as readonly MessagePart[]) : undefined
}
