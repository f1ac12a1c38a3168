/**
 * Chat completions: OpenAI itself, Gemini, Ollama, vLLM, LM Studio, by `baseURL`. A client makes one attempt:
 * provider-clients.ts repeats calls, and loads this file with the first; provider-queue.ts delays them.
 */
import { randomUUID } from 'node:crypto'
import type {
  ChatCompletionContentPart,
  ChatCompletionCreateParamsBase,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions'
import { z } from 'zod'
import {
  type Content,
  type ContentPart,
  mediaOf,
  type ProviderData,
  type ReasoningPart,
  textOf,
  transcriptOf,
} from '../../actors/definition/content.ts'
import type {
  FinishReason,
  ModelMessage,
  ModelPiece,
  ModelRequest,
  TokenUsage,
  ToolCall,
  ToolSpec,
} from '../../actors/definition/model.ts'
import { offeredIn } from '../../actors/model/answer-function.ts'
import { nestsTooDeep } from '../../mailbox/json.ts'
import { isObject } from '../../shared/checks.ts'
import { ModelError } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import { inputText } from './call-input.ts'
import { MOST_CALLS } from './collect.ts'
import type { Asked } from './model-errors.ts'
import { atMost, isOpenAI, OpenAIAnswer, type OpenAIApi, told, usageIn } from './openai-caller.ts'
import { isRefusal, ProviderRefusal } from './refusals.ts'

/*
 * Joins the calls of tools in an answer. A stream sends a call in parts, and servers disagree on what tells the parts
 * apart: the index, the id, the name, or nothing.
 */

const callShape = z.looseObject({
  index: z.coerce.number().nullish().catch(undefined),
  id: z.string().nullish(),
  function: z
    .object({
      name: z.string().nullish(),
      /** Some servers send the arguments as the object itself. */
      arguments: z
        .union([z.string(), z.record(z.string(), z.unknown()).transform((input) => JSON.stringify(input))])
        .nullish(),
    })
    .nullish(),
})
type Part = z.infer<typeof callShape>

class ChatCalls {
  readonly all: ToolCall[] = []
  /** The last call that had an index or an id. */
  readonly #byIndex = new Map<number, ToolCall>()
  readonly #byId = new Map<string, ToolCall>()
  /** Calls whose input may be whole. The input itself is not looked at with each part: it may have 80,000. */
  readonly #ended = new Set<ToolCall>()
  /** Ids that the provider has given. Calls without one have an id of ours. */
  readonly #given = new Map<ToolCall, string>()

  add({ id, function: called }: Part): ToolCall {
    const call = this.#begin(id, called?.name ?? '')
    call.input = called?.arguments ?? ''
    return call
  }

  /** Returns the call, and how much of its input is new: some servers send a whole call again at its end. */
  addPart(part: Part): { call: ToolCall; input: string } {
    const { index, id, function: called } = part
    const name = called?.name ?? ''
    const known = this.#callOf(part)
    if (known && this.#isSentAgain(known, part)) return { call: known, input: '' }
    const call = known && !this.#beginsAnother(known, part) ? known : this.#begin(id, name)
    if (index != null) this.#byIndex.set(index, call)
    if (id && !this.#given.has(call)) this.#give(call, id)
    if (call.name === '') call.name = name
    const input = called?.arguments ?? ''
    call.input += input
    if (input.endsWith('}')) this.#ended.add(call)
    else if (input !== '') this.#ended.delete(call)
    return { call, input }
  }

  #isSentAgain(call: ToolCall, { index, id, function: called }: Part): boolean {
    const isSame = id != null && this.#given.get(call) === id && (index == null || this.#byIndex.get(index) === call)
    return isSame && this.#ended.has(call) && called?.arguments === call.input
  }

  /** Returns the call that a part names, by its id or its index. A part that names none goes on with the last call. */
  #callOf({ index, id, function: called }: Part): ToolCall | undefined {
    const named = (id && this.#byId.get(id)) || (index == null ? undefined : this.#byIndex.get(index))
    if (named) return named
    const last = this.all.at(-1)
    const goesOn = !id && (!called?.name || (index == null && last?.name === ''))
    return goesOn ? last : undefined
  }

  /** Decides whether a part begins another call than the one that it names: Gemini gives all calls the index 0. */
  #beginsAnother(call: ToolCall, { index, id, function: called }: Part): boolean {
    const given = this.#given.get(call)
    if (id && given !== undefined && given !== id) return true
    if (!called?.name || call.name === '') return false
    if (called.name !== call.name) return true
    if (!this.#ended.has(call)) return false
    const input = called.arguments ?? ''
    return input === '' ? index != null && this.#byIndex.get(index) !== call : input.startsWith('{')
  }

  #begin(id: string | null | undefined, name: string): ToolCall {
    const call = { id: id || `call_${randomUUID()}`, name, input: '' }
    this.all.push(call)
    if (id) this.#give(call, id)
    return call
  }

  #give(call: ToolCall, id: string): void {
    this.#given.set(call, id)
    this.#byId.set(id, call)
  }
}

