/**
 * The tools of a role as a model has them within one turn. What a tool is and where it runs, in this thread, in the host or
 * in the pool, is nothing that the loop of model and tools knows: it has names, inputs and answers alone.
 */
import type { ToolSpec } from '../definition/model.ts'

export interface RoleTools {
  /** What a model is told of them. The same for all of a life: a turn that is tried again asks its model the same again. */
  readonly specs: readonly ToolSpec[]
  /** Whether calls of that tool run alone among those of one answer. */
  isSequential(name: string): boolean
  /** Whether that one is a poll by its definition. */
  polls(name: string): boolean
  /**
   * Calls one of them; `input` is JSON as the model wrote it. Resolves to what the model is told. What it rejects with, such
   * as `ToolInputError`, `ToolFailedError` and `ToolTimeoutError`, is told to the model too, by its message: it may try again.
 `signal` withdraws the call.
   */
  call(name: string, input: string, signal: AbortSignal | undefined): Promise<string>
}
