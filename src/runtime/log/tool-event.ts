/** What is told of one call of a tool. */
import type { DramatisError } from '../../errors.ts'

/** What all of them name: `callId` is the same for one call, and is its `idempotencyKey`. */
interface OfCall {
  agent: string
  callId: string
  tool: string
}

/** `simulated`: it does not run, since the rehearsal model answers; its output is made up. */
export type ToolStarted = OfCall & { input: unknown; simulated?: true }
/** In ms. */
export type ToolFinished = OfCall & { durationMs: number; error: DramatisError | null }
export type ToolProgress = OfCall & { note: string }

export type ToolEvent =
  | ({ type: 'tool.started' } & ToolStarted)
  | ({ type: 'tool.finished' } & ToolFinished)
  | ({ type: 'tool.progress' } & ToolProgress)

/** The same as the log has it of a tool that the host runs. */
type ToolRecord =
  | ({ kind: 'tool.started' } & ToolStarted)
  | ({ kind: 'tool.finished' } & ToolFinished)
  | ({ kind: 'tool.progress' } & ToolProgress)

export function toolEventFrom(record: ToolRecord): ToolEvent {
  const { agent, callId, tool } = record
  switch (record.kind) {
    case 'tool.started':
      return {
        type: record.kind,
        agent,
        callId,
        tool,
        input: record.input,
        ...(record.simulated && { simulated: true }),
      }
    case 'tool.finished':
      return { type: record.kind, agent, callId, tool, durationMs: record.durationMs, error: record.error }
    case 'tool.progress':
      return { type: record.kind, agent, callId, tool, note: record.note }
  }
}

/** For the trace: without what went in, which can be a prompt. */
export function toolDetails(event: ToolEvent): object {
  const { agent, callId, tool } = event
  switch (event.type) {
    case 'tool.started':
      return { agent, callId, tool, ...(event.simulated && { simulated: true }) }
    case 'tool.finished':
      return { agent, callId, tool, durationMs: event.durationMs, error: event.error?.toJSON() ?? null }
    case 'tool.progress':
      return { agent, callId, tool, note: event.note }
  }
}
