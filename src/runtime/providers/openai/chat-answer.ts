/**
 * Reads the answers of a provider in chat completions as pieces of a model client. A whole body and the chunks of a
 * stream are read by the same rules. Answers of servers that nearly speak the API are accepted where their meaning is
 * clear, and refused otherwise.
 */
import { z } from 'zod'
import type { FinishReason, ModelPiece, TokenUsage } from '../../../actors/definition/model.ts'
import { valuesIn } from '../../../json-values.ts'
import type { ModelFailureCode, ModelFailureReason } from '../../../model-failure.ts'
import { endless, MOST_CALLS, MOST_CHARACTERS } from '../collect.ts'
import { type Asked, modelError } from '../model-errors.ts'
import { isRefusal } from '../refusal-body.ts'
import { ProviderRefusal } from '../refusals.ts'
import { usageFrom } from '../usage.ts'
import { ChatCalls, callShape, notTooMany } from './chat-calls.ts'
import { ChatFields } from './chat-fields.ts'
import { type ChatReasoning, reasoningIn } from './chat-reasoning.ts'
import { finishOf } from './finish.ts'

/** Maximum number of JSON values in the arguments of one call, because the host parses them at once. */
const MOST_VALUES = 65_536
const hasTooManyValues = (input: string) => input.length > MOST_VALUES && valuesIn(Buffer.from(input)) > MOST_VALUES
/** A part of a content that is a list: text, or the thoughts of Mistral's models. */
const partShape = z.union([
  z.object({ type: z.enum(['text', 'output_text']), text: z.string() }),
  z.object({ type: z.literal('thinking'), thinking: z.array(z.object({ text: z.string() })) }),
])
const messageShape = z.looseObject({
  content: z.union([z.string(), z.array(partShape)]).nullish(),
  refusal: z.string().nullish(),
  reasoning_content: z.unknown().optional(),
  reasoning: z.unknown().optional(),
  tool_calls: z.preprocess(notTooMany, z.array(callShape).nullish()),
})
const choiceShape = z.object({
  delta: messageShape.nullish(),
  message: messageShape.nullish(),
  finish_reason: z.string().nullish(),
  error: z.unknown().optional(),
})
const answerShape = z.object({
  choices: z.preprocess(firstAlone, z.array(choiceShape).nullish()),
  usage: z.unknown().optional(),
  /** Groq's usage of a streamed answer. */
  x_groq: z.object({ usage: z.unknown() }).optional().catch(undefined),
})
/** Keeps the first choice only, because no other is read: a server can send a million. */
function firstAlone(choices: unknown): unknown {
  return Array.isArray(choices) ? choices.slice(0, 1) : choices
}
/** An answer that is being received. */
export class ChatAnswer {
  readonly #asked: Asked
  readonly #calls = new ChatCalls()
  #choices = 0
  /** True once a message has come, though it may be empty. */
  #spoke = false
  /** Number of characters of the calls so far. */
  #size = 0
  #refused = false
  #hasText = false
  #finish: string | undefined
  #usage: TokenUsage | undefined

  readonly #fields: ChatFields
  readonly #giveBack: readonly string[] | undefined

  /** `origin`: address and model, to which alone the fields that are listed in `giveBack` go back. */
  constructor(asked: Asked, origin: string, giveBack?: readonly string[]) {
    this.#asked = asked
    this.#fields = new ChatFields(origin)
    this.#giveBack = giveBack
  }

  /**
   * Returns the text and the reasoning of a chunk or body, and the parts of tool inputs of a chunk. Throws `ModelError`
   * if it is no chunk, and `ProviderRefusal` if it is an error instead.
   */
  take(data: unknown): ModelPiece[] {
    if (isRefusal(data, 'choices')) throw new ProviderRefusal(data)
    const { success, data: answer, error } = answerShape.safeParse(data)
    if (!success) throw this.#wrong(`answered with ${whereWrong(error)}`, faultIn(error))
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
    if (said.refusal) this.#refused = true
    const { text, reasoning } = wordsOf(said)
    this.#hasText ||= text !== ''
    return [...(reasoning ? [reasoning] : []), ...(text === '' ? [] : [{ text }]), ...inputs]
  }

