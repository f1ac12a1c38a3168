/** OpenAI's Responses API. provider-clients.ts loads this file with the first call. */
import { randomUUID } from 'node:crypto'
import type {
  ResponseCreateParamsBase,
  ResponseInputContent,
  ResponseInputItem,
} from 'openai/resources/responses/responses'
import { z } from 'zod'
import {
  type ContentPart,
  mediaOf,
  type ProviderData,
  type ReasoningPart,
  type TextPart,
  textOf,
} from '../../actors/definition/content.ts'
import type { FinishReason, ModelMessage, ModelPiece, ModelRequest, ToolCall } from '../../actors/definition/model.ts'
import { offeredIn } from '../../actors/model/answer-function.ts'
import { ModelError } from '../../shared/errors.ts'
import { inputText } from './call-input.ts'
import { MOST_CALLS } from './collect.ts'
import type { Asked } from './model-errors.ts'
import { atMost, OpenAIAnswer, type OpenAIApi, told, usageIn } from './openai-caller.ts'
import { finishOf, schemaOf, toolChoice } from './openai-chat.ts'
import { isRefusal, ProviderRefusal } from './refusals.ts'

/*
 * Data that an answer's parts and calls carry, so that they go back as they came: ids and the encrypted form of
 * reasoning, the phase of a text, and the place of a call among the parts.
 */

const RESPONSES = 'responses'

const dataOf = (data: ProviderData | undefined): Record<string, unknown> => data?.[RESPONSES] ?? {}

const reasoningData = (id: string, encrypted: string | undefined): ProviderData => ({
  [RESPONSES]: { id, ...(encrypted !== undefined && { encrypted }) },
})

/** Returns the item of a reasoning. Nothing is stored, so only an encrypted one means anything to the provider. */
function reasoningItemOf({ text, providerData }: ReasoningPart): ResponseInputItem[] {
  const { id, encrypted } = dataOf(providerData)
  if (typeof id !== 'string' || typeof encrypted !== 'string') return []
  const summary = text === '' ? [] : [{ type: 'summary_text' as const, text }]
  return [{ type: 'reasoning', id, summary, encrypted_content: encrypted }]
}

function phaseOf({ providerData }: TextPart): { phase?: 'commentary' | 'final_answer' } {
  const { phase } = dataOf(providerData)
  return phase === 'commentary' || phase === 'final_answer' ? { phase } : {}
}

/*
 * Reads the answers of the Responses API as pieces of a model client: a whole response, or the events of a stream. The
 * texts of a stream come with its deltas; the rest is taken from the items, once they are done. Source: OpenAI's API
 * reference, "The response object" and "Streaming events".
 */

const textShape = z.looseObject({
  type: z.string().nullish(),
  text: z.string().nullish(),
  refusal: z.string().nullish(),
})
const itemShape = z.looseObject({
  type: z.string(),
  id: z.string().nullish(),
  call_id: z.string().nullish(),
  name: z.string().nullish(),
  arguments: z.string().nullish(),
  content: z.array(textShape).nullish(),
  summary: z.array(textShape).nullish(),
  encrypted_content: z.string().nullish(),
  phase: z.string().nullish(),
})
type Item = z.infer<typeof itemShape>
const responseShape = z.looseObject({
  status: z.string().nullish(),
  error: z.unknown().optional(),
  incomplete_details: z.object({ reason: z.string().nullish() }).nullish(),
  output: z.preprocess(atMost(2 * MOST_CALLS), z.array(itemShape)).nullish(),
  usage: z.unknown().optional(),
})
const eventShape = z.looseObject({
  type: z.string(),
  output_index: z.number().nullish(),
  summary_index: z.number().nullish(),
  delta: z.string().nullish(),
  item: itemShape.nullish(),
})
/** Events whose fields are read. Others are new or say nothing that an answer needs. */
const READ = new Set([
  'response.output_text.delta',
  'response.refusal.delta',
  'response.reasoning_summary_text.delta',
  'response.reasoning_text.delta',
  'response.reasoning_summary_part.added',
  'response.output_item.added',
  'response.output_item.done',
  'response.function_call_arguments.delta',
])
const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed'])

