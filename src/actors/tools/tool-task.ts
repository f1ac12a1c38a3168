/** What passes between the host and a thread that runs isolated tools. */
import type { ErrorData } from '../../errors.ts'
import type { ToolCode } from '../definition/assignment.ts'
import type { LogLevel } from '../definition/logger.ts'
import type { ToolSpec } from '../definition/model.ts'
import type { ToolDefinition } from '../definition/tool.ts'

/** One thing to do. Without a `call`: to say what the tool is. */
export interface ToolTask {
  code: ToolCode
  call?: {
    agent: string
    runId: string
    idempotencyKey: string
    input: unknown
    /** Of its output. */
    maxBytes: number
    /** Its input is checked, and that is all. */
    checkOnly?: boolean
  }
}

/** What the host is told of a tool. */
export type IsolatedSpec = ToolSpec &
  Pick<
    ToolDefinition,
    'timeoutMs' | 'sequential' | 'polling' | 'approval' | 'idempotent' | 'readOnly' | 'outside' | 'outputSchema'
  >

/** What it came to. `importing`: the module threw while it was imported. */
export type ToolTaskResult =
  | { ok: true; tool: IsolatedSpec }
  | { ok: true; output: string | undefined }
  | { ok: false; error: ErrorData; importing?: true }

/** What the thread posts while it is under way, before `{ done: ToolTaskResult }`. The fields of a line are JSON. */
export type ToolNotice = { progress: string } | { log: LogLevel; fields: string; text: string }
