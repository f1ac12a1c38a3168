/** Trace and history of a run: folds over its log. */
import type { SyncResult } from '../../actors/definition/context/context.ts'
import {
  actingSender,
  addresseeOf,
  type Directory,
  decodeMessage,
  isCopy,
  isFailure,
  isHead,
  isMessage,
  messageIdOf,
  ReceivedMessage,
} from '../../mailbox/codec.ts'
import {
  ANNOUNCED,
  attemptOf,
  CHUNK,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  REPLAYED,
  RESPONSE,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  startedOf,
  timeOf,
  typeOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf, readId } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { RUNTIME, type TypedMessage } from '../../mailbox/message.ts'
import type { HostRecord } from '../log/records.ts'
import { framesOf, type RunLog } from '../log/run-log.ts'
import { toolDetails, toolEventFrom } from '../log/tool-event.ts'
import { toolEventOf } from '../log/tool-frames.ts'
import type { RunState } from '../state/run-state.ts'
import type { OrchestrationTrace } from './trace-types.ts'

type Trace = OrchestrationTrace
type Activation = Trace['agentActivations'][number]

/**
 * Returns all messages of the run that the log still has, in order. If the log has lost some, a report of the runtime
 * comes first.
 */
export function historyOf(log: RunLog, directory: Directory, until?: number): TypedMessage[] {
  const messages: TypedMessage[] = log.forgotten > 0 ? [forgotten(log, directory)] : []
  for (const [memory, at] of framesOf(log, until)) collect(messages, memory, at, directory)
  return messages
}

/**
 * Returns the messages of several runs, in the order in which the team has logged them. `agent`: only those that it has
 * sent or got.
 */
export function jointHistory(
  runs: readonly RunState[],
  directoryOf: (run: RunState) => Directory,
  agent?: string,
): TypedMessage[] {
  const messages: TypedMessage[] = []
  const entries = runs.flatMap((run) => {
    const directory = directoryOf(run)
    if (run.log.forgotten > 0) messages.push(forgotten(run.log, directory))
    return Array.from(run.log.entries(), (entry) => ({ entry, directory }))
  })
  for (const { entry, directory } of entries.sort((a, b) => a.entry.seq - b.entry.seq)) {
    if (entry.kind !== 'frames') continue
    const { memory, from, to } = entry
    for (let at = from; at < to; at += lengthOf(memory, at)) collect(messages, memory, at, directory, agent)
  }
  return messages
}

/** Adds the message that the frame at `at` is, if it is one; of an agent, the copies that it has got. */
function collect(messages: TypedMessage[], memory: Memory, at: number, directory: Directory, agent?: string): void {
  if (!isMessage(memory, at)) return
  const isItself = !isCopy(memory, at)
  const isWanted =
    agent === undefined
      ? isItself
      : (isItself && (actingSender(memory, at) ?? directory.name(senderOf(memory, at))) === agent) ||
        (!isHead(memory, at) && addresseeOf(memory, at, directory) === agent)
  if (isWanted) messages.push(decodeMessage(memory, at, directory))
}

function forgotten(log: RunLog, directory: Directory): TypedMessage {
  const first = log.oldest
  return {
    id: 'log.forgotten',
    type: 'report',
    sender: RUNTIME,
    recipient: null,
    content: `What came before is no longer in the log: it is full, and gave its oldest ${log.forgotten} entries up.`,
    structuredData: { entries: log.forgotten },
    priority: 0,
    requiresResponse: false,
    responseTimeoutMs: null,
    threadId: null,
    metadata: {},
    runId: directory.runId(first?.run ?? 0),
    correlationId: null,
    sentAt: first?.at ?? 0,
  }
}

export function traceOf(log: RunLog, directory: Directory, until?: number): OrchestrationTrace {
  const trace: Trace = { events: [], decisions: [], agentActivations: [], messageFlow: [], syncPointsReached: [] }
  const fold = new TraceFold(trace, directory)
  if (log.forgotten > 0)
    trace.events.push({ timestamp: 0, eventType: 'log.forgotten', agent: null, details: { entries: log.forgotten } })
  for (const entry of log.entries(-1, until)) {
    if (entry.kind !== 'frames') fold.record(entry)
    else for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) fold.frame(entry.memory, at)
  }
  return trace
}

