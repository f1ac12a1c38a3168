/** Turns log entries into events. Each watcher has its own fold for the status of agents. */

import { type Directory, decodeMessage, isCopy, isMessage } from '../../mailbox/codec.ts'
import {
  ANNOUNCED,
  attemptOf,
  CHUNK,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  senderOf,
  startedOf,
  timeOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { type FrameBlock, type HostRecord, type LogEntry, type OfWatchedCall, SEQ_STEP } from '../log/records.ts'
import { toolEventFrom } from '../log/tool-event.ts'
import { toolEventOf } from '../log/tool-frames.ts'
import { callIn } from '../verbs/open-question.ts'
import { type StatusChange, type StatusFold, statusAfter } from './agent-status.ts'
import type { AlarmEvent, RuntimeEvent } from './events.ts'
import type { MultiAgentResult } from './result.ts'

/** Source of names and run ids by index, of epochs, and of the result of a finished run. */
export interface EventSource extends Directory {
  /** Returns the epoch of the agent's present thread. */
  epochOf(index: number): number
  resultOf(runId: string): MultiAgentResult<unknown> | undefined
}

/**
 * Returns the events of one entry, in order. Some records are for the trace alone and have none. `fold` has seen all
 * earlier entries.
 */
export function* eventsOf(
  entry: LogEntry,
  source: EventSource,
  fold: StatusFold,
): IterableIterator<RuntimeEvent<unknown>> {
  if (entry.kind === 'frames') return yield* frameEvents(entry, source, fold)
  const event = recordEvent(entry, source)
  if (event) yield event
  const change = statusAfter(entry, fold)
  if (change) yield statusEvent(change, entry.seq + 1, entry.at, source.runId(entry.run), source)
}

/** Updates the fold with an entry whose events are not needed. */
export function passOver(entry: LogEntry, fold: StatusFold): void {
  if (entry.kind !== 'frames') statusAfter(entry, fold)
  else
    for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) {
      fold.beginsUnannounced(entry.memory, at)
      fold.ofSender(entry.memory, at)
      fold.ofRecipient(entry.memory, at)
    }
}

const statusEvent = (
  { agent, index, status, epoch }: StatusChange,
  seq: number,
  at: number,
  runId: string,
  source: EventSource,
): RuntimeEvent<unknown> => ({
  type: 'agent.status',
  seq,
  at,
  runId,
  agent,
  status,
  epoch: epoch ?? source.epochOf(index),
})

function* frameEvents(
  block: FrameBlock,
  source: EventSource,
  fold: StatusFold,
): IterableIterator<RuntimeEvent<unknown>> {
  const runId = source.runId(block.run)
  const { memory } = block
  let { seq } = block
  for (let at = block.from; at < block.to; at += lengthOf(memory, at), seq += SEQ_STEP) {
    const kind = kindOf(memory, at)
    const agent = source.name(senderOf(memory, at))
    const turn = { agent, messageId: idOf(memory, at), attempt: attemptOf(memory, at), runId }
    if (kind === END && !(flagsOf(memory, at) & ANNOUNCED))
      yield { type: 'turn.started', seq, at: startedOf(memory, at), ...turn }
    const begins = fold.beginsUnannounced(memory, at)
    if (begins) yield statusEvent(begins, seq + 1, startedOf(memory, at), runId, source)
    if (isMessage(memory, at) && !isCopy(memory, at))
      yield { type: 'message', seq: seq + 2, at: block.at, runId, message: decodeMessage(memory, at, source) }
    const tool = toolEventOf(memory, at, agent)
    if (tool) yield { ...tool, seq: seq + 2, at: timeOf(memory, at), runId }
    if (kind === END) yield { type: 'turn.finished', seq: seq + 3, at: timeOf(memory, at), ...turn }
    const sender = fold.ofSender(memory, at)
    if (sender) yield statusEvent(sender, seq + 4, timeOf(memory, at), runId, source)
    const recipient = fold.ofRecipient(memory, at)
    if (recipient) yield statusEvent(recipient, seq + 5, block.at, runId, source)
    if (kind === CHUNK && senderOf(memory, at) !== 0)
      // what the host streams to a turn is not for others
      yield {
        type: 'output.delta',
        seq: seq + 6,
        at: block.at,
        runId,
        agent,
        messageId: idOf(memory, at),
        chunk: readBody(memory, at).content,
        final: agent === ORCHESTRATOR,
      }
  }
}

