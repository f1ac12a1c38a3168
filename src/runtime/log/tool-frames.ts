/** Reads tool events from the frames of an agent's thread: a call has begun, has progress, or has ended. */
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import { flagsOf, HAS_THREAD, kindOf, LOG, limitOf, STEP_BEGAN, STEP_DONE } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { ToolEvent } from './tool-event.ts'

/** Returns the tool event of a frame; undefined if it has none. A step that is a tool call carries the call's id. */
export function toolEventOf(memory: Memory, at: number, agent: string): ToolEvent | undefined {
  if ((flagsOf(memory, at) & HAS_THREAD) === 0) return undefined
  const kind = kindOf(memory, at)
  if (kind !== STEP_BEGAN && kind !== STEP_DONE && kind !== LOG) return undefined
  const { content, data, threadId: callId = '' } = readBody(memory, at)
  const messageId = idOf(memory, at)
  switch (kind) {
    case STEP_BEGAN:
      return { type: 'tool.started', agent, messageId, callId, tool: content, input: jsonIn(data) }
    case STEP_DONE: {
      const error = isFailure(memory, at) ? errorOf(memory, at) : null
      return {
        type: 'tool.finished',
        agent,
        messageId,
        callId,
        tool: content,
        durationMs: Math.max(0, limitOf(memory, at)),
        error,
      }
    }
    default: {
      const { tool } = Object(jsonIn(data)) as { tool?: unknown }
      return { type: 'tool.progress', agent, messageId, callId, tool: String(tool), note: content }
    }
  }
}
