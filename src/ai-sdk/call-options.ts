/** Encodes a request as the options of a call of an AI SDK model, and names what the model cannot be told. */

import type { ModelRequest } from '../actors/definition/model.ts'
import { offeredIn } from '../actors/model/answer-function.ts'
import { own } from '../own.ts'
import { type Family, familyOf } from './families.ts'
import type { AiSdkModel, CallOptions, PromptMessage, ProviderOptions, SdkToolChoice } from './language-model.ts'
import { promptOf, type TakesUrl } from './prompt.ts'

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

/**
 * Marks the system prompt, with the tools before it, and the end of the conversation: the next call of the same
 * conversation finds both in the cache.
 */
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
