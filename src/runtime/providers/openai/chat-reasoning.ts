/**
 * Reasoning in chat completions. The API has no field for it, but servers add one: `reasoning_content` (DeepSeek, vLLM)
 * or `reasoning` (OpenRouter, Ollama). It goes back under the name under which it came.
 */
import type { Content, ProviderData, ReasoningPart } from '../../../actors/definition/content.ts'

const FIELDS = ['reasoning_content', 'reasoning'] as const
type Field = (typeof FIELDS)[number]

/** Name under which the provider data of these parts stands. */
const CHAT = 'chat'

/** Reasoning as a piece of an answer. */
export interface ChatReasoning {
  readonly reasoning: string
  readonly providerData?: ProviderData
}

/** Returns the reasoning of a message or a chunk, if it has any. */
export function reasoningIn(said: Partial<Record<Field, unknown>>): ChatReasoning | undefined {
  for (const field of FIELDS) {
    const text = said[field]
    if (typeof text === 'string' && text !== '') return { reasoning: text, providerData: { [CHAT]: { field } } }
  }
  return undefined
}

/** Returns the fields that give a server its reasoning back. */
export function reasoningFields(content: Content): Partial<Record<Field, string>> {
  if (typeof content === 'string') return {}
  const parts = content.filter((part): part is ReasoningPart => part.type === 'reasoning')
  const fields: Partial<Record<Field, string>> = {}
  for (const { text, providerData } of parts) {
    const field = FIELDS.find((name) => name === providerData?.[CHAT]?.field)
    if (field) fields[field] = (fields[field] ?? '') + text
  }
  return fields
}
