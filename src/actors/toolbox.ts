/**
 * The tools of a role as a model has them within one turn. What a tool is and where it runs, in this thread, in the host or
 * in the pool, is the toolbox's own business: the loop of model and tools knows names, inputs and answers alone.
 */
import type { ToolSpec } from './model.ts'
import type { RoleInfo } from './role.ts'

export interface Toolbox {
  /** What a model is told of them. The same for all of a life: a turn that is tried again asks its model the same again. */
  specs(): readonly ToolSpec[]
  /**
   * Calls one of them; `input` is JSON as the model wrote it. Resolves to what the model is told. What it rejects with, such
   * as `ToolInputError`, `ToolFailedError` and `ToolTimeoutError`, is told to the model too, by its message: it may try again.
   */
  call(name: string, input: string, signal: AbortSignal): Promise<string>
}

/** What a toolbox needs of its turn. */
export interface ToolTurn {
  readonly role: RoleInfo
  readonly runId: string
  readonly signal: AbortSignal
  /** For a tool that runs in the host: a verb that the host serves, a logged step. */
  call(operation: string, args: object, signal?: AbortSignal): Promise<unknown>
  /** For a tool that runs in this thread. */
  step<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T>
}

/** The tools of an agent, for each of its turns. */
export type ToolboxFor = (turn: ToolTurn) => Toolbox

const NO_TOOLS: Toolbox = {
  specs: () => [],
  call: (name) => Promise.reject(new Error(`there is no tool "${name}"`)),
}

export const noTools: ToolboxFor = () => NO_TOOLS
