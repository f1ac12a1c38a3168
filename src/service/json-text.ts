/** Results as JSON text. */
import type { MultiAgentResult } from '../index.ts'
import { byReference } from './told-parts.ts'

/**
 * Indented, with an end of line. Errors become `{ code, message, details }`, errors of others `{ name, message }`.
 * Large parts are told by reference.
 */
export function jsonText(value: unknown): string {
  const plain = (_key: string, field: unknown) =>
    field instanceof Error ? { name: field.name, message: field.message } : byReference(field) // toJSON came first
  return `${JSON.stringify(value, plain, 2)}\n`
}

/** The whole of a result: what its `toJSON()` leaves out for brevity too. */
export function resultText(result: MultiAgentResult): string {
  const { messageHistory, orchestrationTrace, blackboardState, contributions } = result
  return jsonText({ ...result.toJSON(), messageHistory, orchestrationTrace, blackboardState, contributions })
}
