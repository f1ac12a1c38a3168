/** Encodes a request to a model for chat completions. Source: OpenAI's API reference, Chat Completions. */
import type {
  ChatCompletionContentPart,
  ChatCompletionCreateParamsBase,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions'
import {
  type ContentPart,
  mediaOf,
  type ProviderData,
  textOf,
  transcriptOf,
} from '../../../actors/definition/content.ts'
import type { ModelMessage, ModelRequest, ToolSpec } from '../../../actors/definition/model.ts'
import { offeredIn } from '../../../actors/model/answer-function.ts'
import { ModelError } from '../../../errors.ts'
import { inputText } from '../call-input.ts'
import { fieldsGivenBack } from './chat-fields.ts'
import { reasoningFields } from './chat-reasoning.ts'
import { isOpenAI } from './host.ts'

/**
 * Returns the body of a request. `origin`: address and model, to which fields of its own answers go back.
 * `tokensField`: the provider's name for the bound of an answer.
 */
export function chatRequest(
  request: ModelRequest,
  origin: string,
  tokensField: 'max_tokens' | 'max_completion_tokens',
): ChatCompletionCreateParamsBase {
  const { model, messages, temperature, topP, stop, seed, reasoningEffort, parallelToolCalls, strict } = request
  const { maxOutputTokens, extraBody } = request
  const { tools, jsonSchema, mustCall } = offeredIn(request)
  return {
    model,
    messages: chatMessages(messages, (data) => fieldsGivenBack(data, origin, request.giveBack)),
    ...(tools.length > 0 && { tools: tools.map((tool) => chatTool(tool, strict)), ...toolChoice(request, mustCall) }),
    ...(tools.length > 0 && parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
    ...(jsonSchema && {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: schemaOf(jsonSchema, strict), ...(strict !== undefined && { strict }) },
      },
    }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(stop && { stop }),
    ...(seed !== undefined && { seed }),
    ...(reasoningEffort !== undefined && { reasoning_effort: effortOf(reasoningEffort) }),
    ...(maxOutputTokens !== undefined && { [tokensField]: maxOutputTokens }),
    ...extraBody,
  }
}

/**
 * Returns the provider's name for the bound of an answer. Reasoning models of OpenAI refuse the old name. Other servers
 * do not know the new name, and would ignore the bound.
 */
export function tokensFieldOf({ hostname }: URL): 'max_tokens' | 'max_completion_tokens' {
  return isOpenAI(hostname) || hostname.endsWith('.openai.azure.com') ? 'max_completion_tokens' : 'max_tokens'
}

/**
 * Returns the messages of a conversation. The result of a tool is text there; its media follow as a message of the
 * user, behind the results of all calls of the same answer, which must stand together.
 */
function chatMessages(messages: readonly ModelMessage[], fieldsOf: FieldsOf): ChatCompletionMessageParam[] {
  const all: ChatCompletionMessageParam[] = []
  let shown: ChatCompletionContentPart[] = []
  const show = () => {
    if (shown.length > 0) all.push({ role: 'user', content: shown })
    shown = []
  }
  for (const message of messages) {
    if (message.role !== 'tool') show()
    else shown.push(...mediaOfResult(message))
    all.push(chatMessage(message, fieldsOf))
  }
  show()
  return all
}

function mediaOfResult({ content, toolCallId }: ModelMessage): ChatCompletionContentPart[] {
  if (typeof content === 'string') return []
  const media = content.filter(({ type }) => type !== 'text' && type !== 'reasoning').flatMap(chatPart)
  return media.length === 0 ? [] : [{ type: 'text', text: `Result of the call ${toolCallId}:` }, ...media]
}

/** Returns the fields of a provider that go back with a message or a call. */
type FieldsOf = (data: ProviderData | undefined) => object

function chatMessage(
  { role, content, toolCalls = [], toolCallId = '' }: ModelMessage,
  fieldsOf: FieldsOf,
): ChatCompletionMessageParam {
  if (role === 'user') return { role, content: typeof content === 'string' ? content : content.flatMap(chatPart) }
  const text = textOf(content)
  if (role === 'tool') return { role, content: text || transcriptOf(content), tool_call_id: toolCallId }
  if (role === 'system') return { role, content: text }
  const parts = typeof content === 'string' ? [] : content
  const fields = parts.map((part) => (part.type === 'reasoning' ? fieldsOf(part.providerData) : {}))
  const reasoning = Object.assign(reasoningFields(content), ...fields)
  if (toolCalls.length === 0) return { role, content: text, ...reasoning }
  const calls = toolCalls.map(({ id, name, input, providerData }) => ({
    ...fieldsOf(providerData),
    id,
    type: 'function' as const,
    function: { name, arguments: inputText(input) },
  }))
  return { role, content: text === '' ? null : text, tool_calls: calls, ...reasoning }
}

function chatPart(part: ContentPart): ChatCompletionContentPart[] {
  if (part.type === 'text') return [{ type: 'text', text: part.text }]
  if (part.type === 'reasoning') return [] // a user has none
  const media = mediaOf(part)
  const url = 'url' in media ? media.url : `data:${media.mediaType};base64,${media.base64}`
  if (part.type === 'image') return [{ type: 'image_url', image_url: { url } }]
  if ('url' in media) throw noLinks(part.type)
  const { mediaType, base64 } = media
  if (part.type === 'audio')
    return [{ type: 'input_audio', input_audio: { data: base64, format: formatOf(mediaType) } }]
  return [{ type: 'file', file: { file_data: url, filename: part.name ?? `file.${mediaType.split('/')[1]}` } }]
}

/** Chat completions take sounds as mp3 or wav alone. Source: OpenAI's API reference, input_audio. */
function formatOf(mediaType: string): 'mp3' | 'wav' {
  if (/^audio\/(mpeg|mp3)$/.test(mediaType)) return 'mp3'
  if (/^audio\/(wav|x-wav|wave|vnd\.wave)$/.test(mediaType)) return 'wav'
  throw new ModelError(`A sound of type ${mediaType} cannot be sent in chat completions: they take mp3 and wav.`, {
    reason: 'rejected',
    code: 'part_not_taken',
    mediaType,
    retryable: false,
  })
}

function noLinks(type: string): ModelError {
  const text = `A part of type ${type} has a URL, which chat completions take for images alone. Give its bytes.`
  return new ModelError(text, { reason: 'rejected', code: 'part_not_taken', retryable: false })
}

/**
 * Says how the model may use its tools. The function for an answer is not required by its name: LM Studio refuses that,
 * llama.cpp ignores it. So the model may call tools of the role first.
 */
function toolChoice(
  { toolChoice: choice }: ModelRequest,
  mustCall: boolean,
): Pick<ChatCompletionCreateParamsBase, 'tool_choice'> {
  if (mustCall) return { tool_choice: 'required' }
  if (choice === undefined) return {}
  return { tool_choice: typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.tool } } }
}

function chatTool({ name, description, inputSchema }: ToolSpec, strict: boolean | undefined) {
  const parameters = schemaOf(inputSchema, strict)
  return {
    type: 'function' as const,
    function: { name, description, parameters, ...(strict !== undefined && { strict }) },
  }
}

/** Returns a schema as OpenAI's APIs take it. */
export function schemaOf(schema: object, strict: boolean | undefined): Record<string, unknown> {
  return withoutDialect(strict ? Object(closed(schema)) : schema)
}

/** Returns a schema whose objects have no properties but the named ones: strict schemas have to say so. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const parts = Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, closed(part)]))
  return parts.type === 'object' && parts.properties ? { additionalProperties: false, ...parts } : parts
}

/** Passes the word on: a provider can have more of them than the SDK knows. */
const effortOf = (effort: string) => effort as ChatCompletionCreateParamsBase['reasoning_effort']

/** Removes `$schema`. Schema libraries add it, and Gemini refuses fields that it does not know. */
function withoutDialect(schema: object): Record<string, unknown> {
  const { $schema: _dialect, ...rest } = schema as Record<string, unknown>
  return rest
}
