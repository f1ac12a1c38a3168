/** Calls a tool as the runtime does: checks the input by the tool's schema, then runs it with a context. */
import type { Logger } from '../../src/actors/logger.ts'
import type { ModelSchema, Tool, ToolContext } from '../../src/actors/tool.ts'
import { ToolInputError } from '../../src/errors.ts'

interface Runnable {
  input: ModelSchema
  run(input: unknown, context: ToolContext): unknown
}

const nothing = () => {}
const log: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing }

/** What the tool answers. Rejects as the tool does, and with `ToolInputError` for what misses its schema. */
export async function useTool<In, Out>(
  tool: Tool<In, Out>,
  input: unknown,
  signal: AbortSignal = new AbortController().signal,
): Promise<Out> {
  if (!isRunnable(tool)) throw new TypeError('not made by defineTool')
  const checked = await tool.input['~standard'].validate(input)
  if (checked.issues) throw new ToolInputError(checked.issues.map(({ message }) => message).join('; '))
  const context = { agent: 'worker', runId: 'run', signal, idempotencyKey: 'key', log, progress: nothing }
  return (await tool.run(checked.value, context)) as Out
}

function isRunnable(tool: object): tool is Runnable {
  return 'run' in tool && 'input' in tool
}
