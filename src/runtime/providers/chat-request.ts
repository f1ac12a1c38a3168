/** Encodes a request to a model for chat completions. Source: OpenAI's API reference, Chat Completions. */
import type { ChatCompletionCreateParamsBase, ChatCompletionMessageParam } from 'openai/resources/chat/completions'
import type { ModelMessage, ModelRequest, ToolSpec } from '../../actors/definition/model.ts'
import { offeredIn } from '../../actors/model/answer-function.ts'

/** Returns the body of a request. `tokensField`: the provider's name for the bound of an answer. */
export function chatRequest(
  request: ModelRequest,
  tokensField: 'max_tokens' | 'max_completion_tokens',
): ChatCompletionCreateParamsBase {
  const { model, messages, temperature, topP, stop, seed, reasoningEffort, parallelToolCalls, strict } = request
  const { maxOutputTokens, extraBody } = request
  const { tools, jsonSchema, mustCall } = offeredIn(request)
  return {
    model,
    messages: messages.map(chatMessage),
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

export function isOpenAI(hostname: string): boolean {
  return hostname === 'openai.com' || hostname.endsWith('.openai.com')
}

function chatMessage({ role, content, toolCalls = [], toolCallId = '' }: ModelMessage): ChatCompletionMessageParam {
  if (role === 'tool') return { role, content, tool_call_id: toolCallId }
  if (role !== 'assistant' || toolCalls.length === 0) return { role, content }
  const calls = toolCalls.map(({ id, name, input }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: input },
  }))
  return { role, content: content === '' ? null : content, tool_calls: calls }
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

function schemaOf(schema: object, strict: boolean | undefined): Record<string, unknown> {
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
