/** Encodes a request to a model for chat completions. Source: OpenAI's API reference, Chat Completions. */
import type { ChatCompletionCreateParamsBase, ChatCompletionMessageParam } from 'openai/resources/chat/completions'
import type { ModelMessage, ModelRequest, ToolSpec } from '../../actors/definition/model.ts'
import { offeredIn } from '../../actors/model/answer-function.ts'

/** Returns the body of a request. `tokensField`: the provider's name for the bound of an answer. */
export function chatRequest(
  request: ModelRequest,
  tokensField: 'max_tokens' | 'max_completion_tokens',
): ChatCompletionCreateParamsBase {
  const { model, messages, temperature, maxOutputTokens } = request
  const { tools, jsonSchema, mustCall } = offeredIn(request)
  return {
    model,
    messages: messages.map(chatMessage),
    ...(tools.length > 0 && { tools: tools.map(chatTool) }),
    // The tool is not required by its name: LM Studio refuses that, llama.cpp ignores it. So the model may call tools
    // of the role first.
    ...(mustCall && { tool_choice: 'required' as const }),
    ...(jsonSchema && {
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: withoutDialect(jsonSchema) } },
    }),
    ...(temperature !== undefined && { temperature }),
    ...(maxOutputTokens !== undefined && { [tokensField]: maxOutputTokens }),
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

function chatTool({ name, description, inputSchema }: ToolSpec) {
  return { type: 'function' as const, function: { name, description, parameters: withoutDialect(inputSchema) } }
}

/** Removes `$schema`. Schema libraries add it, and Gemini refuses fields that it does not know. */
function withoutDialect(schema: object): Record<string, unknown> {
  const { $schema: _dialect, ...rest } = schema as Record<string, unknown>
  return rest
}
