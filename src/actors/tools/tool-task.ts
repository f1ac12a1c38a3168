/** Messages between the host and a thread that runs isolated tools. */
import type { ErrorData } from '../../errors.ts'
import type { ToolCode } from '../definition/assignment.ts'
import type { LogLevel } from '../definition/logger.ts'
import type { ToolSpec } from '../definition/model.ts'
import type { ToolDefinition } from '../definition/tool.ts'

/** A task for the thread. Without a `call` the thread only describes the tool. */
export interface ToolTask {
  code: ToolCode
  call?: {
    agent: string
    runId: string
    idempotencyKey: string
    input: unknown
    /** Maximum size of the output in bytes, encoded as a frame. */
    maxBytes: number
    /** True: check the input only, do not run the tool. */
    checkOnly?: boolean
  }
}

/** Description of a tool for the host. */
export type IsolatedSpec = ToolSpec &
  Pick<
    ToolDefinition,
    | 'timeoutMs'
    | 'sequential'
    | 'polling'
    | 'approval'
    | 'approvers'
    | 'answerWithinMs'
    | 'idempotent'
    | 'readOnly'
    | 'outside'
    | 'outputSchema'
  >

/** Result of a task. `importing`: the import of the module threw. */
export type ToolTaskResult =
  | { ok: true; tool: IsolatedSpec }
  | { ok: true; output: string | undefined }
  | { ok: false; error: ErrorData; importing?: true }

/** Posted by the thread during a task, before `{ done: ToolTaskResult }`. The fields of a log line are JSON. */
export type ToolNotice = { progress: string } | { log: LogLevel; fields: string; text: string }
