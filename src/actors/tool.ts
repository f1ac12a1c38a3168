/** What a tool is. Tools run with the model gateway; a definition can be written and checked already. */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import type { Logger } from './logger.ts'

/** A Standard Schema, of zod, arktype, valibot and others. Source: standardschema.dev. */
export type Schema<In = unknown, Out = In> = StandardSchemaV1<In, Out>
/** A model needs the JSON schema too: zod 4 and arktype have it, bare valibot does not. */
export type ModelSchema<In = unknown, Out = In> = StandardSchemaV1<In, Out> & StandardJSONSchemaV1<In, Out>

/** What a tool is given. */
export interface ToolContext {
  readonly agent: string
  readonly runId: string
  readonly signal: AbortSignal
  readonly idempotencyKey: string
  readonly log: Logger
  progress(note: string): void
}

/** What `defineTool` returns, with the types of what goes in and comes out. */
export interface Tool<In = unknown, Out = unknown> {
  readonly name: string
  readonly description: string
  readonly '~types'?: { input: In; output: Out }
}

/**
 * Defines a tool. Given inline it will run in the host, by proxy; by `{ module }` in the agent's thread. Tools can be
 * written in this version, and not called yet. `timeoutMs` in ms; `approval`: a person has to agree first.
 *
 * @example
 * const add = defineTool({
 *   name: 'add',
 *   description: 'Adds two numbers.',
 *   input: z.object({ a: z.number(), b: z.number() }),
 *   run: ({ a, b }) => a + b,
 * })
 */
export function defineTool<In, Value, Out>(tool: {
  name: string
  description: string
  input: ModelSchema<In, Value>
  idempotent?: boolean
  timeoutMs?: number
  approval?: boolean | ((input: Value) => boolean)
  run(input: Value, context: ToolContext): Out | Promise<Out>
}): Tool<In, Out> {
  return tool
}
