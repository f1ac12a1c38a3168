/**
 * Turns log entries into events, for people and programs that watch. Each watcher has its own fold for the status of
 * agents.
 */
import type { ApprovedCall } from '../../actors/definition/approval.ts'
import type { SyncResult } from '../../actors/definition/context/context.ts'
import type { TokenUsage } from '../../actors/definition/model.ts'
import type { AgentStatus, AgentTask, TaskStatus } from '../../actors/definition/task.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import type { DramatisError } from '../../errors.ts'
import { type Directory, decodeMessage, isCopy, isMessage } from '../../mailbox/codec.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
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
import { ORCHESTRATOR, type TypedMessage } from '../../mailbox/message.ts'
import type { AlarmFields } from '../log/alarms.ts'
import type { FrameBlock, GuardrailDecided, HandoffStep, HostRecord, LogEntry, OfWatchedCall } from '../log/records.ts'
import { SEQ_STEP } from '../log/records.ts'
import { type ToolFinished, type ToolProgress, type ToolStarted, toolEventFrom } from '../log/tool-event.ts'
import { toolEventOf } from '../log/tool-frames.ts'
import { type StatusChange, type StatusFold, statusAfter } from './agent-status.ts'
import type { MultiAgentResult } from './result.ts'

type Event<Type extends string, Fields = object> = { type: Type; seq: number; at: number; runId: string } & Fields

/**
 * Event of a team or a run. `seq` ascends; `at` is epoch ms; `runId` is empty for an event that belongs to no run. When
 * a team with a durable log is closed or loses it, `run.events()` gives the events that the log does not have the `seq`
 * of the last entry that it has.
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
  /**
   * Only from `run.events({ after })`, first: `after` is an id of another log, such as that of an earlier process
   * without a durable log. All events of the run follow.
   */
  | Event<'reset'>
  /**
   * Only from `run.events()`: the log has given up events up to `seq` before they were read. `entries`: number of log
   * entries that these events would have come from; at most, if the reader began behind others.
   */
  | Event<'gap', { entries: number }>
  /**
   * The status of an agent has changed. In the events of a run, the status follows from what the agent does in that
   * run.
   */
  | Event<'agent.status', { agent: string; status: AgentStatus; epoch: number }>
  /**
   * The thread of that epoch has begun to take messages. `warm`: the thread was there before it was needed. `tookMs`:
   * time since its start was asked for.
   */
  | Event<'agent.ready', { agent: string; epoch: number; warm: boolean; tookMs: number }>
  /**
   * The thread of that epoch has ended. `how`: 'ended' is by itself, with exit code 0; the last three are by the host:
   * for the sake of other agents, for new code, or because the agent had nothing to do. `fault`: it counts against the
   * agent. `messageId`: message that is redelivered first.
   */
  | Event<
      'agent.exited',
      {
        agent: string
        epoch: number
        how: 'crashed' | 'ended' | 'recalled' | 'reloaded' | 'passivated'
        error: DramatisError
        fault: boolean
        messageId: string | null
      }
    >
  | Event<'agent.crashed', { agent: string; epoch: number; error: DramatisError; restartInMs: number | null }>
  /** A thread with newly loaded code has taken the place of the agent's earlier one (`reloadAgent`). */
  | Event<'agent.reloaded', { agent: string; epoch: number }>
  | Event<'turn.started' | 'turn.finished', { agent: string; messageId: string; attempt: number }>
  | Event<'message', { message: TypedMessage }>
  | Event<'message.dead', { letter: DeadLetter }>
  /** `final`: part of finalOutput, show it to the user. */
  | Event<'output.delta', { agent: string; messageId: string; chunk: string; final: boolean }>
  /**
   * Piece of a model's answer, in a run with `stream`. `callId`: the same for all pieces of a call. `round`: the round
   * of model and tools. `answerOf`: whose answer a text may be: that of the run or of the turn, or 'call' if only code
   * knows. `toolCallId` and `tool`: for a piece of a tool's input.
   */
  | Event<
      'model.delta',
      OfWatchedCall & {
        part: 'text' | 'reasoning' | 'tool_input'
        text: string
        toolCallId?: string
        tool?: string
      }
    >
  /**
   * Pieces of a call until here are void: its text, since the round ended in tool calls ('tool_calls'), or all of them,
   * since the call is made again ('retried').
   */
  | Event<'model.superseded', OfWatchedCall & { reason: 'tool_calls' | 'retried' }>
  /** A guardrail has decided. `agent`: null for the query and the answer of the run; `reason`: of a refusal. */
  | Event<'guardrail', GuardrailDecided>
  /** `error`: the reason if there was no answer. */
  | Event<
      'model.called',
      {
        agent: string
        /** Message of the turn that has called it; '' if that turn had ended. */
        messageId: string
        model: string
        usage: TokenUsage
        durationMs: number
        rehearsed: boolean
        error: DramatisError | null
      }
    >
  /**
   * Events of one tool call have the same `callId`, which is its `idempotencyKey`. A call that the exit of its thread
   * cuts off has no end event.
   */
  | Event<'tool.started', ToolStarted>
  | Event<'tool.finished', ToolFinished>
  /** Progress of a tool (`ToolContext.progress`). */
  | Event<'tool.progress', ToolProgress>
  | Event<'task', { task: AgentTask; previous: TaskStatus | null }>
  /**
   * An agent hands off its duty: the steps in their order; 'declined' takes the place of the last three. `from`, `to`:
   * the agents; `messageId`: the message whose duty it is.
   */
  | Event<
      'handoff',
      { agent: string; step: HandoffStep; from: string; to: string; messageId: string; summary?: string }
    >
  /**
   * A manager moves a task from one agent to another. `agent`: the manager; `messageId`: the message that had asked.
   */
  | Event<
      'reassignment',
      { agent: string; step: 'requested' | 'done' | 'failed'; from: string; to: string; messageId: string }
    >
  /** A redelivered turn takes another way than its log says. */
  | Event<'step.mismatch', { agent: string; messageId: string; error: DramatisError }>
  | Event<'blackboard', { entry: BlackboardEntry }>
  | Event<'decision', { question: string; choice: string; reason: string }>
  /**
   * A generation of a sync point has ended: all agents arrived, or (`timedOut`) some were missing, whatever its
   * `onTimeout` says.
   */
  | Event<'sync', { point: string; result: SyncResult }>
  /** An approval has the call of the tool that it is about. */
  | Event<
      'question',
      Partial<ApprovedCall> & {
        questionId: string
        agent: string
        kind: 'ask' | 'approval' | 'escalation'
        text: string
        choices?: string[]
      }
    >
  /**
   * A question is not open any more. 'answered': with its `answer`, and with the `input` that replaces the tool's, or
   * the `reason` against the call; 'withdrawn': nobody waits for the answer any more; 'late': its time was up.
   */
  | Event<
      'question.closed',
      {
        questionId: string
        agent: string
        how: 'answered' | 'withdrawn' | 'late'
        answer?: string
        input?: unknown
        reason?: string
      }
    >
  | AlarmEvent
  | Event<'budget', { agent: string | null; used: number; limit: number }>
  /**
   * Something of the run waits for a limit: `option` names it, and `limit` is its value, null where only a provider
   * knows it. At most once a minute for each limit; `team.waits()` has what waits now.
   */
  | Event<'limit.reached', { option: string; limit: number | null; agent: string | null }>

