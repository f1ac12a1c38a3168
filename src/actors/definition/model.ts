/** What is said to a model and what it says: the same between an agent's turn, the gateway in the host, and a client. */
import type { Clock } from '../../clock.ts'
import type { ModelSchema } from './tool.ts'

/** In tokens; `calls` counts the calls. */
export interface TokenUsage {
  inputTokens: number
  outputTokens: number
  totalTokens: number
  cachedTokens?: number
  calls: number
}

/** A tool that the model wants called. `input` is JSON as the model wrote it: it can be wrong. */
export interface ToolCall {
  id: string
  name: string
  input: string
}

/** What a model is told of a tool. `inputSchema` is JSON schema. */
export interface ToolSpec {
  name: string
  description: string
  inputSchema: object
}

/** One message of a conversation with a model. `toolCalls`: of an assistant; `toolCallId`: of the tool that answers one. */
export interface ModelMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  toolCallId?: string
  toolCalls?: ToolCall[]
}

/** Why a model has stopped. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter'

/** A function that a model is to call with its answer. Its parameters are the schema that the answer has to fit. */
export interface AnswerFunction {
  name: string
  description: string
}

/**
 * What a client is asked. `jsonSchema`: the answer is JSON that fits it. `answerFunction`: it is wanted as a call of that function,
 * whose arguments fit the `jsonSchema`; text that does is as good, so a client may leave it aside. `maxOutputTokens` of this answer.
 */
export interface ModelRequest {
  model: string
  messages: ModelMessage[]
  tools?: ToolSpec[]
  jsonSchema?: object
  answerFunction?: AnswerFunction
  temperature?: number
  maxOutputTokens?: number
  /** Somebody reads along: each piece is yielded as it comes. Left out, an answer that breaks off can be asked for again. */
  stream?: boolean
  /** Who asks, and in which run: for clients that answer by that, as those of tests do. */
  agent?: string
  runId?: string
  /** The team's: for clients that wait, before they try again or because a test wants them to. */
  clock?: Clock
  /** How long the call may take, with all that is tried, in ms; the signal is aborted then. */
  timeoutMs?: number
  signal: AbortSignal
}

/** A piece of an answer: some text, a whole call of a tool, and towards the end what it cost and why it has ended. */
export interface ModelPiece {
  text?: string
  toolCall?: ToolCall
  usage?: TokenUsage
  finishReason?: FinishReason
}

/**
 * What speaks with a model's provider. It yields the answer in pieces as they come; leaving the loop, or the signal, ends
 * the call. A call that rejects with a `ModelError` whose `details.retryable` is true is made again, after `details.retryAfterMs` if that
 * is there. `rehearsal: true` says that no model is asked: what it answers is labelled as rehearsed wherever it appears.
 * `offline: true` says that it asks nobody, as the models of tests do: a rehearsal leaves it in its place.
 */
export interface ModelClient {
  readonly rehearsal?: boolean
  readonly offline?: boolean
  complete(request: ModelRequest): AsyncIterable<ModelPiece>
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
  finishReason: FinishReason
  rehearsed: boolean
}

/** What a turn asks the gateway in the host for, as JSON. */
export interface ModelCall {
  messages: readonly ModelMessage[]
  /** A name in the team's `models`; its default by default. */
  model?: string
  tools?: readonly ToolSpec[]
  jsonSchema?: object
  /** Its arguments come back as the answer's text. */
  answerFunction?: AnswerFunction
  temperature?: number
  maxOutputTokens?: number
  /** The text comes in pieces too, before the answer. */
  stream?: boolean
}

/** What the gateway answers. `model` is the one that was asked. */
export interface ModelAnswer {
  text: string
  toolCalls: ToolCall[]
  usage: TokenUsage
  finishReason: FinishReason
  rehearsed: boolean
  model: string
}

export const NO_TOKENS: TokenUsage = Object.freeze({ inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 })

/** Both together. */
export function addUsage(a: TokenUsage, b: TokenUsage): TokenUsage {
  const cached = (a.cachedTokens ?? 0) + (b.cachedTokens ?? 0)
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    totalTokens: a.totalTokens + b.totalTokens,
    ...(cached > 0 && { cachedTokens: cached }),
    calls: a.calls + b.calls,
  }
}
