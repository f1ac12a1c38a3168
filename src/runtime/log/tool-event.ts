/** Events of one tool call. */
import type { DramatisError } from '../../errors.ts'

/** Fields of all tool events. `callId` is the same for all events of a call, and is its `idempotencyKey`. */
interface OfCall {
  agent: string
  callId: string
  tool: string
}

/** `simulated`: the tool does not run, because the rehearsal model answers; the output is made up. */
export type ToolStarted = OfCall & { input: unknown; simulated?: true }
export type ToolFinished = OfCall & { durationMs: number; error: DramatisError | null }
export type ToolProgress = OfCall & { note: string }

export type ToolEvent =
  | ({ type: 'tool.started' } & ToolStarted)
  | ({ type: 'tool.finished' } & ToolFinished)
  | ({ type: 'tool.progress' } & ToolProgress)

/** Tool events as records of the log, for a tool that the host runs. */
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

/** Returns the fields for the trace. They leave out the input, which can be a prompt. */
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
