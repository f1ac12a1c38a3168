/** Types of requests to a model and its answers. An agent's turn, the gateway in the host and a client share them. */

import type { Clock } from '../../shared/clock.ts'
import type { Content, ContentPart, ProviderData } from './content.ts'
import type { ModelOptions } from './model-options.ts'
import type { ModelSchema } from './tool.ts'

/** Numbers of tokens; `calls` is the number of calls. */
export interface TokenUsage {
  inputTokens: number
  outputTokens: number
  totalTokens: number
  /** Input tokens that the provider had in its cache. */
  cachedTokens?: number
  /** Output tokens that the model has used to reason. */
  reasoningTokens?: number
  calls: number
  /** Absent: all of it was reported. A provider has reported none of a call: they were counted here, for a budget. */
  estimated?: true
}

/** A tool call that the model asks for. `input` is JSON as the model wrote it: it can be wrong. */
export interface ToolCall {
  id: string
  name: string
  input: string
  /** Opaque data of the provider, which gets it back with the call. */
  providerData?: ProviderData
}

/** Description of a tool for a model. `inputSchema` is a JSON schema. */
export interface ToolSpec {
  name: string
  description: string
  inputSchema: object
}

/**
 * A message of a conversation with a model. `content`: a text, or parts (text, images, sounds, files, and of an
 * assistant its reasoning). `toolCalls`: for role 'assistant', the tool calls it asks for. `toolCallId`: for role
 * 'tool', the call that the message answers.
 */
export interface ModelMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: Content
  toolCallId?: string
  toolCalls?: ToolCall[]
  /** Id of the words that somebody has said to the run, if the message has them. */
  steerId?: string
}

/** Reason why a model has stopped. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter'

/** A function that a model is to call with its answer. Its parameters are the schema that the answer has to fit. */
export interface AnswerFunction {
  name: string
  description: string
}

/**
 * Request to a client. `jsonSchema`: the answer has to be JSON that fits it. `answerFunction`: the answer is wanted as
 * a call of that function, with arguments that fit the `jsonSchema`. Text that fits it is accepted as well, so a client
 * may ignore `answerFunction`.
 */
export interface ModelRequest extends ModelOptions {
  model: string
  messages: ModelMessage[]
  tools?: ToolSpec[]
  jsonSchema?: object
  answerFunction?: AnswerFunction
  /**
   * The caller reads the answer as a stream: each piece is yielded as it comes. Without it, a broken stream can be
   * retried.
   */
  stream?: boolean
  /**
   * The caller can take back what it got of a stream: a broken stream is retried, and a piece `restart: true` comes
   * before those of the next attempt.
   */
  restarts?: boolean
  /** Names of the calling agent and of its run, for clients whose answers depend on them, such as those of tests. */
  agent?: string
  runId?: string
  /** Tenant of the run (`RunOptions.tenant`), and the priority of the agent: the queue of a provider goes by them. */
  tenant?: string
  priority?: number
  /**
   * The same for all attempts of one call, and for no other call, for providers and gateways that then answer it once.
   * The built-in client sends it as the header `Idempotency-Key`.
   */
  idempotencyKey?: string
  /** The team's clock, for clients that wait: before a retry, or because a test requires it. */
  clock?: Clock
  /** Limit of the whole call with all of its retries, in ms. The signal is aborted then. */
  timeoutMs?: number
  /** Longest pause between two attempts, in ms: another model can answer after it (`models.<name>.anyOf`). */
  patienceMs?: number
  /** Longest time without a piece, in ms, while another model can answer. A client of your own need not heed it. */
  silenceMs?: number
  /** Names of further fields of the provider that go back to it (`models.<name>.giveBack`). */
  giveBack?: readonly string[]
  /** Takes the headers of an answer: the limits that they name hold back the next calls of the same client. */
  onHeaders?: (headers: Headers) => void
  signal: AbortSignal
}

/**
 * A piece of an answer: some text, some reasoning, a part of the input of a tool call, or a complete tool call. Towards
 * the end the token usage and the reason for the end.
 */
export interface ModelPiece {
  text?: string
  /** Reasoning of the model; empty if it only has `providerData`. */
  reasoning?: string
  /** Opaque data of the provider for the text or the reasoning of this piece; it replaces earlier data of its block. */
  providerData?: ProviderData
  /** Block that the text or the reasoning belongs to. Default: the last one of its kind, if nothing came in between. */
  block?: string
  /**
   * Part of the input of a tool call, for those who read along. The complete call still comes as `toolCall`, with the
   * same id. Only for a request with `stream`.
   */
  toolInput?: { id: string; name: string; text: string }
  toolCall?: ToolCall
  usage?: TokenUsage
  finishReason?: FinishReason
  /** The pieces until now are void, except for their usage: the call is made again (`ModelRequest.restarts`). */
  restart?: true
  /** A part of the request or of the answer that the client leaves out, as a sentence. The team logs it once. */
  warning?: string
}