export class ResponsesAnswer extends OpenAIAnswer {
  /** Calls, with the number of parts that came before each. */
  readonly #calls: { call: ToolCall; after: number }[] = []
  readonly #blocks = new Map<string, number>()
  /** Calls of a stream that have begun, by the index of their item. */
  readonly #begun = new Map<number, { id: string; name: string }>()
  #lastReasoning = -1
  #end: z.infer<typeof responseShape> | undefined

  constructor(asked: Asked) {
    super(asked, SPEAKS)
  }

  *take(data: unknown): Generator<ModelPiece> {
    const { type, object, error, response } = Object(data) as Record<string, unknown>
    if (type === 'error') throw new ProviderRefusal(error ?? data)
    if (object !== 'response' && typeof type === 'string') {
      if (ENDS.has(type)) this.#end = this.#parsed(responseShape, response, type)
      else if (READ.has(type)) yield* this.#event(this.#parsed(eventShape, data, 'an event'))
      if (this.#end?.error) throw new ProviderRefusal(this.#end.error)
      return
    }
    if (isRefusal(data, 'output')) throw new ProviderRefusal(data)
    this.#end = this.#parsed(responseShape, data, 'the body')
    if (!this.#end.output) throw this.wrong('answered without output', 'no_parts')
    for (const [at, item] of this.#end.output.entries()) {
      yield* this.#texts(item, at)
      yield* this.#done(item, at)
    }
  }

  get hasEnded(): boolean {
    return this.#end !== undefined
  }

  *end(): Generator<ModelPiece> {
    const end = this.#end
    if (!end) throw this.again('broke off: its answer has no end', { reason: 'unreachable', code: 'broken_off' })
    const finishReason = this.#finishReason(end)
    for (const { call, after } of this.#calls) {
      this.checkInput(call.input)
      // The place matters only where reasoning comes after the call.
      yield { toolCall: { ...call, ...(after <= this.#lastReasoning && { providerData: { [RESPONSES]: { after } } }) } }
    }
    const usage = usageIn(end.usage, 'input_tokens', 'output_tokens')
    if (usage) yield { usage }
    yield { finishReason }
  }

  *#event({ type, output_index: index, summary_index: summary, delta, item }: z.infer<typeof eventShape>) {
    const at = index ?? 0
    if (item) {
      if (type === 'response.output_item.done') yield* this.#done(item, at)
      else if (item.type === 'function_call') this.#begun.set(at, { id: item.call_id ?? '', name: item.name ?? '' })
      return
    }
    if (type === 'response.reasoning_summary_part.added') {
      if ((summary ?? 0) > 0) yield* this.#said('reasoning', '\n\n', at)
      return
    }
    if (typeof delta !== 'string') throw this.wrong(`sent ${type} without its words`, 'half_part')
    if (type === 'response.function_call_arguments.delta') {
      const call = this.#begun.get(at)
      this.count(delta)
      if (call && call.id !== '' && call.name !== '') yield { toolInput: { ...call, text: delta } }
      return
    }
    if (type === 'response.refusal.delta') this.isRefused = true
    const kind = type.startsWith('response.reasoning') ? 'reasoning' : 'text'
    yield* this.#said(kind, delta, at)
  }

  *#texts({ type, content, summary }: Item, at: number): Generator<ModelPiece> {
    if (type === 'message')
      for (const { text, refusal } of content ?? []) {
        if (refusal) this.isRefused = true
        yield* this.#said('text', text ?? refusal ?? '', at)
      }
    if (type === 'reasoning') {
      const texts = [...(summary ?? []), ...(content ?? [])].map(({ text }) => text ?? '')
      yield* this.#said('reasoning', texts.join('\n\n'), at)
    }
  }

  *#done(item: Item, at: number): Generator<ModelPiece> {
    if (item.type === 'reasoning') {
      if (item.id) yield* this.#said('reasoning', '', at, reasoningData(item.id, item.encrypted_content ?? undefined))
    } else if (item.type === 'message') {
      if (item.phase) yield* this.#said('text', '', at, { [RESPONSES]: { phase: item.phase } })
    } else if (item.type === 'function_call') this.#takeCall(item)
    else yield { warning: leftOut(item.type) }
  }

  *#said(kind: 'text' | 'reasoning', text: string, at: number, providerData?: ProviderData): Generator<ModelPiece> {
    if (text === '' && !providerData) return
    const block = `${at}`
    this.count(text)
    const place = this.#blocks.get(block) ?? this.#blocks.size
    this.#blocks.set(block, place)
    if (kind === 'reasoning') this.#lastReasoning = Math.max(this.#lastReasoning, place)
    yield { [kind]: text, block, ...(providerData && { providerData }) }
  }

  #takeCall({ call_id: id, name, arguments: input }: Item): void {
    if (!name) throw this.wrong('called a tool without its name', 'half_part')
    this.checkCalls(this.#calls.length + 1)
    const call = { id: id || `call_${randomUUID()}`, name, input: input ?? '' }
    this.#calls.push({ call, after: this.#blocks.size })
  }

  #finishReason({ status, incomplete_details: details }: z.infer<typeof responseShape>): FinishReason {
    if (this.isRefused) return 'content_filter'
    const word = (status === 'incomplete' ? details?.reason : status) ?? 'completed'
    const reason = finishOf(word)
    if (reason === 'stop') return this.#calls.length > 0 ? 'tool_calls' : 'stop'
    if (reason === 'error') throw this.wrong('ended its answer with an error', 'broken_off')
    if (reason) return reason
    throw this.wrong(`ended with ${told('the status', word) ?? 'a status'} that is no end of an answer`, 'unknown_end')
  }

