/** Checks of what goes into agents and models, comes out of them, and of what their tools are called with. */

/**
 * Decision of a guardrail: nothing to let it pass, a value in its place, or the reason why it is refused. The reason is
 * told to the caller, or to the model if it is about a tool.
 */
export type GuardrailVerdict<Value> = undefined | { change: Value } | { refuse: string }

/** Place of a check. `agent`: null for the query and the answer of a run. The signal ends the check. */
export interface GuardrailContext {
  agent: string | null
  runId: string
  signal: AbortSignal
}

/** Call of a tool. `input` is what the model, or code, calls it with. */
export interface GuardedCall {
  tool: string
  input: unknown
}

/**
 * A check. It runs in the host. A check that throws, or that takes longer than `timeoutMs` (120,000), counts as a
 * refusal. `when`, for an input: 'beside' (the default) runs beside the work, which ends if the check refuses;
 * 'before' runs before it, and may change the input.
 *
 * @example
 * const noCards: Guardrail = {
 *   name: 'no cards',
 *   check: (text) => (/\d{16}/.test(text) ? { refuse: 'Leave card numbers out.' } : undefined),
 * }
 */
export interface Guardrail<Value = string> {
  name: string
  when?: 'before' | 'beside'
  timeoutMs?: number
  check(value: Value, context: GuardrailContext): GuardrailVerdict<Value> | Promise<GuardrailVerdict<Value>>
}

/** Checks of a team or a role, each list in its order. */
export interface Guardrails {
  /** Checks of the query of each run; of a role: of what its model is asked. */
  input?: readonly Guardrail[]
  /** Checks of the answer of each run; of a role: of what its model answers. Nothing of it is streamed before. */
  output?: readonly Guardrail[]
  /** Checks of each call of a tool. A change is one of the input. */
  tool?: readonly Guardrail<GuardedCall>[]
}

/** Kinds of checks that a thread has to ask the host for. */
export interface GuardedBy {
  /** Checks before the model is asked, and beside it. */
  before: boolean
  beside: boolean
  output: boolean
  tool: boolean
}

/** Verb that runs checks. */
export const GUARD = 'guard'

/** Arguments of that verb, and its result: the value, changed or not. */
export type GuardArguments = { on: 'before' | 'beside' | 'output'; value: string } | ({ on: 'tool' } & GuardedCall)
