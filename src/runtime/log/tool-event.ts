/** Events of one tool call. */
import type { DramatisError } from '../../errors.ts'

/**
 * Fields of all tool events. `callId` is the same for all events of a call, and is its `idempotencyKey`. `messageId`:
 * message of the turn that has made the call; '' in a log that has it not.
 */
interface OfCall {
  agent: string
  messageId: string
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

/** Fields of a record of the log, for a tool that the host runs: older ones have no message. */
export type Recorded<Fields extends OfCall> = Omit<Fields, 'messageId'> & { messageId?: string }

/** Tool events as records of the log. */
type ToolRecord =
  | ({ kind: 'tool.started' } & Recorded<ToolStarted>)
  | ({ kind: 'tool.finished' } & Recorded<ToolFinished>)
  | ({ kind: 'tool.progress' } & Recorded<ToolProgress>)

export function toolEventFrom(record: ToolRecord): ToolEvent {
  const { agent, messageId = '', callId, tool } = record
  switch (record.kind) {
    case 'tool.started':
      return {
        type: record.kind,
        agent,
        messageId,
        callId,
        tool,
        input: record.input,
        ...(record.simulated && { simulated: true }),
      }
    case 'tool.finished':
      return { type: record.kind, agent, messageId, callId, tool, durationMs: record.durationMs, error: record.error }
    case 'tool.progress':
      return { type: record.kind, agent, messageId, callId, tool, note: record.note }
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