class TraceFold {
  readonly #trace: Trace
  readonly #directory: Directory
  /** Turns that have begun and not ended. They are cut off if their agent crashes. */
  readonly #open = new Map<string, { instance: number; turn: Activation }>()
  /** Turns that were open when the run ended: their own end may follow. */
  readonly #outlasting = new Map<string, Activation>()

  constructor(trace: Trace, directory: Directory) {
    this.#trace = trace
    this.#directory = directory
  }

  frame(memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    const agent = this.#directory.name(senderOf(memory, at))
    const messageId = idOf(memory, at)
    if (isMessage(memory, at) && !isHead(memory, at)) this.#message(memory, at, kind, agent)
    if (kind !== END) this.#sent(memory, at)
    const tool = toolEventOf(memory, at, agent)
    if (tool) return this.#event(timeOf(memory, at), tool.type, agent, toolDetails(tool))
    if (kind === END) this.#end(memory, at, agent, messageId)
    else if (kind === STEP_BEGAN || kind === STEP_DONE || kind === REPLAYED) {
      const eventType = kind === STEP_BEGAN ? 'step.began' : kind === STEP_DONE ? 'step.finished' : 'step.replayed'
      this.#event(timeOf(memory, at), eventType, agent, {
        step: readBody(memory, at).content,
        attempt: attemptOf(memory, at),
        messageId,
        ...(kind === STEP_DONE && isFailure(memory, at) && { failed: true }),
      })
    } else if (kind === CHUNK && senderOf(memory, at) !== 0)
      this.#event(timeOf(memory, at), 'output.delta', agent, { messageId, length: readBody(memory, at).content.length })
  }

  #message(memory: Memory, at: number, kind: number, from: string): void {
    const response = kind === END || kind === RESPONSE
    const to = response ? this.#directory.name(recipientOf(memory, at)) : addresseeOf(memory, at, this.#directory)
    this.#trace.messageFlow.push({
      from: actingSender(memory, at) ?? from,
      to,
      messageId: messageIdOf(memory, at),
      type: response ? 'response' : typeOf(memory, at),
      at: timeOf(memory, at),
    })
  }

  /** Adds the event of a message, if the frame is one: once, however many recipients it has. */
  #sent(memory: Memory, at: number): void {
    if (!isMessage(memory, at) || isCopy(memory, at)) return
    const message = new ReceivedMessage(memory, at, readId(memory, at), this.#directory)
    const { id: messageId, type, sender, recipient: to } = message
    this.#event(timeOf(memory, at), 'message', sender, { messageId, type, to })
  }

  #end(memory: Memory, at: number, agent: string, messageId: string): void {
    const startedAt = startedOf(memory, at)
    const endedAt = timeOf(memory, at)
    const attempt = attemptOf(memory, at)
    if (!(flagsOf(memory, at) & ANNOUNCED)) this.#event(startedAt, 'turn.started', agent, { messageId, attempt })
    const key = agent + messageId
    const known = this.#outlasting.get(key)
    this.#open.delete(key)
    if (known) known.endedAt = endedAt
    else this.#trace.agentActivations.push({ agent, startedAt, endedAt, messageId })
    this.#sent(memory, at)
    this.#event(endedAt, 'turn.finished', agent, { messageId, attempt, ...(isFailure(memory, at) && { failed: true }) })
  }

  record(record: HostRecord): void {
    const { kind: _kind, seq: _seq, at, run: _run, ...fields } = record
    const { index: _index, ...rest } = { index: 0, ...fields } // people know agents by name
    switch (record.kind) {
      case 'turn.started':
        this.#outlasting.delete(record.agent + record.messageId) // the next attempt is a turn of its own
        this.#open.set(record.agent + record.messageId, {
          instance: record.instance ?? 0,
          turn: { agent: record.agent, startedAt: at, endedAt: at, messageId: record.messageId },
        })
        break
      case 'agent.exited':
        this.#cutOff(at, record)
        return
      case 'run.finished':
        this.#cutOff(at)
        break
      case 'decision':
        this.#trace.decisions.push({
          timestamp: at,
          question: record.question,
          choice: record.choice,
          reason: record.reason,
        })
        break
      case 'sync':
        this.#reached(record)
        break
    }
    const agent = 'agent' in record ? record.agent : null
    this.#event(at, eventTypeOf(record), agent, detailsOf(record, rest))
  }

  /** Notes that a sync point was reached: each point once, however often the agents met there. */
  #reached({ point, result }: { point: string; result: SyncResult }): void {
    const { syncPointsReached } = this.#trace
    if (!result.timedOut && !syncPointsReached.includes(point)) syncPointsReached.push(point)
  }

  /**
   * Ends the open turns of a dead agent, or of all agents. They count until then, though they did not end in a commit.
   */
  #cutOff(endedAt: number, dead?: { agent: string; instance?: number }): void {
    for (const [key, { instance, turn }] of this.#open) {
      if (dead && (turn.agent !== dead.agent || instance !== (dead.instance ?? 0))) continue
      const activation = { ...turn, endedAt }
      this.#trace.agentActivations.push(activation)
      if (!dead) this.#outlasting.set(key, activation)
      this.#open.delete(key)
    }
  }

  #event(timestamp: number, eventType: string, agent: string | null, details: object): void {
    this.#trace.events.push({ timestamp, eventType, agent, details })
  }
}

