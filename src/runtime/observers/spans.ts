/**
 * The spans of one team. The first error that the user's telemetry throws is logged, later ones are ignored, and the
 * team goes on. Spans that are still open end with the team.
 */
import { type Content, type ContentPart, transcriptOf } from '../../actors/definition/content.ts'
import type { ModelAnswer, ModelCall, ModelMessage, ToolCall } from '../../actors/definition/model.ts'
import type { Logger } from '../../actors/definition/tool.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { describe, TeamClosedError } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import type { RunState } from '../host/run.ts'
import type { Redactor } from '../logging/redactor.ts'
import type {
  SpanAttributes,
  SpanStart,
  Telemetry,
  TelemetrySpan,
  TraceHeaders,
  TracePlace,
} from '../settings/options.ts'
import { isStreamed, type MadeCall, type PendingCall } from '../verbs/gateway.ts'

/*
 * Attributes of spans, named by OpenTelemetry's semantic conventions for generative AI. Attributes without a name there
 * begin with `dramatis.`.
 */

const ofRun = ({ id, threadId }: RunState): SpanAttributes => ({
  'gen_ai.conversation.id': threadId,
  'dramatis.run.id': id,
})

export const runAttributes = (run: RunState, workflow: string | undefined): SpanAttributes => ({
  'gen_ai.operation.name': 'invoke_workflow',
  'gen_ai.workflow.name': workflow,
  ...ofRun(run),
})

export const turnAttributes = (run: RunState, agent: string, messageId: string, attempt: number): SpanAttributes => ({
  'gen_ai.operation.name': 'invoke_agent',
  'gen_ai.agent.name': agent,
  ...ofRun(run),
  'dramatis.message.id': messageId,
  'dramatis.turn.attempt': attempt,
})

export const toolAttributes = (run: RunState, agent: string, tool: string, callId: string): SpanAttributes => ({
  'gen_ai.operation.name': 'execute_tool',
  'gen_ai.tool.name': tool,
  'gen_ai.tool.call.id': callId,
  'gen_ai.tool.type': 'function',
  'gen_ai.agent.name': agent,
  ...ofRun(run),
})

export const callAttributes = (pending: PendingCall): SpanAttributes => {
  const { caller, call, model, client, host, provider } = pending
  const [address, port] = host?.split(/:(?=\d+$)/) ?? []
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerName(client.rehearsal ?? false, host, provider),
    'gen_ai.request.model': model,
    'gen_ai.request.temperature': call.temperature,
    'gen_ai.request.max_tokens': call.maxOutputTokens,
    'gen_ai.request.stream': isStreamed(pending) || undefined,
    'gen_ai.output.type': call.jsonSchema ? 'json' : undefined,
    'gen_ai.agent.name': caller.agent.name,
    'server.address': address,
    'server.port': port === undefined ? undefined : Number(port),
    ...ofRun(caller.run),
  }
}

/** Names that the conventions have for providers, by the names that packages of the AI SDK have for them. */
const PROVIDERS: Readonly<Record<string, string | undefined>> = {
  google: 'gcp.gemini',
  'amazon-bedrock': 'aws.bedrock',
  azure: 'azure.ai.openai',
  mistral: 'mistral_ai',
  xai: 'x_ai',
}

/** Returns the API format that the provider's host speaks, as the conventions define it, or the name of a client. */
function providerName(isRehearsed: boolean, host: string | undefined, provider: string | undefined): string {
  if (isRehearsed) return 'dramatis.rehearsal'
  if (host !== undefined) return 'openai'
  const name = provider?.split('.')[0] ?? 'custom'
  return own(PROVIDERS, name) ?? name
}

export const answerAttributes = ({ answer, usage, firstMs }: MadeCall): SpanAttributes => ({
  'gen_ai.response.finish_reasons': answer && [answer.finishReason],
  'gen_ai.usage.input_tokens': usage.inputTokens,
  'gen_ai.usage.output_tokens': usage.outputTokens,
  'gen_ai.usage.cache_read.input_tokens': usage.cachedTokens,
  'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens,
  'gen_ai.response.time_to_first_chunk': firstMs === undefined ? undefined : firstMs / 1_000,
  'dramatis.rehearsed': answer?.rehearsed || undefined,
})

// ---- contents, as the conventions' JSON schemas have them

export const queryContent = (query: string): string =>
  JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: query }] }])

export const promptContent = ({ messages }: ModelCall): string => JSON.stringify(messages.map(messageContent))

export const answerContent = ({ text, parts, toolCalls, finishReason }: ModelAnswer): string => {
  const reason = finishReason === 'tool_calls' ? 'tool_call' : finishReason
  return JSON.stringify([{ role: 'assistant', parts: partsOf(parts ?? text, toolCalls), finish_reason: reason }])
}

