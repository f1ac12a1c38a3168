/** Encodes a request to a model for the Responses API. Source: OpenAI's API reference, "Create a model response". */
import type {
  ResponseCreateParamsBase,
  ResponseInputContent,
  ResponseInputItem,
} from 'openai/resources/responses/responses'
import { type ContentPart, mediaOf, textOf } from '../../../actors/definition/content.ts'
import type { ModelMessage, ModelRequest, ToolCall } from '../../../actors/definition/model.ts'
import { offeredIn } from '../../../actors/model/answer-function.ts'
import { ModelError } from '../../../errors.ts'
import { inputText } from '../call-input.ts'
import { schemaOf } from './chat-request.ts'
import { callPlaceOf, phaseOf, reasoningItemOf } from './responses-data.ts'

/**
 * Returns the body of a request. Nothing is stored with the provider: the conversation goes along with each call, and
 * reasoning in an encrypted form.
 */
export function responsesRequest(request: ModelRequest): ResponseCreateParamsBase {
  const { model, messages, temperature, topP, reasoningEffort, parallelToolCalls, strict, maxOutputTokens } = request
  const { tools, jsonSchema, mustCall } = offeredIn(request)
  return {
    model,
    input: messages.flatMap(itemsOf),
    store: false,
    ...(reasons(model) && { include: ['reasoning.encrypted_content'] }),
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, inputSchema }) => ({
        type: 'function' as const,
        name,
        description,
        parameters: schemaOf(inputSchema, strict),
        strict: strict ?? false, // the API's own default refuses most schemas
      })),
      ...toolChoiceOf(request, mustCall),
      ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
    }),
    ...(jsonSchema && {
      text: {
        format: {
          type: 'json_schema' as const,
          name: 'answer',
          schema: schemaOf(jsonSchema, strict),
          strict: strict ?? false,
        },
      },
    }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(reasoningEffort !== undefined && { reasoning: { effort: effortOf(reasoningEffort) } }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...request.extraBody,
  }
}

/** Returns sentences about the options that the Responses API does not have. */
export function warningsOf({ stop, seed }: ModelRequest): string[] {
  return [...(stop ? ['stop'] : []), ...(seed === undefined ? [] : ['seed'])].map(
    (option) => `${option} has no effect: the Responses API has no such option.`,
  )
}

/**
 * Checks whether a model can reason. Those that cannot refuse a request for the encrypted form of it. Source: OpenAI's
 * list of models.
 */
const reasons = (model: string): boolean => !/^(ft:)?(gpt-3|gpt-4|chatgpt-4|gpt-5-chat)/.test(model)

/** Passes the word on: a provider can have more of them than the SDK knows. */
type Effort = NonNullable<NonNullable<ResponseCreateParamsBase['reasoning']>['effort']>
const effortOf = (effort: string) => effort as Effort

function toolChoiceOf({ toolChoice }: ModelRequest, mustCall: boolean): Pick<ResponseCreateParamsBase, 'tool_choice'> {
  if (mustCall) return { tool_choice: 'required' }
  if (toolChoice === undefined) return {}
  return { tool_choice: typeof toolChoice === 'string' ? toolChoice : { type: 'function', name: toolChoice.tool } }
}

function itemsOf({ role, content, toolCalls = [], toolCallId = '' }: ModelMessage): ResponseInputItem[] {
  if (role === 'system') return [{ role, content: textOf(content) }]
  if (role === 'tool') return [{ type: 'function_call_output', call_id: toolCallId, output: outputOf(content) }]
  if (role === 'assistant') return assistantItems(typeof content === 'string' ? [] : content, content, toolCalls)
  return [{ role, content: typeof content === 'string' ? content : content.flatMap(inputPart) }]
}

/** Returns the items of an answer in the order of the model: each reasoning belongs to the item after it. */
function assistantItems(
  parts: readonly ContentPart[],
  content: ModelMessage['content'],
  toolCalls: readonly ToolCall[],
): ResponseInputItem[] {
  const said = typeof content === 'string' ? [{ type: 'text', text: content } as const] : parts
  const items: ResponseInputItem[] = []
  const calls = toolCalls.map((call) => ({ call, after: callPlaceOf(call) ?? said.length }))
  for (const [at, part] of said.entries()) {
    items.push(...calls.filter(({ after }) => after === at).map(({ call }) => callItem(call)))
    items.push(...partItems(part))
  }
  return [...items, ...calls.filter(({ after }) => after >= said.length).map(({ call }) => callItem(call))]
}

const callItem = ({ id, name, input }: ToolCall): ResponseInputItem => ({
  type: 'function_call',
  call_id: id,
  name,
  arguments: inputText(input),
})

function partItems(part: ContentPart): ResponseInputItem[] {
  if (part.type === 'reasoning') return reasoningItemOf(part)
  if (part.type !== 'text' || part.text === '') return [] // the API takes no other part from an assistant
  return [{ role: 'assistant', content: part.text, ...phaseOf(part) }]
}

function inputPart(part: ContentPart): ResponseInputContent[] {
  if (part.type === 'text') return [{ type: 'input_text', text: part.text }]
  if (part.type === 'reasoning') return [] // a user has none
  if (part.type === 'audio')
    throw new ModelError('A sound cannot be sent in the Responses API: it takes texts, images and files.', {
      reason: 'rejected',
      retryable: false,
    })
  const media = mediaOf(part)
  const data = 'url' in media ? media.url : `data:${media.mediaType};base64,${media.base64}`
  if (part.type === 'image') return [{ type: 'input_image', image_url: data, detail: 'auto' }]
  if ('url' in media) return [{ type: 'input_file', file_url: media.url }]
  return [{ type: 'input_file', file_data: data, filename: part.name ?? `file.${media.mediaType.split('/')[1]}` }]
}

function outputOf(content: ModelMessage['content']) {
  if (typeof content === 'string' || content.every(({ type }) => type === 'text' || type === 'reasoning'))
    return textOf(content)
  return content.flatMap(inputPart)
}
