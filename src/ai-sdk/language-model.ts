/**
 * The parts of the AI SDK's provider specification, versions 3 and 4, that are used here. They are types of our own, so
 * neither its packages nor their types are needed. Source: `@ai-sdk/provider`, `LanguageModelV3` and `LanguageModelV4`.
 */

/** Options of a provider, by its name. */
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