  #parsed<T>(shape: z.ZodType<T>, data: unknown, where: string): T {
    const { success, data: parsed, error } = shape.safeParse(data)
    if (success) return parsed
    const [issue] = error.issues
    const path = issue?.path.join('.') ?? ''
    const place = `${where}${path && ` at ${path}`}`
    throw this.wrong(`answered with something else than the Responses API in ${place}`, 'foreign_part')
  }
}

function leftOut(type: string): string {
  const shown = told('of type', type) ?? 'of no known type'
  return `the answer has an item ${shown}, which is left out: answers have text, reasoning and calls of the role's tools.`
}

/**
 * Returns the body of a request. Nothing is stored with the provider: the conversation goes along with each call, and
 * reasoning in an encrypted form.
 */
function responsesRequest(request: ModelRequest): ResponseCreateParamsBase {
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
      ...toolChoice(request, mustCall, (name) => ({ type: 'function' as const, name })),
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
    // a provider can have more words for it than the SDK knows
    ...(reasoningEffort !== undefined && { reasoning: { effort: reasoningEffort as Effort } }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...request.extraBody,
  }
}

function warningsOf({ stop, seed }: ModelRequest): string[] {
  return [...(stop ? ['stop'] : []), ...(seed === undefined ? [] : ['seed'])].map(
    (option) => `${option} has no effect: the Responses API has no such option.`,
  )
}

/**
 * Checks whether a model can reason. Those that cannot refuse a request for the encrypted form of it. Source: OpenAI's
 * list of models.
 */
const reasons = (model: string): boolean => !/^(ft:)?(gpt-3|gpt-4|chatgpt-4|gpt-5-chat)/.test(model)

type Effort = NonNullable<NonNullable<ResponseCreateParamsBase['reasoning']>['effort']>

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
  const calls = toolCalls.map((call) => {
    const { after } = dataOf(call.providerData)
    return { call, after: typeof after === 'number' ? after : said.length }
  })
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

const SPEAKS = 'the Responses API'

export const responsesApi: OpenAIApi<ResponseCreateParamsBase> = {
  speaks: SPEAKS,
  body: responsesRequest,
  warnings: warningsOf,
  answer: (asked) => new ResponsesAnswer(asked),
  async create({ responses }, body, isStream, settings) {
    if (isStream) return responses.create({ ...body, stream: true }, settings).withResponse()
    return { response: await responses.create({ ...body, stream: false }, settings).asResponse(), data: undefined }
  },
}
