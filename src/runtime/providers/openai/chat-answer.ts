/**
 * Reads the answers of a provider in chat completions as pieces of a model client. A whole body and the chunks of a
 * stream are read by the same rules. Answers of servers that nearly speak the API are accepted where their meaning is
 * clear, and refused otherwise.
 */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { FinishReason, ModelPiece, TokenUsage, ToolCall } from '../../../actors/definition/model.ts'
import { valuesIn } from '../../../json-values.ts'
import type { ModelFailureCode } from '../../../model-failure.ts'
import { endless, MOST_CALLS, MOST_CHARACTERS } from '../collect.ts'
import { type Asked, modelError } from '../model-errors.ts'
import { ProviderRefusal } from '../refusals.ts'
import { usageFrom } from '../usage.ts'
import { reasoningIn } from './chat-reasoning.ts'

const callShape = z.object({
  index: z.number().nullish(),
  id: z.string().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
})
/** Bounds the number of calls before each call is checked: a server can send a million. */
function notTooMany(calls: unknown, context: z.RefinementCtx): unknown {
  if (Array.isArray(calls) && calls.length > MOST_CALLS)
    context.addIssue({ code: 'custom', message: `more than ${MOST_CALLS} calls of tools` })
  return Array.isArray(calls) ? calls.slice(0, MOST_CALLS) : calls
}
/** Maximum number of JSON values in the arguments of one call, because the host parses them at once. */
const MOST_VALUES = 65_536
const hasTooManyValues = (input: string) => input.length > MOST_VALUES && valuesIn(Buffer.from(input)) > MOST_VALUES
const messageShape = z.object({
  content: z.string().nullish(),
  refusal: z.string().nullish(),
  reasoning_content: z.unknown().optional(),
  reasoning: z.unknown().optional(),
  tool_calls: z.preprocess(notTooMany, z.array(callShape).nullish()),
})
const choiceShape = z.object({
  delta: messageShape.nullish(),
  message: messageShape.nullish(),
  finish_reason: z.string().nullish(),
})
const answerShape = z.object({
  choices: z.preprocess(firstAlone, z.array(choiceShape).nullish()),
  usage: z.unknown().optional(),
})
/** Keeps the first choice only, because no other is read: a server can send a million. */
function firstAlone(choices: unknown): unknown {
  return Array.isArray(choices) ? choices.slice(0, 1) : choices
}
const count = z.int().min(0)
const usageShape = z.object({
  prompt_tokens: count,
  completion_tokens: count,
  prompt_tokens_details: z.object({ cached_tokens: count.nullish() }).nullish(),
  completion_tokens_details: z.object({ reasoning_tokens: count.nullish() }).nullish(),
})

/** An answer that is being received. */
export class ChatAnswer {
  readonly #asked: Asked
  readonly #calls: ToolCall[] = []
  /** Calls by the index that the provider gives them. */
  readonly #open = new Map<number, ToolCall>()
  /** Ids that the provider has given. Calls without one have an id of ours. */
  readonly #given = new Map<ToolCall, string>()
  #choices = 0
  /** Number of characters of the calls so far. */
  #size = 0
  #refused = false
  #finish: string | undefined
  #usage: TokenUsage | undefined

  constructor(asked: Asked) {
    this.#asked = asked
  }

