/** Encodes the messages of a request as a prompt of the AI SDK's provider specification. */
import {
  type ContentPart,
  type MediaPart,
  mediaOf,
  type ProviderData,
  textOf,
  transcriptOf,
} from '../actors/definition/content.ts'
import type { ModelMessage, ToolCall } from '../actors/definition/model.ts'
import { inputObject } from '../runtime/providers/call-input.ts'

/*
 * The parts of the AI SDK's provider specification, versions 3 and 4, that are used here. They are types of our own, so
 * neither its packages nor their types are needed. Source: `@ai-sdk/provider`, `LanguageModelV3` and `LanguageModelV4`.
 */

export type ProviderOptions = Record<string, Record<string, unknown>>

interface WithOptions {
  providerOptions?: ProviderOptions
}

export interface TextPart extends WithOptions {
  type: 'text'
  text: string
}

export interface ReasoningPart extends WithOptions {
  type: 'reasoning'
  text: string
}

/** A file. Version 4 tags the data, version 3 tells base64 and URL apart by their type. */
export interface FilePart extends WithOptions {
  type: 'file'
  filename?: string
  mediaType: string
  data: string | URL | TaggedData
}

export type TaggedData = { type: 'data'; data: string } | { type: 'url'; url: URL }

export interface ToolCallPart extends WithOptions {
  type: 'tool-call'
  toolCallId: string
  toolName: string
  input: unknown
}

export interface ToolResultPart extends WithOptions {
  type: 'tool-result'
  toolCallId: string
  toolName: string
  output: { type: 'text'; value: string } | { type: 'content'; value: ResultContent[] }
}

/** Content of a tool's result: version 4 has `file`, version 3 the others. */
export type ResultContent =
  | TextPart
  | { type: 'file'; mediaType: string; data: TaggedData; filename?: string }
  | { type: 'file-data' | 'image-data'; mediaType: string; data: string; filename?: string }
  | { type: 'file-url' | 'image-url'; url: string }

export type PromptMessage = WithOptions &
  (
    | { role: 'system'; content: string }
    | { role: 'user'; content: (TextPart | FilePart)[] }
    | { role: 'assistant'; content: (TextPart | FilePart | ReasoningPart | ToolCallPart)[] }
    | { role: 'tool'; content: ToolResultPart[] }
  )

export interface FunctionTool {
  type: 'function'
  name: string
  description?: string
  inputSchema: object
  strict?: boolean
}

export type SdkToolChoice = { type: 'auto' | 'none' | 'required' } | { type: 'tool'; toolName: string }

/** A call, as the specification has it. `reasoning` is version 4's. */
export interface CallOptions extends WithOptions {
  prompt: PromptMessage[]
  maxOutputTokens?: number
  temperature?: number
  topP?: number
  stopSequences?: string[]
  seed?: number
  responseFormat?: { type: 'json'; schema: object; name: string }
  tools?: FunctionTool[]
  toolChoice?: SdkToolChoice
  reasoning?: string
  headers?: Record<string, string | undefined>
  abortSignal?: AbortSignal
}

interface Response {
  headers?: Record<string, string>
}

/** An answer in one piece. Its parts come from foreign code, and are checked one by one. */
interface Generated {
  content: readonly unknown[]
  finishReason: unknown
  usage: unknown
  warnings?: readonly unknown[]
  response?: Response
}

interface Streamed {
  stream: PartStream
  response?: Response
}

/** A stream of parts, as the platform's `ReadableStream` is one. */
export interface PartStream {
  getReader(): {
    read(): Promise<{ done: boolean; value?: unknown }>
    cancel(reason?: unknown): Promise<void>
  }
}

type SupportedUrls = Record<string, RegExp[]>

/**
 * A language model of the AI SDK: what a provider package gives for a name of a model. Models of version 3 run on
 * Node.js 20, those of version 4 need Node.js 22. The options of a call are `never`, so that the models of every
 * release of the specification fit, whatever they accept beyond what is sent here.
 */
export interface AiSdkModel {
  readonly specificationVersion: 'v3' | 'v4'
  readonly provider: string
  readonly modelId: string
  readonly supportedUrls: PromiseLike<SupportedUrls> | SupportedUrls
  doGenerate(options: never): PromiseLike<Generated>
  doStream(options: never): PromiseLike<Streamed>
}

/** The same model, with the options that are sent here. */
export interface CallableModel extends AiSdkModel {
  doGenerate(options: CallOptions): PromiseLike<Generated>
  doStream(options: CallOptions): PromiseLike<Streamed>
}

type Version = AiSdkModel['specificationVersion']

/** Checks whether the model fetches that URL itself. */
export type TakesUrl = (url: string, mediaType: string) => boolean

/** Content that a model cannot be given. `what` continues the words 'Model "x" of y'. */
export class UnfitContentError extends Error {
  readonly what: string
  readonly advice: string

  constructor(what: string, advice: string) {
    super(`${what}. ${advice}`)
    this.what = what
    this.advice = advice
  }
}

export interface Takes {
  url: TakesUrl
  /** Images and files in results of tools. Otherwise they follow the results, as a message of the user. */
  resultMedia: boolean
}