  /** Yields the last pieces of the answer. Throws `ModelError` if there was no answer. */
  *end(): Generator<ModelPiece> {
    if (this.#choices === 0) throw this.#again('answered without any choice', 'invalid_answer', 'no_parts')
    if (!this.#spoke) throw this.#again('answered without a message', 'invalid_answer', 'no_parts')
    const { finishReason, warning } = this.#end()
    for (const toolCall of this.#calls.all) {
      if (toolCall.name === '') throw this.#wrong('called a tool without its name', 'half_part')
      if (hasTooManyValues(toolCall.input))
        throw this.#wrong(`called a tool with more than ${MOST_VALUES} JSON values`, 'too_many_values')
      yield { toolCall: { ...toolCall, ...this.#fields.of(toolCall) } }
    }
    const { providerData } = this.#fields.of(this)
    if (providerData) yield { reasoning: '', block: 'fields', providerData }
    for (const name of this.#fields.others(this.#giveBack))
      yield {
        warning: `the answer has the field "${name}", which stays here: models.<name>.giveBack lists what goes back.`,
      }
    if (this.#usage) yield { usage: this.#usage }
    yield { finishReason, ...(warning !== undefined && { warning }) }
  }

  #takeCall(part: z.infer<typeof callShape>, isWhole: boolean): ModelPiece[] {
    const input = part.function?.arguments ?? ''
    this.#size += input.length
    if (this.#size > MOST_CHARACTERS) throw endless()
    const call = isWhole ? this.#calls.add(part) : this.#calls.addPart(part)
    this.#fields.take(call, 'call', part)
    if (this.#calls.all.length > MOST_CALLS)
      throw this.#wrong(`called more than ${MOST_CALLS} tools at once`, 'too_many_calls')
    return isWhole ? [] : [{ toolInput: { id: call.id, name: call.name, text: input } }]
  }

  /** Returns why the answer ended. Servers have many words for it, and some give none. */
  #end(): { finishReason: FinishReason; warning?: string } {
    if (this.#refused) return { finishReason: 'content_filter' }
    const usual = this.#calls.all.length > 0 ? 'tool_calls' : 'stop'
    const hasSaid = this.#hasText || this.#calls.all.length > 0
    if (this.#finish === undefined) {
      if (!hasSaid) throw this.#again('broke off: its answer has no end', 'unreachable', 'broken_off')
      return { finishReason: usual, warning: 'the answer has no finish reason; it is taken as whole.' }
    }
    const finishReason = finishOf(this.#finish)
    if (finishReason === 'error') throw this.#again('ended its answer with an error', 'server', 'broken_off')
    if (finishReason) return { finishReason: finishReason === 'stop' ? usual : finishReason }
    const shown = /^[\w-]{1,40}$/.test(this.#finish) ? `the reason "${this.#finish}"` : 'a reason'
    if (!hasSaid) throw this.#wrong(`stopped for ${shown} that chat completions do not have`, 'unknown_end')
    return { finishReason: usual, warning: `the answer ended for ${shown} that is not known; it is taken as whole.` }
  }

  #again(what: string, reason: ModelFailureReason, code: ModelFailureCode) {
    return modelError(this.#asked, what, 'Ask again; if it stays so, look at the provider.', {
      reason,
      code,
      retryable: true,
    })
  }

  #wrong(what: string, code: ModelFailureCode) {
    return modelError(this.#asked, what, 'Check that its baseURL speaks chat completions.', {
      reason: 'invalid_answer',
      code,
      retryable: false,
    })
  }
}

/** Returns the text and the reasoning of a message or a chunk. */
function wordsOf(said: z.infer<typeof messageShape>): { text: string; reasoning?: ChatReasoning } {
  const { content, refusal } = said
  const reasoning = reasoningIn(said)
  if (!Array.isArray(content)) return { text: content || refusal || '', ...(reasoning && { reasoning }) }
  const thoughts = content.flatMap((part) => (part.type === 'thinking' ? part.thinking : [])).map(({ text }) => text)
  return {
    text: content.map((part) => (part.type === 'thinking' ? '' : part.text)).join('') || refusal || '',
    ...(reasoning ? { reasoning } : thoughts.length > 0 && { reasoning: { reasoning: thoughts.join('') } }),
  }
}

/** Returns the kind of the first fault: a server can send a million calls of tools in one answer. */
const faultIn = ({ issues }: z.ZodError): ModelFailureCode =>
  issues[0]?.code === 'custom' ? 'too_many_calls' : 'foreign_part'

/** Describes the first fault of an answer by names of fields and types only, never by the values in them. */
function whereWrong({ issues }: z.ZodError): string {
  const [issue] = issues
  const path = issue?.path.join('.') || 'the body'
  const inner = issue?.code === 'invalid_union' ? issue.errors[0]?.[0] : issue
  const expected = inner && 'expected' in inner ? `, where ${String(inner.expected)} is due` : ''
  return `something else than chat completions at ${path}${expected}`
}

/** Returns the usage of an answer, or undefined if the answer has no valid counts. */
function usageOf(given: unknown): TokenUsage | undefined {
  const usage = Object(given)
  return usageFrom({
    input: usage.prompt_tokens,
    output: usage.completion_tokens,
    total: usage.total_tokens,
    cached: Object(usage.prompt_tokens_details).cached_tokens,
    reasoning: Object(usage.completion_tokens_details).reasoning_tokens,
  })
}
