/** Encodes a request as the options of a call of an AI SDK model, and names what the model cannot be told. */

import type { ModelRequest } from '../actors/definition/model.ts'
import { offeredIn } from '../actors/model/answer-function.ts'
import { own } from '../shared/values.ts'
import {
  type AiSdkModel,
  type CallOptions,
  type PromptMessage,
  type ProviderOptions,
  promptOf,
  type SdkToolChoice,
  type TakesUrl,
} from './prompt.ts'

/*
 * Options that the provider specification leaves to each provider, under the names that providers have for them. A
 * provider that is not named here has none: its users write `providerOptions`.
 */

/** Options of a call that a family of providers has under names of its own. */
export interface Family {
  /** Media in results of tools are passed on by the provider's package; others write them into the text, as JSON. */
  readonly resultMedia?: boolean
  /** Marks a message up to which the provider caches the prompt. Undefined: it caches by itself, or never. */
  readonly cacheMark?: ProviderOptions
  /** Effort of reasoning; undefined for a word that the provider does not have. */
  effort?(effort: string): ProviderOptions | undefined
  parallelToolCalls?(parallel: boolean): ProviderOptions
  /** Has the provider keep to the schema of the answer. */
  strictAnswer?(strict: boolean): ProviderOptions
  body?(fields: Record<string, unknown>): ProviderOptions
}

/** Source: Anthropic's API reference, `output_config`, `thinking`, `cache_control`, `tool_choice`. */
const anthropic: Family = {
  resultMedia: true,
  cacheMark: { anthropic: { cacheControl: { type: 'ephemeral' } } },
  effort(effort) {
    if (effort === 'none') return { anthropic: { thinking: { type: 'disabled' } } }
    return ['low', 'medium', 'high', 'xhigh', 'max'].includes(effort) ? { anthropic: { effort } } : undefined
  },
  parallelToolCalls: (parallel) => ({ anthropic: { disableParallelToolUse: !parallel } }),
}

/** Tokens of reasoning for each effort. Source: the Gemini API's page on OpenAI compatibility. */
const BUDGETS: Readonly<Record<string, number>> = { none: 0, minimal: 1_024, low: 1_024, medium: 8_192, high: 24_576 }

/** Source: the Gemini API's reference, `thinkingConfig`. Models before Gemini 3 know a budget in place of levels. */
const google = (modelId: string): Family => ({
  resultMedia: true,
  effort(effort) {
    const thinkingBudget = own(BUDGETS, effort)
    if (thinkingBudget === undefined) return undefined
    const takesBudget = effort === 'none' || /gemini-2\b/.test(modelId)
    return { google: { thinkingConfig: takesBudget ? { thinkingBudget } : { thinkingLevel: effort } } }
  },
})

/** Source: Amazon Bedrock's user guide, prompt caching: `cachePoint`. */
const bedrock: Family = { resultMedia: true, cacheMark: { bedrock: { cachePoint: { type: 'default' } } } }

/** Providers of OpenAI's APIs, whose packages call the options as OpenAI's does. */
const openai = (name: string, api: string | undefined): Family => ({
  resultMedia: api === 'responses',
  effort: (effort) => ({ [name]: { reasoningEffort: effort } }),
  parallelToolCalls: (parallel) => ({ [name]: { parallelToolCalls: parallel } }),
  strictAnswer: (strict) => ({ [name]: { strictJsonSchema: strict } }),
})

/** `@ai-sdk/openai-compatible` and packages that are made with it: what they do not know goes into the body. */
const compatible = (name: string): Family => ({
  effort: (effort) => ({ [name]: { reasoningEffort: effort } }),
  parallelToolCalls: (parallel) => ({ [name]: { parallel_tool_calls: parallel } }),
  strictAnswer: (strict) => ({ [name]: { strictJsonSchema: strict } }),
  body: (fields) => ({ [name]: fields }),
})

/** Returns the family of a model by the name of its provider, such as 'anthropic.messages'. */
function familyOf(model: AiSdkModel): Family {
  const { provider } = model
  if (/bedrock/.test(provider) && !/anthropic/.test(provider)) return bedrock
  if (/anthropic/.test(provider)) return anthropic
  if (/^google\b/.test(provider)) return google(model.modelId)
  const [name = '', api] = provider.split('.').map((part) => part.trim())
  if (['openai', 'azure', 'groq', 'xai'].includes(name)) return openai(name, api)
  // Only these models say so, under whatever name the user gives the provider.
  if ('supportsStructuredOutputs' in model)
    return compatible(name.replace(/[_-]([a-z])/g, (_, letter: string) => letter.toUpperCase()))
  return {}
}