const messageContent = ({ role, content, toolCalls = [], toolCallId }: ModelMessage) =>
  role === 'tool'
    ? { role, parts: [{ type: 'tool_call_response', id: toolCallId, response: transcriptOf(content) }] }
    : { role, parts: partsOf(content, toolCalls) }

/** Returns the parts without the bytes of media: a trace store is no place for them. */
const contentOf = (content: Content): object[] =>
  typeof content === 'string' ? (content === '' ? [] : [{ type: 'text', content }]) : content.map(partOf)

function partOf(part: ContentPart): object {
  if ('text' in part) return { type: part.type, content: part.text }
  return { type: 'blob', modality: part.type, mime_type: part.mediaType, ...(part.name && { name: part.name }) }
}

const partsOf = (content: Content, toolCalls: readonly ToolCall[]) => [
  ...contentOf(content),
  ...toolCalls.map(({ id, name, input }) => ({ type: 'tool_call', id, name, arguments: jsonIn(input) ?? input })),
]

export class Spans {
  readonly #telemetry: Telemetry
  readonly #logger: Logger
  readonly #redactor: Redactor
  readonly #open = new Set<Span>()
  #hasThrown = false

  constructor(telemetry: Telemetry, logger: Logger, redactor: Redactor) {
    this.#telemetry = telemetry
    this.#logger = logger
    this.#redactor = redactor
  }

  get workflowName(): string | undefined {
    return this.#telemetry.workflowName
  }

  active(): TracePlace | undefined {
    return this.guarded(() => this.#telemetry.active())
  }

  continued(headers: TraceHeaders): TracePlace | undefined {
    return this.guarded(() => this.#telemetry.continued(headers))
  }

  start(start: SpanStart): Span {
    const span = new Span(
      this,
      this.guarded(() => this.#telemetry.startSpan(start)),
    )
    this.#open.add(span)
    return span
  }

  isOpen(span: Span): boolean {
    return this.#open.has(span)
  }

  ended(span: Span): void {
    this.#open.delete(span)
  }

  /** Returns a content for an attribute, with keys taken out; undefined if contents are not captured. */
  content(text: () => string): string | undefined {
    return this.#telemetry.captureContent ? this.#redactor.text(text()) : undefined
  }

  close(at: number): void {
    const closed = new TeamClosedError('The team was closed.', {})
    for (const span of [...this.#open]) span.end(at, closed)
  }

  guarded<T>(task: () => T): T | undefined {
    try {
      return task()
    } catch (error) {
      if (!this.#hasThrown)
        this.#logger.error({ error: describe(error) }, 'the telemetry threw; this is told once, and the team goes on')
      this.#hasThrown = true
      return undefined
    }
  }
}

/** A span. The first end counts; events and attributes that come later are dropped. */
export class Span {
  readonly #spans: Spans
  readonly #span: TelemetrySpan | undefined
  #hasErrorType = false

  constructor(spans: Spans, span: TelemetrySpan | undefined) {
    this.#spans = spans
    this.#span = span
  }

  get place(): TracePlace | undefined {
    return this.#spans.guarded(() => this.#span?.place)
  }

  get headers(): TraceHeaders {
    return this.#spans.guarded(() => ({ ...this.#span?.headers })) ?? {}
  }

  set(attributes: SpanAttributes): void {
    if (!this.#spans.isOpen(this)) return
    this.#hasErrorType ||= attributes['error.type'] !== undefined
    this.#spans.guarded(() => this.#span?.set(attributes))
  }

  event(name: string, at: number, attributes: SpanAttributes): void {
    if (this.#spans.isOpen(this)) this.#spans.guarded(() => this.#span?.event(name, at, attributes))
  }

  /** An `error.type` that was noted before stands. */
  end(at: number, error?: { readonly code: string; readonly message: string } | null): void {
    if (!this.#spans.isOpen(this)) return
    if (error && !this.#hasErrorType) this.set({ 'error.type': error.code })
    this.#spans.ended(this)
    const message = error ? this.#spans.content(() => error.message) : undefined
    this.#spans.guarded(() => this.#span?.end(at, Boolean(error), message))
  }

  /** Runs the task within the span. The task runs exactly once, even if the telemetry throws or does not call it. */
  within<T>(task: () => T): T {
    let outcome: (() => T) | undefined
    const once = () => {
      outcome ??= outcomeOf(task)
    }
    this.#spans.guarded(() => this.#span?.within(once))
    once()
    return outcome!()
  }
}

/** Runs the task and returns a function that returns the task's result or throws its error. */
function outcomeOf<T>(task: () => T): () => T {
  try {
    const result = task()
    return () => result
  } catch (error) {
    return () => {
      throw error
    }
  }
}
