/**
 * Data of the Responses API that an answer's parts and calls carry, so that they go back as they came: ids and the
 * encrypted form of reasoning, the phase of a text, and the place of a call among the parts.
 */
import type { ResponseInputItem } from 'openai/resources/responses/responses'
import type { ProviderData, ReasoningPart, TextPart } from '../../../actors/definition/content.ts'
import type { ToolCall } from '../../../actors/definition/model.ts'

/** Name under which the provider data of these parts stands. */
const RESPONSES = 'responses'

const dataOf = (data: ProviderData | undefined): Record<string, unknown> => data?.[RESPONSES] ?? {}

export const reasoningData = (id: string, encrypted: string | undefined): ProviderData => ({
  [RESPONSES]: { id, ...(encrypted !== undefined && { encrypted }) },
})

export const phaseData = (phase: string): ProviderData => ({ [RESPONSES]: { phase } })

/** `after`: number of the answer's parts that came before the call. */
export const callData = (after: number): ProviderData => ({ [RESPONSES]: { after } })

/** Returns the item of a reasoning. Nothing is stored, so only an encrypted one means anything to the provider. */
export function reasoningItemOf({ text, providerData }: ReasoningPart): ResponseInputItem[] {
  const { id, encrypted } = dataOf(providerData)
  if (typeof id !== 'string' || typeof encrypted !== 'string') return []
  const summary = text === '' ? [] : [{ type: 'summary_text' as const, text }]
  return [{ type: 'reasoning', id, summary, encrypted_content: encrypted }]
}

export function phaseOf({ providerData }: TextPart): { phase?: 'commentary' | 'final_answer' } {
  const { phase } = dataOf(providerData)
  return phase === 'commentary' || phase === 'final_answer' ? { phase } : {}
}

export function callPlaceOf({ providerData }: ToolCall): number | undefined {
  const { after } = dataOf(providerData)
  return typeof after === 'number' ? after : undefined
}
