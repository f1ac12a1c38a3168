/** What passes between the host and a thread that runs isolated tools. */
import type { MessagePort } from 'node:worker_threads'
import type { ErrorData } from '../errors.ts'
import type { ToolCode } from './assignment.ts'
import type { LogLevel } from './logger.ts'
import type { ToolSpec } from './model.ts'

/** One thing to do. Without a `call`: to say what the tool is. */
export interface ToolTask {
  code: ToolCode
  /** For news while it is under way. */
  port: MessagePort
  call?: {
    agent: string
    runId: string
    idempotencyKey: string
    input: unknown
    /** Of its output. */
    maxBytes: number
  }
}

/** What it came to. `importing`: the module threw while it was imported. */
export type ToolTaskResult =
  | { ok: true; tool: ToolSpec & { timeoutMs: number; approval: boolean } }
  | { ok: true; output: string | undefined }
  | { ok: false; error: ErrorData; importing?: true }

/** `begun`: the thread that has begun. The fields of a line are JSON. */
export type ToolNotice = { begun: number } | { progress: string } | { log: LogLevel; fields: string; text: string }
