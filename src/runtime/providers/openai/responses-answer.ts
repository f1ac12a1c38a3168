/**
 * Reads the answers of the Responses API as pieces of a model client: a whole response, or the events of a stream. The
 * texts of a stream come with its deltas; the rest is taken from the items, once they are done. Source: OpenAI's API
 * reference, "The response object" and "Streaming events".
 */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { ProviderData } from '../../../actors/definition/content.ts'
import type { FinishReason, ModelPiece, TokenUsage, ToolCall } from '../../../actors/definition/model.ts'
import { valuesIn } from '../../../json-values.ts'
import type { ModelFailureCode } from '../../../model-failure.ts'
import { endless, MOST_CALLS, MOST_CHARACTERS } from '../collect.ts'
import { type Asked, modelError } from '../model-errors.ts'
import { isRefusal } from '../refusal-body.ts'
import { ProviderRefusal } from '../refusals.ts'
import { usageFrom } from '../usage.ts'
import { finishOf } from './finish.ts'
import { callData, phaseData, reasoningData } from './responses-data.ts'

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
  output: z.preprocess(notTooMany, z.array(itemShape)).nullish(),
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
const MOST_ITEMS = 2 * MOST_CALLS
/** Maximum number of JSON values in the arguments of one call, because the host parses them at once. */
const MOST_VALUES = 65_536

/** Bounds the number of items before each is checked: a server can send a million. */
function notTooMany(items: unknown, context: z.RefinementCtx): unknown {
  if (Array.isArray(items) && items.length > MOST_ITEMS)
    context.addIssue({ code: 'custom', message: `more than ${MOST_ITEMS} items` })
  return Array.isArray(items) ? items.slice(0, MOST_ITEMS) : items
}

/** An answer that is being received. */
export class ResponsesAnswer {
  readonly #asked: Asked
  /** Calls, with the number of parts that came before each. */
  readonly #calls: { call: ToolCall; after: number }[] = []
  /** Places of the blocks of text and reasoning in the answer. */
  readonly #blocks = new Map<string, number>()
  /** Calls of a stream that have begun, by the index of their item. */
  readonly #begun = new Map<number, { id: string; name: string }>()
  #lastReasoning = -1
  #size = 0
  #refused = false
  #end: z.infer<typeof responseShape> | undefined

  constructor(asked: Asked) {
    this.#asked = asked
  }

  /**
   * Yields the pieces of a response, or of an event of a stream. Throws `ModelError` if it is neither, and
   * `ProviderRefusal` if it is an error instead.
   */
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
    if (!this.#end.output) throw this.#wrong('answered without output', 'no_parts')
    for (const [at, item] of this.#end.output.entries()) {
      yield* this.#texts(item, at)
      yield* this.#done(item, at)
    }
  }

  /** Yields the last pieces of the answer. Throws `ModelError` if there was no answer, or no end of it. */
  *end(): Generator<ModelPiece> {
    const end = this.#end
    if (!end)
      throw modelError(this.#asked, 'broke off: its answer has no end', ASK_AGAIN, {
        reason: 'unreachable',
        code: 'broken_off',
        retryable: true,
      })
    const finishReason = this.#finishReason(end)
    for (const { call, after } of this.#calls) {
      if (valuesInInput(call.input) > MOST_VALUES)
        throw this.#wrong(`called a tool with more than ${MOST_VALUES} JSON values`, 'too_many_values')
      // The place matters only where reasoning comes after the call.
      yield { toolCall: { ...call, ...(after <= this.#lastReasoning && { providerData: callData(after) }) } }
    }
    const usage = usageOf(end.usage)
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
    if (typeof delta !== 'string') throw this.#wrong(`sent ${type} without its words`, 'half_part')
    if (type === 'response.function_call_arguments.delta') {
      const call = this.#begun.get(at)
      this.#count(delta)
      if (call && call.id !== '' && call.name !== '') yield { toolInput: { ...call, text: delta } }
      return
    }
    if (type === 'response.refusal.delta') this.#refused = true
    const kind = type.startsWith('response.reasoning') ? 'reasoning' : 'text'
    yield* this.#said(kind, delta, at)
  }

  /** Yields the texts of an item of a whole response. */
  *#texts({ type, content, summary }: Item, at: number): Generator<ModelPiece> {
    if (type === 'message')
      for (const { text, refusal } of content ?? []) {
        if (refusal) this.#refused = true
        yield* this.#said('text', text ?? refusal ?? '', at)
      }
    if (type === 'reasoning') {
      const texts = [...(summary ?? []), ...(content ?? [])].map(({ text }) => text ?? '')
      yield* this.#said('reasoning', texts.join('\n\n'), at)
    }
  }

  /** Yields what is known of an item once it is done. */
  *#done(item: Item, at: number): Generator<ModelPiece> {
    if (item.type === 'reasoning') {
      if (item.id) yield* this.#said('reasoning', '', at, reasoningData(item.id, item.encrypted_content ?? undefined))
    } else if (item.type === 'message') {
      if (item.phase) yield* this.#said('text', '', at, phaseData(item.phase))
    } else if (item.type === 'function_call') this.#takeCall(item)
    else yield { warning: leftOut(item.type) }
  }

