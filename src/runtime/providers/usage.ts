/** Usage of one call, from the counts that each API gives under names of its own. */
import type { TokenUsage } from '../../actors/definition/model.ts'

/** Counts of tokens; what the provider does not say is left out of the usage. */
interface Counts {
  readonly input: number
  readonly output: number
  readonly cached?: number | null | undefined
  readonly reasoning?: number | null | undefined
}

export function usageFrom({ input, output, cached, reasoning }: Counts): TokenUsage {
  return {
    inputTokens: input,
    outputTokens: output,
    totalTokens: input + output,
    ...(cached != null && { cachedTokens: cached }),
    ...(reasoning != null && { reasoningTokens: reasoning }),
    calls: 1,
  }
}
