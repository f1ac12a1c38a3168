/**
 * Options that the provider specification leaves to each provider, under the names that providers have for them. A
 * provider that is not named here has none: its users write `providerOptions`.
 */
import { own } from '../own.ts'
import type { AiSdkModel, ProviderOptions } from './language-model.ts'

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
  /** Fields of the request's body. */
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
export function familyOf(model: AiSdkModel): Family {
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