  /**
   * Returns the text and the reasoning of a chunk or body, and the parts of tool inputs of a chunk. Throws `ModelError`
   * if it is no chunk, and `ProviderRefusal` if it is an error instead.
   */
  take(data: unknown): ModelPiece[] {
    if (typeof data === 'object' && data !== null && 'error' in data && data.error)
      throw new ProviderRefusal(data.error)
    const { success, data: answer, error } = answerShape.safeParse(data)
    if (!success) throw this.#wrong(`answered with ${whereWrong(error)}`, faultIn(error))
    this.#usage = usageOf(answer.usage) ?? this.#usage
    const choice = answer.choices?.[0]
    if (!choice) return [] // the chunk with the usage has none, nor has Azure's first
    this.#choices += 1
    if (choice.finish_reason) this.#finish = choice.finish_reason.toLowerCase()
    const said = choice.delta ?? choice.message
    const inputs = (said?.tool_calls ?? []).map((call) => this.#takeCall(call))
    if (said?.refusal) this.#refused = true
    const reasoning = said && reasoningIn(said)
    const text = said?.content || said?.refusal || ''
    return [
      ...(reasoning ? [{ reasoning: reasoning.text, providerData: reasoning.providerData }] : []),
      ...(text === '' ? [] : [{ text }]),
      ...(choice.delta ? inputs : []),
    ]
  }

  /** Yields the last pieces of the answer. Throws `ModelError` if there was no answer. */
  *end(): Generator<ModelPiece> {
    if (this.#choices === 0)
      throw modelError(this.#asked, 'answered without any choice', 'Ask again; if it stays so, look at the provider.', {
        reason: 'invalid_answer',
        code: 'no_parts',
        retryable: true,
      })
    if (this.#finish === undefined)
      throw modelError(
        this.#asked,
        'broke off: its answer has no end',
        'Ask again; if it stays so, look at the provider.',
        { reason: 'unreachable', code: 'broken_off', retryable: true },
      )
    const finishReason = this.#finishReason(this.#finish)
    for (const toolCall of this.#calls) {
      if (toolCall.name === '') throw this.#wrong('called a tool without its name', 'half_part')
      if (hasTooManyValues(toolCall.input))
        throw this.#wrong(`called a tool with more than ${MOST_VALUES} JSON values`, 'too_many_values')
      yield { toolCall }
    }
    if (this.#usage) yield { usage: this.#usage }
    yield { finishReason }
  }

  #takeCall({ index, id, function: called }: z.infer<typeof callShape>): ModelPiece {
    const slot = index ?? (id ? this.#open.size : this.#open.size - 1)
    let call = this.#open.get(slot)
    const known = call && this.#given.get(call)
    // Gemini gives all calls the index 0: another id begins another call
    if (!call || (id && known !== undefined && known !== id)) {
      if (this.#calls.length === MOST_CALLS)
        throw this.#wrong(`called more than ${MOST_CALLS} tools at once`, 'too_many_calls')
      call = { id: id || `call_${randomUUID()}`, name: '', input: '' }
      this.#open.set(slot, call)
      this.#calls.push(call)
    }
    if (id) this.#given.set(call, id)
    if (call.name === '') call.name = called?.name ?? ''
    const input = called?.arguments ?? ''
    call.input += input
    this.#size += input.length
    if (this.#size > MOST_CHARACTERS) throw endless()
    return { toolInput: { id: call.id, name: call.name, text: input } }
  }

  #finishReason(reason: string): FinishReason {
    if (this.#refused) return 'content_filter'
    if (reason === 'function_call' || (reason === 'stop' && this.#calls.length > 0)) return 'tool_calls'
    if (reason === 'stop' || reason === 'length' || reason === 'tool_calls' || reason === 'content_filter')
      return reason
    const shown = /^[\w-]{1,40}$/.test(reason) ? `the reason "${reason}"` : 'a reason'
    throw this.#wrong(`stopped for ${shown} that chat completions do not have`, 'unknown_end')
  }

  #wrong(what: string, code: ModelFailureCode) {
    return modelError(this.#asked, what, 'Check that its baseURL speaks chat completions.', {
      reason: 'invalid_answer',
      code,
      retryable: false,
    })
  }
}

/** Returns the kind of the first fault: a server can send a million calls of tools in one answer. */
const faultIn = ({ issues }: z.ZodError): ModelFailureCode =>
  issues[0]?.code === 'custom' ? 'too_many_calls' : 'foreign_part'

/** Describes the first fault of an answer by names of fields and types only, never by the values in them. */
function whereWrong({ issues }: z.ZodError): string {
  const [issue] = issues
  const path = issue?.path.join('.') || 'the body'
  const expected = issue && 'expected' in issue ? `, where ${String(issue.expected)} is due` : ''
  return `something else than chat completions at ${path}${expected}`
}

/** Returns the usage of an answer, or undefined if the answer has no valid counts. */
function usageOf(given: unknown): TokenUsage | undefined {
  const { success, data } = usageShape.safeParse(given)
  if (!success) return undefined
  const { prompt_tokens: input, completion_tokens: output } = data
  const { cached_tokens: cached } = data.prompt_tokens_details ?? {}
  const { reasoning_tokens: reasoning } = data.completion_tokens_details ?? {}
  return usageFrom({ input, output, cached, reasoning })
}
