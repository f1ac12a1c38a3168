/** Entry of a thread for isolated tools: loads a tool, then describes or calls it. Bundled into one file. */
import { parentPort } from 'node:worker_threads'
import * as errors from '../../shared/errors.ts'
import { toolParts } from '../definition/content.ts'
import { agentRef, defineAgent, type Exports, exportsOf } from '../definition/definition.ts'
import { defineProtocol } from '../definition/protocol.ts'
import { defineTool, type Logger, type LogLevel, logFields, type ToolDefinition } from '../definition/tool.ts'
import { reportGrantsAlone } from './granted.ts'
import {
  type IsolatedSpec,
  printed,
  runTool,
  type ToolNotice,
  type ToolTask,
  type ToolTaskResult,
  toolIn,
} from './run-tool.ts'

// `import 'dramatis'` in a thread (thread-api.ts) reads these classes and functions, so the thread has no second copy.
Object.defineProperty(globalThis, Symbol.for('dramatis.thread'), {
  value: { ...errors, agentRef, defineAgent, defineProtocol, defineTool, toolParts },
})

/** Maximum number of log lines per call. */
const MOST_LINES = 10_000
const LEFT_OUT = 'the tool has written 10,000 lines in one call; the rest is left out'

reportGrantsAlone()

const host = parentPort
host?.once('message', async (task: ToolTask) => {
  const done = await perform(task, (notice) => host.postMessage(notice)) // control plane: no message of an agent
  await printed()
  host.postMessage({ done }) // control plane
})

async function perform({ code, call }: ToolTask, tell: (notice: ToolNotice) => void): Promise<ToolTaskResult> {
  try {
    if (code.bundled) process.setSourceMapsEnabled(true)
    const exports = await imported(code.module)
    if ('thrown' in exports) return { ok: false, importing: true, error: exports.thrown }
    const tool = toolIn(exports, code)
    return call ? { ok: true, output: await run(tool, call, tell) } : { ok: true, tool: specOf(tool) }
  } catch (error) {
    const failure =
      error instanceof errors.DramatisError ? error : new errors.ToolFailedError(errors.describe(error), {}, error)
    return { ok: false, error: errors.errorData(failure) }
  }
}

async function imported(module: string): Promise<object | { thrown: errors.ErrorData }> {
  try {
    return exportsOf((await import(module)) as Exports)
  } catch (error) {
    return { thrown: errors.errorData(new errors.ConfigurationError(errors.describe(error), {}, error)) }
  }
}

function specOf(tool: ToolDefinition): IsolatedSpec {
  const { name, description, inputSchema, timeoutMs, sequential, polling, approval, idempotent } = tool
  const { readOnly, outside, outputSchema, answerWithinMs, approvers } = tool
  const told = { name, description, inputSchema, timeoutMs, sequential, polling, approval, idempotent }
  return { ...told, readOnly, outside, outputSchema, answerWithinMs, approvers }
}

/** Runs the tool without a signal and a time limit, because the host ends a call by terminating this thread. */
function run(
  tool: ToolDefinition,
  { input, checkOnly = false, ...caller }: NonNullable<ToolTask['call']>,
  tell: (notice: ToolNotice) => void,
): Promise<string | undefined> {
  return runTool(checkOnly ? { ...tool, run: () => undefined } : tool, input, {
    ...caller,
    log: loggerTo(tell),
    signal: new AbortController().signal,
    timer: () => ({ cancel() {} }),
    progress: (progress) => tell({ progress }),
  })
}

function loggerTo(tell: (notice: ToolNotice) => void): Logger {
  let lines = 0
  const write = (level: LogLevel) => (fields: object, text: string) => {
    if (++lines > MOST_LINES) return
    if (lines === MOST_LINES) return tell({ log: 'warn', fields: '{}', text: LEFT_OUT })
    // pino accepts a text alone as well
    const [data, words] = typeof fields === 'string' && text === undefined ? [{}, fields] : [fields, String(text)]
    tell({ log: level, fields: logFields(data), text: words })
  }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