/*
 * Fields beyond the API that a server of chat completions adds to a message or to a call of a tool. Some servers refuse
 * the next request without them; strict ones refuse any that they do not know. So they go back to the same model at the
 * same address alone, and of them those that are known to be wanted. Sources: Google's "Thought signatures" (OpenAI
 * compatibility), OpenRouter's "Preserving reasoning blocks", LiteLLM's "thinking_blocks".
 */

const GIVEN_BACK = [
  'extra_content',
  'thought_signature',
  'reasoning_details',
  'provider_specific_fields',
  'thinking_blocks',
]
const KNOWN = {
  message: new Set(
    'role content refusal tool_calls function_call annotations audio name reasoning_content reasoning'.split(' '),
  ),
  call: new Set(['index', 'id', 'type', 'function']),
}
const MOST_FIELD_CHARACTERS = 2 ** 20
/** Name under which the provider data of parts and calls stands. */
const CHAT = 'chat'

class ChatFields {
  readonly #origin: string
  readonly #fields = new Map<object, Map<string, unknown>>()
  readonly #names = new Set<string>()
  #size = 0

  constructor(origin: string) {
    this.#origin = origin
  }

  /** Adds what a message or a call has besides. A stream sends a field in parts. `of`: what it belongs to. */
  take(of: object, kind: keyof typeof KNOWN, given: object): void {
    for (const [name, value] of Object.entries(given)) {
      if (KNOWN[kind].has(name) || value === null || value === '') continue
      const text = JSON.stringify(value) ?? ''
      this.#size += name.length + text.length
      this.#names.add(name)
      if (this.#size > MOST_FIELD_CHARACTERS || nestsTooDeep(text)) continue
      const fields = this.#fields.get(of) ?? new Map<string, unknown>()
      this.#fields.set(of, fields.set(name, joined(fields.get(name), value)))
    }
  }

  of(of: object): { providerData?: ProviderData } {
    const fields = this.#fields.get(of)
    return fields ? { providerData: { [CHAT]: { of: this.#origin, fields: Object.fromEntries(fields) } } } : {}
  }

  others(giveBack: readonly string[] = []): string[] {
    return [...this.#names].filter((name) => !GIVEN_BACK.includes(name) && !giveBack.includes(name))
  }
}

function fieldsGivenBack(
  data: ProviderData | undefined,
  origin: string,
  giveBack: readonly string[] = [],
): Record<string, unknown> {
  const { of, fields } = data?.[CHAT] ?? {}
  if (of !== origin || !isObject(fields)) return {}
  return Object.fromEntries(
    Object.entries(fields).filter(([name]) => GIVEN_BACK.includes(name) || giveBack.includes(name)),
  )
}

/** Joins the parts of a field: lists one behind the other, objects field by field; of else the last counts. */
function joined(before: unknown, part: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(part)) {
    for (const entry of part) {
      const last: unknown = before.at(-1)
      if (goesOn(last, entry)) before[before.length - 1] = continued(last, entry)
      else before.push(entry)
    }
    return before
  }
  if (!isObject(before) || !isObject(part)) return part
  // In place: an object may come in 80,000 parts. A field may have any name, also `__proto__`.
  for (const [name, more] of Object.entries(part)) {
    const value = joined(own<unknown>(Object(before), name), more)
    Object.defineProperty(before, name, { value, writable: true, enumerable: true, configurable: true })
  }
  return before
}

type Block = { readonly [field: string]: unknown }

/** Checks whether a block goes on with the one before it. A signature ends a block. */
function goesOn(last: unknown, entry: unknown): last is Block {
  if (!isObject(last) || !isObject(entry)) return false
  const [a, b] = [last as Block, entry as Block]
  return (
    a.type === b.type &&
    a.index === b.index &&
    !a.signature &&
    (TEXTS.some((field) => Object.hasOwn(b, field)) || !!b.signature)
  )
}

const TEXTS = ['text', 'thinking', 'summary']

function continued(last: Block, entry: Block): Block {
  const words = TEXTS.filter((field) => typeof own(last, field) === 'string' && typeof own(entry, field) === 'string')
  return {
    ...last,
    ...entry,
    ...Object.fromEntries(words.map((field) => [field, `${own(last, field)}${own(entry, field)}`])),
  }
}

/*
 * Reasoning in chat completions. The API has no field for it, but servers add one: `reasoning_content` (DeepSeek, vLLM)
 * or `reasoning` (OpenRouter, Ollama). It goes back under the name under which it came.
 */

const FIELDS = ['reasoning_content', 'reasoning'] as const
type Field = (typeof FIELDS)[number]

function reasoningIn(said: Partial<Record<Field, unknown>>): ModelPiece | undefined {
  for (const field of FIELDS) {
    const text = said[field]
    if (typeof text === 'string' && text !== '') return { reasoning: text, providerData: { [CHAT]: { field } } }
  }
  return undefined
}

function reasoningFields(content: Content): Partial<Record<Field, string>> {
  if (typeof content === 'string') return {}
  const parts = content.filter((part): part is ReasoningPart => part.type === 'reasoning')
  const fields: Partial<Record<Field, string>> = {}
  for (const { text, providerData } of parts) {
    const field = FIELDS.find((name) => name === providerData?.[CHAT]?.field)
    if (field) fields[field] = (fields[field] ?? '') + text
  }
  return fields
}

/*
 * Reasons for the end of an answer, by the words that servers have for them. Sources: the API references of OpenAI,
 * Mistral, Cohere, Google, Anthropic, OpenRouter and DeepSeek; vLLM, llama.cpp, Text Generation Inference.
 */

/** 'error': the provider failed, and the same call can succeed later. */
const WORDS: Readonly<Record<FinishReason | 'error', string>> = {
  stop: 'stop eos eos_token end_turn stop_sequence stop_token complete completed end done finished',
  length: 'length max_tokens max_length max_output_tokens model_length token_limit model_context_window_exceeded',
  tool_calls: 'tool_calls tool_call tool_use function_call',
  content_filter:
    'content_filter content_filtered safety refusal recitation blocklist prohibited_content spii language image_safety guardrail_intervened error_toxic',
  error: 'error malformed_function_call insufficient_system_resource',
}

const REASONS = new Map(
  Object.entries(WORDS).flatMap(([reason, words]) =>
    words.split(' ').map((word) => [word, reason as keyof typeof WORDS]),
  ),
)

/** Returns the reason that a server's word means; undefined if no server is known to use it. */
export const finishOf = (word: string): FinishReason | 'error' | undefined => REASONS.get(word.toLowerCase())

/*
 * Reads the answers of a provider in chat completions as pieces of a model client. A whole body and the chunks of a
 * stream are read by the same rules. Answers of servers that nearly speak the API are accepted where their meaning is
 * clear, and refused otherwise.
 */

/** A part of a content that is a list: text, the thoughts of Mistral's models, or what nobody knows. */
const partShape = z.union([
  z.object({ type: z.enum(['text', 'output_text']), text: z.string() }),
  z.object({ type: z.literal('thinking'), thinking: z.array(z.object({ text: z.string() })) }),
  z
    .object({ type: z.string().refine((type) => !['text', 'output_text', 'thinking'].includes(type)) })
    .transform(({ type }) => ({ type: 'other' as const, of: type })),
])
const messageShape = z.looseObject({
  content: z.union([z.string(), z.array(partShape)]).nullish(),
  refusal: z.string().nullish(),
  reasoning_content: z.unknown().optional(),
  reasoning: z.unknown().optional(),
  tool_calls: z.preprocess(atMost(MOST_CALLS), z.array(callShape).nullish()),
})
const choiceShape = z.object({
  delta: messageShape.nullish(),
  message: messageShape.nullish(),
  finish_reason: z.string().nullish(),
  error: z.unknown().optional(),
})
const answerShape = z.object({
  /** The first one only, because no other is read: a server can send a million, and the chunks of several in turn. */
  choices: z.preprocess(
    (choices) =>
      Array.isArray(choices) ? choices.filter((choice) => !(Object(choice).index > 0)).slice(0, 1) : choices,
    z.array(choiceShape).nullish(),
  ),
  usage: z.unknown().optional(),
  x_groq: z.object({ usage: z.unknown() }).optional().catch(undefined),
})

export class ChatAnswer extends OpenAIAnswer {
  readonly #calls = new ChatCalls()
  #choices = 0
  /** True once a message has come, though it may be empty. */
  #spoke = false
  #hasText = false
  #finish: string | undefined
  #usage: TokenUsage | undefined

  /** Types of parts that nobody knows. */
  readonly #otherParts = new Set<string>()
  readonly #fields: ChatFields
  readonly #giveBack: readonly string[] | undefined

  /** `origin`: address and model, to which alone the fields that are listed in `giveBack` go back. */
  constructor(asked: Asked, origin: string, giveBack?: readonly string[]) {
    super(asked, SPEAKS)
    this.#fields = new ChatFields(origin)
    this.#giveBack = giveBack
  }

  take(data: unknown): ModelPiece[] {
    if (isRefusal(data, 'choices')) throw new ProviderRefusal(data)
    const { success, data: answer, error } = answerShape.safeParse(data)
    if (!success) {
      const isTooMany = error.issues[0]?.code === 'custom'
      throw this.wrong(`answered with ${whereWrong(error)}`, isTooMany ? 'too_many_calls' : 'foreign_part')
    }
    this.#usage = usageOf(answer.usage) ?? usageOf(answer.x_groq?.usage) ?? this.#usage
    const choice = answer.choices?.[0]
    if (!choice) return [] // the chunk with the usage has none, nor has Azure's first
    if (choice.error) throw new ProviderRefusal(choice.error)
    this.#choices += 1
    if (choice.finish_reason) this.#finish = choice.finish_reason
    const said = choice.delta ?? choice.message
    if (!said) return []
    this.#spoke = true
    this.#fields.take(this, 'message', said)
    const inputs = (said.tool_calls ?? []).flatMap((call) => this.#takeCall(call, !choice.delta))
    if (said.refusal) this.isRefused = true
    const { text, reasoning, others } = wordsOf(said)
    for (const type of others) this.#otherParts.add(type)
    this.#hasText ||= text !== ''
    return [...(reasoning ? [reasoning] : []), ...(text === '' ? [] : [{ text }]), ...inputs]
  }

  get hasEnded(): boolean {
    return this.#finish !== undefined
  }

  *end(): Generator<ModelPiece> {
    const nothing = { reason: 'invalid_answer', code: 'no_parts' } as const
    if (this.#choices === 0) throw this.again('answered without any choice', nothing)
    if (!this.#spoke) throw this.again('answered without a message', nothing)
    if (this.#otherParts.size > 0 && !this.#hasText && this.#calls.all.length === 0)
      throw this.wrong('answered with nothing but parts of types that are not known', 'foreign_part')
    const { finishReason, warning } = this.#end()
    for (const toolCall of this.#calls.all) {
      if (toolCall.name === '') throw this.wrong('called a tool without its name', 'half_part')
      this.checkInput(toolCall.input)
      yield { toolCall: { ...toolCall, ...this.#fields.of(toolCall) } }
    }
    const { providerData } = this.#fields.of(this)
    if (providerData) yield { reasoning: '', block: 'fields', providerData }
    for (const name of this.#fields.others(this.#giveBack))
      yield {
        warning: `the answer has the field "${name}", which stays here: models.<name>.giveBack lists what goes back.`,
      }
    for (const type of this.#otherParts)
      yield {
        warning: `the answer has ${told('a part of the type', type) ?? 'a part'} that is not known; it is left out.`,
      }
    if (this.#usage) yield { usage: this.#usage }
    yield { finishReason, ...(warning !== undefined && { warning }) }
  }

  #takeCall(part: z.infer<typeof callShape>, isWhole: boolean): ModelPiece[] {
    const input = part.function?.arguments ?? ''
    this.count(input)
    const { call, input: text } = isWhole ? { call: this.#calls.add(part), input } : this.#calls.addPart(part)
    this.#fields.take(call, 'call', part)
    this.checkCalls(this.#calls.all.length)
    return isWhole ? [] : [{ toolInput: { id: call.id, name: call.name, text } }]
  }

  /** Returns why the answer ended. Servers have many words for it, and some give none. */
  #end(): { finishReason: FinishReason; warning?: string } {
    if (this.isRefused) return { finishReason: 'content_filter' }
    const usual = this.#calls.all.length > 0 ? 'tool_calls' : 'stop'
    const hasSaid = this.#hasText || this.#calls.all.length > 0
    if (this.#finish === undefined) {
      if (!hasSaid) throw this.again('broke off: its answer has no end', { reason: 'unreachable', code: 'broken_off' })
      return { finishReason: usual, warning: 'the answer has no finish reason; it is taken as whole.' }
    }
    const finishReason = finishOf(this.#finish)
    if (finishReason === 'error')
      throw this.again('ended its answer with an error', { reason: 'server', code: 'broken_off' })
    if (finishReason) return { finishReason: finishReason === 'stop' ? usual : finishReason }
    const shown = told('the reason', this.#finish) ?? 'a reason'
    if (!hasSaid) throw this.wrong(`stopped for ${shown} that chat completions do not have`, 'unknown_end')
    return { finishReason: usual, warning: `the answer ended for ${shown} that is not known; it is taken as whole.` }
  }
}

const usageOf = (given: unknown) => usageIn(given, 'prompt_tokens', 'completion_tokens')

function wordsOf(said: z.infer<typeof messageShape>): { text: string; reasoning?: ModelPiece; others: string[] } {
  const { content, refusal } = said
  const reasoning = reasoningIn(said)
  if (!Array.isArray(content)) return { text: content || refusal || '', ...(reasoning && { reasoning }), others: [] }
  const thoughts = content.flatMap((part) => (part.type === 'thinking' ? part.thinking : [])).map(({ text }) => text)
  return {
    text: content.map((part) => ('text' in part ? part.text : '')).join('') || refusal || '',
    others: content.flatMap((part) => (part.type === 'other' ? [part.of] : [])),
    ...(reasoning ? { reasoning } : thoughts.length > 0 && { reasoning: { reasoning: thoughts.join('') } }),
  }
}

/** Describes the first fault of an answer by names of fields and types only, never by the values in them. */
function whereWrong({ issues }: z.ZodError): string {
  const [issue] = issues
  const path = issue?.path.join('.') || 'the body'
  const inner = issue?.code === 'invalid_union' ? issue.errors[0]?.[0] : issue
  const expected = inner && 'expected' in inner ? `, where ${String(inner.expected)} is due` : ''
  return `something else than chat completions at ${path}${expected}`
}

/** Returns the body of a request. `origin`: address and model, to which fields of its own answers go back. */
function chatRequest(request: ModelRequest, origin: string, baseURL: URL): ChatCompletionCreateParamsBase {
  const { model, messages, temperature, topP, stop, seed, reasoningEffort, parallelToolCalls, strict } = request
  const { maxOutputTokens, extraBody } = request
  const { tools, jsonSchema, mustCall } = offeredIn(request)
  return {
    model,
    messages: chatMessages(messages, (data) => fieldsGivenBack(data, origin, request.giveBack)),
    ...(tools.length > 0 && {
      tools: tools.map((tool) => chatTool(tool, strict)),
      ...toolChoice(request, mustCall, (name) => ({ type: 'function' as const, function: { name } })),
    }),
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
    // a provider can have more words for it than the SDK knows
    ...(reasoningEffort !== undefined && { reasoning_effort: reasoningEffort as Effort }),
    ...(maxOutputTokens !== undefined && { [tokensFieldOf(baseURL)]: maxOutputTokens }),
    ...extraBody,
  }
}

/**
 * Returns the provider's name for the bound of an answer. Reasoning models of OpenAI refuse the old name. Other servers
 * do not know the new name, and would ignore the bound.
 */
function tokensFieldOf({ hostname }: URL): 'max_tokens' | 'max_completion_tokens' {
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
  if ('url' in media)
    throw new ModelError(
      `A part of type ${part.type} has a URL, which chat completions take for images alone. Give its bytes.`,
      { reason: 'rejected', code: 'part_not_taken', retryable: false },
    )
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

/**
 * Says how the model may use its tools. The function for an answer is not required by its name: LM Studio refuses that,
 * llama.cpp ignores it. So the model may call tools of the role first.
 */
export function toolChoice<Named>(
  { toolChoice: choice }: ModelRequest,
  mustCall: boolean,
  named: (name: string) => Named,
): { tool_choice?: 'auto' | 'none' | 'required' | Named } {
  if (mustCall) return { tool_choice: 'required' }
  if (choice === undefined) return {}
  return { tool_choice: typeof choice === 'string' ? choice : named(choice.tool) }
}

function chatTool({ name, description, inputSchema }: ToolSpec, strict: boolean | undefined) {
  const parameters = schemaOf(inputSchema, strict)
  return {
    type: 'function' as const,
    function: { name, description, parameters, ...(strict !== undefined && { strict }) },
  }
}

export function schemaOf(schema: object, strict: boolean | undefined): Record<string, unknown> {
  // Schema libraries add `$schema`, and Gemini refuses fields that it does not know.
  const { $schema: _dialect, ...rest }: Record<string, unknown> = Object(strict ? closed(schema) : schema)
  return rest
}

/** Returns a schema whose objects have no properties but the named ones: strict schemas have to say so. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const parts = Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, closed(part)]))
  return parts.type === 'object' && parts.properties ? { additionalProperties: false, ...parts } : parts
}

type Effort = ChatCompletionCreateParamsBase['reasoning_effort']

const SPEAKS = 'chat completions'

export const chatCompletions: OpenAIApi<ChatCompletionCreateParamsBase> = {
  speaks: SPEAKS,
  body: (request, { baseURL }) => chatRequest(request, `${baseURL} ${request.model}`, new URL(baseURL)),
  answer: (asked, { model, giveBack }, { baseURL }) => new ChatAnswer(asked, `${baseURL} ${model}`, giveBack),
  async create({ chat: { completions } }, body, isStream, settings) {
    const streamed = { ...body, stream: true, stream_options: { include_usage: true } } as const
    if (isStream) return completions.create(streamed, settings).withResponse()
    return { response: await completions.create({ ...body, stream: false }, settings).asResponse(), data: undefined }
  },
}