/** The types of events: the compiler holds the list to be whole. */
export const EVENT_TYPES = Object.keys({
  'run.started': 0,
  'run.finished': 0,
  'run.aborted': 0,
  reset: 0,
  gap: 0,
  'agent.status': 0,
  'agent.ready': 0,
  'agent.exited': 0,
  'agent.crashed': 0,
  'agent.reloaded': 0,
  'turn.started': 0,
  'turn.finished': 0,
  message: 0,
  'message.dead': 0,
  'output.delta': 0,
  'model.delta': 0,
  'model.superseded': 0,
  guardrail: 0,
  'model.called': 0,
  'tool.started': 0,
  'tool.finished': 0,
  'tool.progress': 0,
  task: 0,
  handoff: 0,
  reassignment: 0,
  'step.mismatch': 0,
  blackboard: 0,
  decision: 0,
  sync: 0,
  question: 0,
  'question.closed': 0,
  deadlock: 0,
  livelock: 0,
  stall: 0,
  budget: 0,
  'limit.reached': 0,
} satisfies Record<RuntimeEvent['type'], 0>) as readonly RuntimeEvent['type'][]

/**
 * Event of a detector: 'deadlock', 'livelock' or 'stall'. `sentence`: what it has found, in words. A livelock: agents
 * are busy without progress.
 */
type AlarmEvent = {
  [Name in keyof AlarmFields]: Event<Name, AlarmFields[Name] & { sentence: string }>
}[keyof AlarmFields]

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
      const { agent, questionId, ask, text, choices, tool, callId, input, inputSchema } = record
      const call = tool !== undefined && { tool, callId, input, inputSchema }
      return { type: record.kind, ...base, agent, questionId, kind: ask, text, ...(choices && { choices }), ...call }
    }
    case 'answer': {
      const { kind: _, seq: __, at: ___, run: ____, ...given } = record
      return { type: 'question.closed', ...base, ...given, how: 'answered' }
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