  *#said(kind: 'text' | 'reasoning', text: string, at: number, providerData?: ProviderData): Generator<ModelPiece> {
    if (text === '' && !providerData) return
    const block = `${at}`
    this.#count(text)
    const place = this.#blocks.get(block) ?? this.#blocks.size
    this.#blocks.set(block, place)
    if (kind === 'reasoning') this.#lastReasoning = Math.max(this.#lastReasoning, place)
    yield { [kind]: text, block, ...(providerData && { providerData }) }
  }

  #takeCall({ call_id: id, name, arguments: input }: Item): void {
    if (!name) throw this.#wrong('called a tool without its name', 'half_part')
    if (this.#calls.length === MOST_CALLS)
      throw this.#wrong(`called more than ${MOST_CALLS} tools at once`, 'too_many_calls')
    const call = { id: id || `call_${randomUUID()}`, name, input: input ?? '' }
    this.#calls.push({ call, after: this.#blocks.size })
  }

  #count(text: string): void {
    this.#size += text.length
    if (this.#size > MOST_CHARACTERS) throw endless()
  }

  #finishReason({ status, incomplete_details: details }: z.infer<typeof responseShape>): FinishReason {
    if (this.#refused) return 'content_filter'
    const word = (status === 'incomplete' ? details?.reason : status) ?? 'completed'
    const reason = finishOf(word)
    if (reason === 'stop') return this.#calls.length > 0 ? 'tool_calls' : 'stop'
    if (reason === 'error') throw this.#wrong(`ended its answer with an error`, 'broken_off')
    if (reason) return reason
    const shown = /^[\w-]{1,40}$/.test(word) ? `the status "${word}"` : 'a status'
    throw this.#wrong(`ended with ${shown} that is no end of an answer`, 'unknown_end')
  }

  #parsed<T>(shape: z.ZodType<T>, data: unknown, where: string): T {
    const { success, data: parsed, error } = shape.safeParse(data)
    if (success) return parsed
    const [issue] = error.issues
    const path = issue?.path.join('.') ?? ''
    throw this.#wrong(
      `answered with something else than the Responses API in ${where}${path && ` at ${path}`}`,
      'foreign_part',
    )
  }

  #wrong(what: string, code: ModelFailureCode) {
    return modelError(this.#asked, what, 'Check that its baseURL speaks the Responses API.', {
      reason: 'invalid_answer',
      code,
      retryable: false,
    })
  }
}

const ASK_AGAIN = 'Ask again; if it stays so, look at the provider.'

const valuesInInput = (input: string) => (input.length > MOST_VALUES ? valuesIn(Buffer.from(input)) : 0)

function leftOut(type: string): string {
  const shown = /^[\w-]{1,40}$/.test(type) ? `of type "${type}"` : 'of no known type'
  return `the answer has an item ${shown}, which is left out: answers have text, reasoning and calls of the role's tools.`
}

/** Returns the usage of an answer, or undefined if the answer has no valid counts. */
function usageOf(given: unknown): TokenUsage | undefined {
  const usage = Object(given)
  return usageFrom({
    input: usage.input_tokens,
    output: usage.output_tokens,
    total: usage.total_tokens,
    cached: Object(usage.input_tokens_details).cached_tokens,
    reasoning: Object(usage.output_tokens_details).reasoning_tokens,
  })
}