/** Returns the name of a record as its event has it. */
function eventTypeOf(record: HostRecord): string {
  if (record.kind === 'alarm') return record.name
  return record.kind === 'model.piece' ? 'model.delta' : record.kind
}

/**
 * Returns the details of a record as data. Errors become their fields. Dead letters, entries and data from agents are
 * shortened to the fields that identify them.
 */
function detailsOf(record: HostRecord, rest: object): object {
  switch (record.kind) {
    case 'message.dead': {
      const { id, reason, errors, message } = record.letter
      return { id, reason, from: message.sender, to: message.recipient, errors: errors.map((error) => error.toJSON()) }
    }
    case 'alarm': {
      const { agents, sentence, fields, details } = record
      return { agents, ...fields, ...details, sentence }
    }
    case 'blackboard': {
      const { key, author, version, entryType, confidence } = record.entry
      return { key, author, version, entryType, confidence }
    }
    case 'sync': {
      const { data: _data, ...result } = record.result
      return { point: record.point, ...result }
    }
    case 'handoff': {
      const { agent, step, from, to, messageId, summary } = record
      return { agent, step, from, to, messageId, ...(summary !== undefined && { summary }) }
    }
    case 'reassignment': {
      const { agent, step, from, to, messageId } = record
      return { agent, step, from, to, messageId }
    }
    case 'model.called': {
      const { turn: _turn, ...called } = { turn: 0, ...rest }
      return { ...called, error: record.error?.toJSON() ?? null }
    }
    case 'model.piece': {
      const { agent, messageId, callId, round, part, text } = record
      return { agent, messageId, callId, round, part, length: text.length }
    }
    case 'turn.started': {
      const { agent, instance, messageId, attempt } = record
      return { agent, ...(instance !== undefined && { instance }), messageId, attempt }
    }
    case 'tool.started':
    case 'tool.finished':
    case 'tool.progress':
      return toolDetails(toolEventFrom(record))
    case 'run.finished': {
      const { boardRevision, error } = record
      return { ...(boardRevision !== undefined && { boardRevision }), error: error?.toJSON() ?? null }
    }
    case 'agent.crashed':
    case 'step.mismatch':
    case 'turn.retried':
    case 'escalated':
      return { ...rest, error: record.error?.toJSON() ?? null }
    default:
      return rest
  }
}
