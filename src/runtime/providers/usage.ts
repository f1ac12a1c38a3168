/** Usage of one call, from the counts that each API gives under names of its own. */
import type { TokenUsage } from '../../actors/definition/model.ts'

/** Counts of tokens as a provider gives them: numbers, something odd, or nothing. */
type Counts = Partial<Record<'input' | 'output' | 'total' | 'cached' | 'reasoning', unknown>>

/** Returns the usage. An odd count is left out and the others count; undefined if there is none of the tokens. */
export function usageFrom({ input: i, output: o, total: t, cached: c, reasoning: r }: Counts): TokenUsage | undefined {
  const total = countOf(t)
  const rest = (other: unknown) => (total === undefined ? undefined : Math.max(0, total - (countOf(other) ?? 0)))
  const input = countOf(i) ?? rest(o)
  const output = countOf(o) ?? rest(input)
  if (input === undefined && output === undefined) return undefined
  const cached = countOf(c)
  const reasoning = countOf(r)
  return {
    inputTokens: input ?? 0,
    outputTokens: output ?? 0,
    totalTokens: (input ?? 0) + (output ?? 0),
    ...(cached !== undefined && { cachedTokens: cached }),
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
    calls: 1,
  }
}

/** Some servers count in halves, or write a number as text. */
function countOf(given: unknown): number | undefined {
  const isCount = typeof given === 'number' || (typeof given === 'string' && /^\d/.test(given))
  const count = isCount ? Math.round(Number(given)) : -1
  return Number.isSafeInteger(count) && count >= 0 ? count : undefined
}
