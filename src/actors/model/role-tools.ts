/**
 * The tools of a role as a model has them within one turn. The loop of model and tools knows only their names, inputs
 * and answers. It does not know where a tool runs: in this thread, in the host or in the pool.
 */
import type { Content } from '../definition/content.ts'
import type { ToolSpec } from '../definition/model.ts'

export interface RoleTools {
  /**
   * Descriptions of the tools for a model. They stay the same while the thread exists, so a redelivered turn asks its
   * model the same again.
   */
  readonly specs: readonly ToolSpec[]
  /** Checks whether calls of that tool run alone among the calls of one answer. */
  isSequential(name: string): boolean
  /** Checks whether that tool is a poll by its definition. */
  polls(name: string): boolean
  /**
   * Calls a tool; `input` is JSON as the model wrote it. Resolves to the content for the model: text, or parts.
   * `signal` withdraws the call. If it rejects, for example with `ToolInputError`, `ToolFailedError` or
   * `ToolTimeoutError`, the model gets the error's message, so it may try again.
   */
  call(name: string, input: string, signal: AbortSignal | undefined): Promise<Content>
}