const watchedCall = ({ agent, messageId, callId, round, answerOf }: OfWatchedCall): OfWatchedCall => ({
  agent,
  messageId,
  callId,
  round,
  answerOf,
})

/** Returns the event of a record; undefined for one that is for the trace alone. */
export function recordEvent(record: HostRecord, source: EventSource): RuntimeEvent<unknown> | undefined {
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
    case 'agent.crashed':
      return {
        type: record.kind,
        ...base,
        agent: record.agent,
        epoch: record.epoch,
        error: record.error,
        restartInMs: record.restartInMs,
      }
    case 'agent.reloaded':
      return { type: record.kind, ...base, agent: record.agent, epoch: record.epoch }
    case 'agent.ready': {
      const { agent, epoch, warm, tookMs } = record
      return { type: record.kind, ...base, agent, epoch, warm, tookMs }
    }
    case 'agent.exited': {
      const { agent, epoch, how, error, fault, messageId } = record
      return { type: record.kind, ...base, agent, epoch, how, error, fault, messageId }
    }
    case 'handoff': {
      const { agent, step, from, to, messageId, summary } = record
      return { type: record.kind, ...base, agent, step, from, to, messageId, ...(summary !== undefined && { summary }) }
    }
    case 'reassignment': {
      const { agent, step, from, to, messageId } = record
      return { type: record.kind, ...base, agent, step, from, to, messageId }
    }
    case 'step.mismatch':
      return { type: record.kind, ...base, agent: record.agent, messageId: record.messageId, error: record.error }
    case 'turn.started':
      return { type: record.kind, ...base, agent: record.agent, messageId: record.messageId, attempt: record.attempt }
    case 'message.dead':
      return { type: record.kind, ...base, letter: record.letter }
    case 'model.called': {
      const { agent, messageId = '', model, usage, durationMs, rehearsed, error } = record
      return { type: record.kind, ...base, agent, messageId, model, usage: { ...usage }, durationMs, rehearsed, error }
    }
    case 'model.piece': {
      const { part, text, toolCallId, tool } = record
      const ofTool = { ...(toolCallId !== undefined && { toolCallId }), ...(tool !== undefined && { tool }) }
      return { type: 'model.delta', ...base, ...watchedCall(record), part, text, ...ofTool }
    }
    case 'model.superseded':
      return { type: record.kind, ...base, ...watchedCall(record), reason: record.reason }
    case 'guardrail': {
      const { agent, guardrail, on, outcome, durationMs, tool, reason } = record
      const rest = { ...(tool !== undefined && { tool }), ...(reason !== undefined && { reason }) }
      return { type: record.kind, ...base, agent, guardrail, on, outcome, durationMs, ...rest }
    }
    case 'budget': {
      const { agent, used, limit } = record
      return { type: record.kind, ...base, agent, used, limit }
    }
    case 'limit.reached': {
      const { option, limit, agent } = record
      return { type: record.kind, ...base, option, limit, agent }
    }
    case 'task':
      return { type: record.kind, ...base, task: record.task, previous: record.previous }
    case 'blackboard':
      return { type: record.kind, ...base, entry: record.entry }
    case 'decision':
      return { type: record.kind, ...base, question: record.question, choice: record.choice, reason: record.reason }
    case 'question': {
      const { agent, questionId, ask, text, choices } = record
      const call = callIn(record)
      return { type: record.kind, ...base, agent, questionId, kind: ask, text, ...(choices && { choices }), ...call }
    }
    case 'answer': {
      const { kind: _, seq: __, at, run: ___, by, ...given } = record
      const people = by === undefined ? [] : [{ id: by, at }]
      return { type: 'question.closed', ...base, ...given, how: 'answered', by: people }
    }
    case 'question.closed': {
      const { agent, questionId, how } = record
      return { type: record.kind, ...base, agent, questionId, how }
    }
    case 'alarm': {
      const { name: type, sentence, fields } = record
      return { type, ...base, ...fields, sentence } as AlarmEvent
    }
    case 'tool.started':
    case 'tool.finished':
    case 'tool.progress':
      return { ...toolEventFrom(record), ...base }
    case 'sync':
      return { type: record.kind, ...base, point: record.point, result: record.result }
    default:
      return undefined
  }
}
