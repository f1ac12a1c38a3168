/** What happens, for people and programs that watch: each entry of the log as events. A fold without memory, so that a watcher can begin anywhere. */

import type { SyncResult } from '../actors/context.ts'
import type { TokenUsage } from '../actors/model.ts'
import type { AgentStatus, AgentTask, TaskStatus } from '../actors/task.ts'
import type { BlackboardEntry } from '../blackboard/entry.ts'
import type { DramatisError } from '../errors.ts'
import { type Directory, decodeMessage, isCopy, isMessage } from '../mailbox/codec.ts'
import type { DeadLetter } from '../mailbox/dead-letters.ts'
import {
  ANNOUNCED,
  attemptOf,
  CHUNK,
  END,
  flagsOf,
  idOf,
  kindOf,
  lengthOf,
  readBody,
  senderOf,
  startedOf,
  timeOf,
} from '../mailbox/frame.ts'
import { ORCHESTRATOR, type TypedMessage } from '../mailbox/message.ts'
import type { FrameBlock, HostRecord, LogEntry } from './records.ts'
import { SEQ_STEP } from './records.ts'
import type { MultiAgentResult } from './result.ts'

type Event<Type extends string, Fields = object> = { type: Type; seq: number; at: number; runId: string } & Fields

/**
 * Something that happened. `seq` ascends; `at` is epoch ms; `runId` is empty for what belongs to no run.
 *
 * @example
 * team.events.subscribe((event) => {
 *   if (event.type === 'agent.crashed') console.error(event.agent, event.error.message, event.restartInMs)
 * })
 */
export type RuntimeEvent<T = undefined> =
  | Event<'run.started', { query: string }>
  | Event<'run.finished', { result: MultiAgentResult<T> }>
  | Event<'run.aborted', { reason: string }>
  | Event<'agent.status', { agent: string; status: AgentStatus; epoch: number }>
  | Event<'agent.crashed', { agent: string; epoch: number; error: DramatisError; restartInMs: number | null }>
  | Event<'turn.started' | 'turn.finished', { agent: string; messageId: string; attempt: number }>
  | Event<'message', { message: TypedMessage }>
  | Event<'message.dead', { letter: DeadLetter }>
  /** final: part of finalOutput, show it to the user. */
  | Event<'output.delta', { agent: string; messageId: string; chunk: string; final: boolean }>
  | Event<'model.called', { agent: string; model: string; usage: TokenUsage; durationMs: number; rehearsed: boolean }>
  | Event<'tool.started', { agent: string; callId: string; tool: string; input: unknown }>
  | Event<
      'tool.finished',
      { agent: string; callId: string; tool: string; durationMs: number; error: DramatisError | null }
    >
  | Event<'task', { task: AgentTask; previous: TaskStatus | null }>
  | Event<'blackboard', { entry: BlackboardEntry }>
  | Event<'decision', { question: string; choice: string; reason: string }>
  | Event<'sync', { point: string; result: SyncResult }>
  | Event<
      'question',
      { questionId: string; agent: string; kind: 'ask' | 'approval' | 'escalation'; text: string; choices?: string[] }
    >
  | Event<
      'deadlock',
      {
        cycle: string[]
        tail: string[]
        waits: { agent: string; for: string[]; kind: string }[]
        victim: string | null
      }
    >
  | Event<'livelock' | 'stall', { evidence: string[] }>
  | Event<'budget', { agent: string | null; used: number; limit: number }>

/** Names by index, run ids by index, and the result of a finished run. */
export interface EventSource extends Directory {
  resultOf(runId: string): MultiAgentResult<unknown> | undefined
}

/** The events of one entry, in order. Some records are for the trace alone and have none. */
export function* eventsOf(entry: LogEntry, source: EventSource): IterableIterator<RuntimeEvent<unknown>> {
  if (entry.kind === 'frames') yield* frameEvents(entry, source)
  else {
    const event = recordEvent(entry, source)
    if (event) yield event
  }
}

function* frameEvents(block: FrameBlock, source: EventSource): IterableIterator<RuntimeEvent<unknown>> {
  const runId = source.runId(block.run)
  const { memory } = block
  let { seq } = block
  for (let at = block.from; at < block.to; at += lengthOf(memory, at), seq += SEQ_STEP) {
    const kind = kindOf(memory, at)
    const agent = source.name(senderOf(memory, at))
    const turn = { agent, messageId: idOf(memory, at), attempt: attemptOf(memory, at), runId }
    if (kind === END && !(flagsOf(memory, at) & ANNOUNCED))
      yield { type: 'turn.started', seq, at: startedOf(memory, at), ...turn }
    if (isMessage(memory, at) && !isCopy(memory, at))
      yield { type: 'message', seq: seq + 1, at: block.at, runId, message: decodeMessage(memory, at, source) }
    if (kind === END) yield { type: 'turn.finished', seq: seq + 2, at: timeOf(memory, at), ...turn }
    if (kind === CHUNK)
      yield {
        type: 'output.delta',
        seq,
        at: block.at,
        runId,
        agent,
        messageId: idOf(memory, at),
        chunk: readBody(memory, at).content,
        final: agent === ORCHESTRATOR,
      }
  }
}

function recordEvent(record: HostRecord, source: EventSource): RuntimeEvent<unknown> | undefined {
  const base = { seq: record.seq, at: record.at, runId: source.runId(record.run) }
  switch (record.kind) {
    case 'run.started':
      return { type: record.kind, ...base, query: record.query }
    case 'run.aborted':
      return { type: record.kind, ...base, reason: record.reason }
    case 'run.finished': {
      const result = source.resultOf(base.runId)
      return result && { type: record.kind, ...base, result }
    }
    case 'agent.status':
      return { type: record.kind, ...base, agent: record.agent, status: record.status, epoch: record.epoch }
    case 'agent.ready':
      return { type: 'agent.status', ...base, agent: record.agent, status: 'idle', epoch: record.epoch }
    case 'agent.crashed':
      return {
        type: record.kind,
        ...base,
        agent: record.agent,
        epoch: record.epoch,
        error: record.error,
        restartInMs: record.restartInMs,
      }
    case 'turn.started':
      return { type: record.kind, ...base, agent: record.agent, messageId: record.messageId, attempt: record.attempt }
    case 'message.dead':
      return { type: record.kind, ...base, letter: record.letter }
    case 'task':
      return { type: record.kind, ...base, task: record.task, previous: record.previous }
    case 'blackboard':
      return { type: record.kind, ...base, entry: record.entry }
    case 'decision':
      return { type: record.kind, ...base, question: record.question, choice: record.choice, reason: record.reason }
    default:
      return undefined
  }
}
