/**
 * Attributes of spans, named by OpenTelemetry's semantic conventions for generative AI. Attributes without a name there
 * begin with `dramatis.`.
 */

import { type Content, type ContentPart, transcriptOf } from '../../actors/definition/content.ts'
import type { ModelAnswer, ModelCall, ModelMessage, ToolCall } from '../../actors/definition/model.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { own } from '../../own.ts'
import type { MadeCall, PendingCall } from '../models/gateway.ts'
import type { SpanAttributes } from '../settings/telemetry.ts'
import type { RunState } from '../state/run-state.ts'

/** Returns the attributes that all spans of a run have. */
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

export const callAttributes = ({ caller, call, model, client, host, provider }: PendingCall): SpanAttributes => {
  const [address, port] = host?.split(/:(?=\d+$)/) ?? []
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerName(client.rehearsal ?? false, host, provider),
    'gen_ai.request.model': model,
    'gen_ai.request.temperature': call.temperature,
    'gen_ai.request.max_tokens': call.maxOutputTokens,
    'gen_ai.output.type': call.jsonSchema ? 'json' : undefined,
    'gen_ai.agent.name': caller.cell.name,
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

export const answerAttributes = ({ answer, usage }: MadeCall): SpanAttributes => ({
  'gen_ai.response.finish_reasons': answer && [answer.finishReason],
  'gen_ai.usage.input_tokens': usage.inputTokens,
  'gen_ai.usage.output_tokens': usage.outputTokens,
  'gen_ai.usage.cache_read.input_tokens': usage.cachedTokens,
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
