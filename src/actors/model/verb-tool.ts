/** A verb as a tool of a model: its description, and what its call does. */
import type { Content } from '../definition/content.ts'
import type { ToolSpec } from '../definition/model.ts'
import type { PassingOn } from './context/inheritance.ts'
import type { ThinkingTurn } from './thinking-turn.ts'

/**
 * Result of a tool: content for the model, or the end of the turn with this answer. `means`: the text without what
 * differs each time, if it has any of that. `data`: structured data of the answer. `isHandoff`: another agent answers
 * in the place of this one. `isFinal`: the answer ends the whole task.
 */
export type ToolOutcome =
  | { text: Content; means?: string; failed?: true }
  | { ends: string; data?: object; isHandoff?: true; isFinal?: true }

export interface VerbTool {
  readonly spec: ToolSpec
  /**
   * The call waits for the calls before it in the same answer, and those after it wait for it: it may end the turn, or
   * it changes what they see.
   */
  readonly alone: boolean
  /** `signal` withdraws the call. */
  run(turn: ThinkingTurn, input: Input, passing: PassingOn, signal: AbortSignal | undefined): Promise<ToolOutcome>
}

/** Input of a verb, as the model wrote it. */
export type Input = Readonly<Record<string, unknown>>

export const TEXT = { type: 'string' } as const

/** Makes a verb of a model from its name, its description and its input. */
export function tool(
  name: string,
  description: string,
  properties: Readonly<Record<string, object>>,
  required: readonly string[],
  run: VerbTool['run'],
  { alone = false } = {},
): VerbTool {
  const inputSchema = { type: 'object', properties, required, additionalProperties: false }
  return { spec: { name, description, inputSchema }, alone, run }
}

export const ALONE = { alone: true }

export const AGENT = { ...TEXT, description: 'The name of an agent of the team.' }

/** Returns a value as a model reads it. */
export const shownValue = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value ?? null)