/** Returns the prompt. Throws `UnfitContentError` for content that the model does not take. */
export function promptOf(messages: readonly ModelMessage[], version: Version, takes: Takes): PromptMessage[] {
  const names = new Map(messages.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id, name }) => [id, name] as const)))
  const prompt: PromptMessage[] = []
  let shown: (TextPart | FilePart)[] = []
  const show = () => {
    if (shown.length > 0) prompt.push({ role: 'user', content: shown })
    shown = []
  }
  for (const { role, content, toolCalls = [], toolCallId = '' } of messages) {
    if (role !== 'tool') show() // the results of one answer's calls must stand together
    if (role === 'system') prompt.push({ role, content: textOf(content) })
    else if (role === 'user') {
      const parts = partsOf(content).flatMap((part) => userPart(part, version, takes.url))
      if (parts.length > 0) prompt.push({ role, content: parts })
    } else if (role === 'assistant') {
      const parts = partsOf(content).flatMap((part) => assistantPart(part, version, takes.url))
      const all = [...parts, ...toolCalls.map(callPart)]
      if (all.length > 0) prompt.push({ role, content: all })
    } else {
      const name = names.get(toolCallId) ?? 'unknown'
      const media = takes.resultMedia ? [] : partsOf(content).filter(isMedia)
      if (media.length > 0) {
        const parts = media.map((part) => filePart(part, version, takes.url))
        shown.push({ type: 'text', text: `Result of the call ${toolCallId}:` }, ...parts)
      }
      const result: ToolResultPart = {
        type: 'tool-result',
        toolCallId,
        toolName: name,
        output:
          media.length > 0
            ? { type: 'text', value: textOf(content) || transcriptOf(content) }
            : outputOf(content, version),
      }
      const last = prompt.at(-1)
      // The results of one answer's calls are one message: Gemini refuses them otherwise.
      if (last?.role === 'tool') last.content.push(result)
      else prompt.push({ role, content: [result] })
    }
  }
  show()
  return prompt
}

const isMedia = (part: ContentPart): part is MediaPart => part.type !== 'text' && part.type !== 'reasoning'

const partsOf = (content: ModelMessage['content']): readonly ContentPart[] =>
  typeof content === 'string' ? (content === '' ? [] : [{ type: 'text', text: content }]) : content

const optionsOf = (providerData: ProviderData | undefined) =>
  providerData === undefined ? {} : { providerOptions: providerData }

function userPart(part: ContentPart, version: Version, takesUrl: TakesUrl): (TextPart | FilePart)[] {
  if (part.type === 'text') return [{ type: 'text', text: part.text, ...optionsOf(part.providerData) }]
  return part.type === 'reasoning' ? [] : [filePart(part, version, takesUrl)] // a user has no reasoning
}

function assistantPart(
  part: ContentPart,
  version: Version,
  takesUrl: TakesUrl,
): (TextPart | FilePart | ReasoningPart)[] {
  if (isMedia(part)) return [filePart(part, version, takesUrl)]
  // Providers refuse a text without words. Reasoning can have none: its provider's data is what counts.
  if (part.text === '' && !part.providerData) return []
  return [{ type: part.type, text: part.text, ...optionsOf(part.providerData) }]
}

function filePart(part: MediaPart, version: Version, takesUrl: TakesUrl): FilePart {
  const { data, mediaType } = fileOf(part, takesUrl)
  return {
    type: 'file',
    mediaType,
    data: version === 'v4' ? tagged(data) : data,
    ...(part.name !== undefined && { filename: part.name }),
    ...optionsOf(part.providerData),
  }
}

const tagged = (data: string | URL) =>
  typeof data === 'string' ? ({ type: 'data', data } as const) : ({ type: 'url', url: data } as const)

function fileOf(part: MediaPart, takesUrl: TakesUrl): { data: string | URL; mediaType: string } {
  const media = mediaOf(part)
  if ('base64' in media) return { data: media.base64, mediaType: media.mediaType }
  const mediaType = part.mediaType ?? ANY[part.type]
  if (mediaType === undefined)
    throw new UnfitContentError('was given the URL of a file without its media type', "Give the part's mediaType.")
  if (!takesUrl(media.url, mediaType))
    throw new UnfitContentError(`takes no URL of this kind for ${mediaType}`, 'Give the bytes in place of the URL.')
  return { data: new URL(media.url), mediaType }
}

/** Media types of URLs that say none. A file can be anything. */
const ANY = { image: 'image/*', audio: 'audio/*', file: undefined } as const

function callPart({ id, name, input, providerData }: ToolCall): ToolCallPart {
  return { type: 'tool-call', toolCallId: id, toolName: name, input: inputObject(input), ...optionsOf(providerData) }
}

function outputOf(content: ModelMessage['content'], version: Version): ToolResultPart['output'] {
  if (typeof content === 'string' || !content.some(isMedia)) return { type: 'text', value: textOf(content) }
  return { type: 'content', value: content.flatMap((part) => resultPart(part, version)) }
}

function resultPart(part: ContentPart, version: Version): ResultContent[] {
  if (part.type === 'text') return [{ type: 'text', text: part.text }]
  if (part.type === 'reasoning') return []
  const media = mediaOf(part)
  const filename = part.name === undefined ? {} : { filename: part.name }
  const isImage = part.type === 'image'
  if ('url' in media) {
    const mediaType = part.mediaType ?? ANY[part.type] ?? 'application/octet-stream'
    if (version === 'v4') return [{ type: 'file', mediaType, data: tagged(new URL(media.url)), ...filename }]
    return [{ type: isImage ? 'image-url' : 'file-url', url: media.url }]
  }
  const { base64, mediaType } = media
  if (version === 'v4') return [{ type: 'file', mediaType, data: tagged(base64), ...filename }]
  return [{ type: isImage ? 'image-data' : 'file-data', mediaType, data: base64, ...filename }]
}
