/** What a model call is, for `complete` and `think`. Models are not available in this version; the types are. */
import type { ModelSchema } from './tool.ts'

/** In tokens; `calls` counts the calls. */
export interface TokenUsage {
  inputTokens: number
  outputTokens: number
  totalTokens: number
  cachedTokens?: number
  calls: number
}

/** One message of a conversation with a model. */
export interface ModelMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  toolCallId?: string
}

/** What speaks with a model's provider: pieces of text, calls of tools, and at the end what it cost. */
export interface ModelClient {
  complete(request: {
    model: string
    messages: ModelMessage[]
    tools?: object[]
    jsonSchema?: object
    signal: AbortSignal
  }): AsyncIterable<{ text?: string; toolCall?: { id: string; name: string; input: string }; usage?: TokenUsage }>
}

/** What a model is asked: a prompt or messages; `output` is the schema that the answer has to fit. */
export interface CompletionRequest<T = undefined> {
  prompt?: string
  messages?: ModelMessage[]
  model?: string
  output?: ModelSchema<unknown, T>
  temperature?: number
  maxOutputTokens?: number
  stream?: boolean
  signal?: AbortSignal
}

/** What a model answered. `rehearsed`: by the offline rehearsal model. */
export interface Completion<T = undefined> {
  text: string
  output: T
  usage: TokenUsage
  finishReason: 'stop' | 'length' | 'tool_calls' | 'content_filter'
  rehearsed: boolean
}
