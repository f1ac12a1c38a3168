/** Calls a tool as the runtime does: arguments checked by its schema, then `run` with a context. */
import { checkBySchema } from '../../src/actors/definition/schema.ts'
import type { Schema, Tool, ToolContext } from '../../src/actors/definition/tool.ts'
import { ToolInputError } from '../../src/shared/errors.ts'

/** What a definition has at run time. */
interface Definition<Out> {
  readonly idempotent?: boolean
  readonly timeoutMs?: number
  readonly input: Schema
  run(input: unknown, context: ToolContext): Out | Promise<Out>
}

export function definitionOf<In, Out>(tool: Tool<In, Out>): Tool<In, Out> & Definition<Out> {
  return tool as Tool<In, Out> & Definition<Out>
}

const silent = { debug() {}, info() {}, warn() {}, error() {} }

export async function call<In, Out>(
  tool: Tool<In, Out>,
  input: unknown,
  signal: AbortSignal = new AbortController().signal,
): Promise<Out> {
  const { input: schema, run } = definitionOf(tool)
  const checked = await checkBySchema(schema, input, (issues) => new ToolInputError(issues))
  return run(checked, {
    agent: 'researcher',
    runId: 'run-1',
    signal,
    idempotencyKey: 'run-1/1',
    log: silent,
    progress() {},
    ask: () => Promise.reject(new Error('Nobody is there.')),
  })
}