/** Words for reasoning that version 4 of the specification has. */
const V4_EFFORTS: readonly string[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

export interface Encoded {
  readonly options: CallOptions
  /** Sentences about options that have no effect. */
  readonly warnings: readonly string[]
}

/** Returns the options of the call. Throws `UnfitContentError` for content that the model does not take. */
export function callOptionsOf(request: ModelRequest, model: AiSdkModel, takesUrl: TakesUrl): Encoded {
  const { temperature, topP, stop, seed, maxOutputTokens, strict, headers, idempotencyKey } = request
  const family = familyOf(model)
  const { tools, jsonSchema, mustCall } = offeredIn(request)
  const { specificationVersion: version } = model
  const { providerOptions, reasoning, warnings } = ofProvider(request, version, family, tools.length > 0)
  const prompt = promptOf(request.messages, version, { url: takesUrl, resultMedia: family.resultMedia ?? false })
  const options: CallOptions = {
    prompt: request.promptCaching && family.cacheMark ? marked(prompt, family.cacheMark) : prompt,
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, inputSchema }) => ({
        type: 'function',
        name,
        description,
        inputSchema: withoutDialect(inputSchema),
        ...(strict !== undefined && { strict }),
      })),
      ...toolChoiceOf(request, mustCall),
    }),
    ...(jsonSchema && { responseFormat: { type: 'json', schema: withoutDialect(jsonSchema), name: 'answer' } }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(stop && { stopSequences: stop }),
    ...(seed !== undefined && { seed }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(reasoning !== undefined && { reasoning }),
    headers: { ...headers, ...(idempotencyKey !== undefined && { 'Idempotency-Key': idempotencyKey }) },
    ...(Object.keys(providerOptions).length > 0 && { providerOptions }),
  }
  return { options, warnings }
}

function toolChoiceOf({ toolChoice }: ModelRequest, mustCall: boolean): { toolChoice?: SdkToolChoice } {
  if (mustCall) return { toolChoice: { type: 'required' } }
  if (toolChoice === undefined) return {}
  if (typeof toolChoice === 'string') return { toolChoice: { type: toolChoice } }
  return { toolChoice: { type: 'tool', toolName: toolChoice.tool } }
}

/** Returns the options that each provider has under names of its own. Those of the request take precedence. */
function ofProvider(request: ModelRequest, version: string, family: Family, hasTools: boolean) {
  const { reasoningEffort, parallelToolCalls, strict, extraBody, jsonSchema, answerFunction } = request
  const warnings: string[] = []
  const found: ProviderOptions[] = []
  const take = (option: string, options: ProviderOptions | undefined) => {
    if (options) found.push(options)
    else warnings.push(`${option} has no effect: its AI SDK provider has no such option. Use its providerOptions.`)
  }
  const isStandard = version === 'v4' && reasoningEffort !== undefined && V4_EFFORTS.includes(reasoningEffort)
  if (reasoningEffort !== undefined && !isStandard)
    take(`reasoningEffort '${reasoningEffort}'`, family.effort?.(reasoningEffort))
  if (parallelToolCalls !== undefined && hasTools)
    take('parallelToolCalls', family.parallelToolCalls?.(parallelToolCalls))
  if (extraBody) take('extraBody', family.body?.(extraBody))
  // A provider without this option is strict with answers by itself, or cannot be.
  if (strict !== undefined && jsonSchema && !answerFunction && family.strictAnswer)
    found.push(family.strictAnswer(strict))
  const providerOptions = [...found, request.providerOptions ?? {}].reduce(merged, {})
  return { providerOptions, reasoning: isStandard ? reasoningEffort : undefined, warnings }
}

function merged(options: ProviderOptions, more: ProviderOptions): ProviderOptions {
  const joined = Object.entries(more).map(([name, fields]) => [name, { ...own(options, name), ...fields }])
  return { ...options, ...Object.fromEntries(joined) }
}

/** Marks the ends of system prompt and conversation: the next call finds what is before them in the cache. */
function marked(prompt: readonly PromptMessage[], mark: ProviderOptions): PromptMessage[] {
  const lastOfSystem = prompt.findLastIndex(({ role }) => role === 'system')
  return prompt.map((message, at) =>
    at === lastOfSystem || at === prompt.length - 1
      ? { ...message, providerOptions: merged(message.providerOptions ?? {}, mark) }
      : message,
  )
}

/** Removes `$schema`, which schema libraries add and some providers refuse. */
function withoutDialect(schema: object): object {
  const { $schema: _dialect, ...rest } = schema as Record<string, unknown>
  return rest
}
