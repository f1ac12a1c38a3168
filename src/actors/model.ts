/** What a model call is, for `complete` and `think`. */
import type { ModelSchema } from './tool.ts'

export interface TokenUsage {
  inputTokens: number
  outputTokens: number
  totalTokens: number
  cachedTokens?: number
  calls: number
}

export interface ModelMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  toolCallId?: string
}

export interface ModelClient {
  complete(request: {
    model: string
    messages: ModelMessage[]
    tools?: object[]
    jsonSchema?: object
    signal: AbortSignal
  }): AsyncIterable<{ text?: string; toolCall?: { id: string; name: string; input: string }; usage?: TokenUsage }>
}

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

export interface Completion<T = undefined> {
  text: string
  output: T
  usage: TokenUsage
  finishReason: 'stop' | 'length' | 'tool_calls' | 'content_filter'
  rehearsed: boolean
}