/**
 * Client of a model's provider. It yields the answer in pieces as they come. The call ends when the caller leaves the
 * loop, or when the signal is aborted. A call is retried if it rejects with a `ModelError` whose `details.retryable` is
 * true, after `details.retryAfterMs` if that is set. `rehearsal: true`: it asks no model, and its answers are labelled
 * as rehearsed wherever they appear. `offline: true`: it contacts no provider, as the models of tests do; a rehearsal
 * does not replace it. `provider` and `modelId`: names of what it asks, for errors, events and spans; without them, the
 * name of the entry in `models`.
 */
export interface ModelClient {
  readonly rehearsal?: boolean
  readonly offline?: boolean
  readonly provider?: string
  readonly modelId?: string
  complete(request: ModelRequest): AsyncIterable<ModelPiece>
  /** Returns a vector for each text, in their order. Suites of `dramatis/evals` alone ask for it (`similar`). */
  embed?(request: EmbedRequest): Promise<{ vectors: readonly (readonly number[])[]; usage?: TokenUsage }>
}

/** Texts that are wanted as vectors. */
export interface EmbedRequest {
  texts: readonly string[]
  model: string
  signal: AbortSignal
}

/** Request of an agent's turn to a model: a prompt or messages. `output` is the schema that the answer has to fit. */
export interface CompletionRequest<T = undefined> extends ModelOptions {
  prompt?: string
  messages?: readonly ModelMessage[]
  model?: string
  output?: ModelSchema<unknown, T>
  stream?: boolean
  signal?: AbortSignal
}

/** Answer of a model. `rehearsed`: the offline rehearsal model wrote it. */
export interface Completion<T = undefined> {
  text: string
  /** Reasoning that the provider has shown, if any. */
  reasoning?: string
  output: T
  usage: TokenUsage
  finishReason: FinishReason
  rehearsed: boolean
}

/** Request of a turn to the gateway in the host, as JSON. */
export interface ModelCall extends ModelOptions {
  messages: readonly ModelMessage[]
  /** A name in the team's `models`; without it, the default of `models`. */
  model?: string
  tools?: readonly ToolSpec[]
  jsonSchema?: object
  /** Function for the answer. The arguments of its call come back as the answer's text. */
  answerFunction?: AnswerFunction
  /** The text also comes in pieces, before the answer. */
  stream?: boolean
  /** Place of the call in its turn, if those who watch the run read it along. */
  watched?: Watched
}

/**
 * Place of a watched call. `messageId`: the message that its turn handles. `round`: the round of model and tools, from
 * 1 on. `answerOf`: whose answer its text may be: that of the run or of the turn; 'choice': one of several of which the
 * run's is made; 'call' if only code knows.
 */
export interface Watched {
  messageId: string
  round: number
  answerOf: 'run' | 'choice' | 'turn' | 'call'
}

/**
 * Answer of the gateway. `model` is the one that was called. `parts`: its text and reasoning in their order, if there
 * is more to it than the text.
 */
export interface ModelAnswer {
  text: string
  parts?: ContentPart[]
  toolCalls: ToolCall[]
  usage: TokenUsage
  finishReason: FinishReason
  rehearsed: boolean
  model: string
  /** Messages of people that stood last in the prompt: the conversation goes on with them, then with the answer. */
  steered?: ModelMessage[]
}

export const NO_TOKENS: TokenUsage = Object.freeze({ inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 })

/** Returns the sum of both. */
export function addUsage(a: TokenUsage, b: TokenUsage): TokenUsage {
  const cached = (a.cachedTokens ?? 0) + (b.cachedTokens ?? 0)
  const reasoning = (a.reasoningTokens ?? 0) + (b.reasoningTokens ?? 0)
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    totalTokens: a.totalTokens + b.totalTokens,
    ...(cached > 0 && { cachedTokens: cached }),
    ...(reasoning > 0 && { reasoningTokens: reasoning }),
    calls: a.calls + b.calls,
    ...((a.estimated || b.estimated) && { estimated: true }),
  }
}

/*
 * The field by which a model marks a call as a poll: it repeats the same call on purpose and waits for another answer.
 */

const FIELD = 'polling'

export const POLL_MARK = {
  [FIELD]: {
    type: 'boolean',
    description: 'true: you ask the same again on purpose, since you wait for it to change.',
  },
} as const

/** Checks whether the input of a tool has a field of that name by its own schema. */
export const hasMark = (inputSchema: object): boolean => FIELD in propertiesOf(inputSchema)

/** Returns the tool with the poll field added to its input schema. */
export function withMark({ name, description, inputSchema }: ToolSpec): ToolSpec {
  const properties = { ...propertiesOf(inputSchema), ...POLL_MARK }
  return { name, description, inputSchema: { ...inputSchema, properties } }
}

/** Checks whether a call is marked as a poll; `input` is JSON as a model wrote it. */
export const isMarked = (input: string): boolean => objectIn(input)?.[FIELD] === true

/**
 * Returns the input without the poll field, as the tool expects it. Text that is not a JSON object stays unchanged: the
 * tool refuses it.
 */
export function withoutMark(input: string): string {
  const given = objectIn(input)
  if (!given || !(FIELD in given)) return input
  const { [FIELD]: _mark, ...rest } = given
  return JSON.stringify(rest)
}

const propertiesOf = (inputSchema: object): object => Object(Reflect.get(inputSchema, 'properties'))

function objectIn(input: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(input)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch {
    return undefined
  }
}
