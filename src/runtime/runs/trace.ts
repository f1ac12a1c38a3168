/** Trace and history of a run: folds over its log. */

import type { SyncResult } from '../../actors/definition/context.ts'
import {
  actingRecipient,
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
import type { Memory } from '../../mailbox/frame.ts'
import * as frame from '../../mailbox/frame.ts'
import { type MessageType, ORCHESTRATOR, RUNTIME, type TypedMessage, USER } from '../../mailbox/message.ts'
import { own } from '../../shared/values.ts'
import type { RunState } from '../host/run.ts'
import { toolEventOf } from '../log/host-frames.ts'
import { fieldsOf, type HostRecord, toolDetails, toolEventFrom } from '../log/records.ts'
import { framesOf, type RunLog } from '../log/run-log.ts'

type TraceEvent = OrchestrationTrace['events'][number]
type Row = { from: string; arrow: string; to: string; text: string } | { over: readonly string[]; text: string }

const MOST_ROWS = 500 // a larger diagram is not readable
const LONGEST_TEXT = 48_000 // Mermaid refuses 50,000 characters
const ROW_FRAME = 24 // most characters of a row beside its text
const LONGEST_LABEL = 120

const ARROWS: Record<MessageType, string> = {
  request: '->>',
  delegate: '->>',
  response: '-->>',
  broadcast: '-)',
  publish: '-)',
  subscribe: '-)',
  report: '-)',
}

/**
 * Returns a Mermaid sequence diagram of a run, as text. Messages are arrows: `->>` asks, `-->>` answers, `-)` waits for
 * no answer. Notes show crashes, restarts, dead letters, decisions, sync points, the steps of handoffs, deadlocks,
 * livelocks, stalls and steps answered from the log. All is in the order of time. Beyond 500 rows, or what Mermaid
 * takes, a note says how many rows are left out.
 *
 * @example
 * await writeFile('run.mmd', sequenceDiagram(result.orchestrationTrace))
 */
export function sequenceDiagram(trace: OrchestrationTrace): string {
  const rows = rowsOf(trace)
  if (rows.length === 0) rows.push({ over: [USER], text: 'nothing happened' })
  const aliases = new Map<string, string>()
  // A name can be a keyword of Mermaid, like "end"; an alias never is.
  const alias = (name: string) => {
    const known = aliases.get(name) ?? `p${aliases.size}`
    aliases.set(name, known)
    return known
  }
  const lines: string[] = []
  let size = 0
  for (const row of rows.slice(0, MOST_ROWS)) {
    const text = label(row.text)
    const names = 'over' in row ? row.over : [row.from, row.to]
    size += ROW_FRAME + text.length
    for (const name of names) if (!aliases.has(name)) size += ROW_FRAME + label(name).length
    if (size > LONGEST_TEXT) break
    const shorts = names.map(alias)
    lines.push(
      'over' in row ? `Note over ${span(shorts, aliases)}: ${text}` : `${shorts[0]}${row.arrow}${shorts[1]}: ${text}`,
    )
  }
  const leftOut = rows.length - lines.length
  if (leftOut > 0) {
    const all = aliases.size > 1 ? `p0,p${aliases.size - 1}` : 'p0'
    lines.push(`Note over ${all}: ${leftOut} more rows are left out`)
  }
  const participants = [...aliases].map(([name, short]) => `participant ${short} as ${label(name)}`)
  return `sequenceDiagram\n${[...participants, ...lines].map((line) => `  ${line}\n`).join('')}`
}

/**
 * Merges the three lists by time. Each list keeps its own order, since many entries share a millisecond. An event about
 * a message comes after that message, and before anything else that was sent at that time.
 */
function rowsOf({ messageFlow, events: all, decisions }: OrchestrationTrace): Row[] {
  const events = all.filter(({ eventType }) => eventType !== 'message') // arrows show them
  const rows: Row[] = []
  const unsent = new Set(messageFlow.map(({ messageId }) => messageId))
  const crashed = new Set<string>()
  for (let m = 0, e = 0, d = 0; ; ) {
    const flow = messageFlow[m]
    const event = events[e]
    const decision = decisions[d]
    const next = Math.min(flow?.at ?? Infinity, event?.timestamp ?? Infinity, decision?.timestamp ?? Infinity)
    const due = event?.timestamp === next
    const early = due && unsent.has(textOf(event.details, 'messageId') ?? '')
    if (due && !early) {
      const text = noteOn(event, crashed)
      if (text !== undefined) rows.push({ over: placeOf(event), text })
      e += 1
    } else if (flow && (flow.at === next || early)) {
      const { from, to, type } = flow
      rows.push({ from, arrow: ARROWS[type], to, text: type })
      unsent.delete(flow.messageId)
      m += 1
    } else if (decision) {
      const { question, choice, reason } = decision
      rows.push({
        over: [ORCHESTRATOR],
        text: `decision: ${question}: ${choice}${reason === '' ? '' : ` (${reason})`}`,
      })
      d += 1
    } else return rows
  }
}

/** Event types that concern several agents, with the field that has their names. */
const PARTIES: Readonly<Record<string, string>> = { sync: 'arrived' }

/** Returns the participants that an event's note stands over: the agents that met, or the agent of the event. */
function placeOf({ eventType, agent, details }: TraceEvent): readonly string[] {
  const met = textsOf(details, own(PARTIES, eventType) ?? 'agents')
  return met.length > 0 ? met : [agent ?? textOf(details, 'to') ?? RUNTIME]
}

/** Returns the range of a note. A note can stand over two participants and all between them. */
function span(shorts: readonly string[], aliases: ReadonlyMap<string, string>): string {
  const inOrder = [...aliases.values()].filter((short) => shorts.includes(short))
  return [...new Set([inOrder[0], inOrder.at(-1)])].join()
}

/** Returns the note for an event; undefined for most events, which add nothing to the arrows. */
function noteOn({ eventType, agent, details }: TraceEvent, crashed: Set<string>): string | undefined {
  switch (eventType) {
    case 'agent.crashed': {
      if (agent !== null) crashed.add(agent)
      const why = textOf(inside(details, 'error'), 'message')
      return why === undefined ? 'crashed' : `crashed: ${why}`
    }
    case 'agent.ready': // the first start needs no note
      return agent !== null && crashed.has(agent) ? 'ready again' : undefined
    case 'agent.reloaded':
      return 'runs newly loaded code'
    case 'message.dead':
      return `dead letter from ${textOf(details, 'from') ?? 'nobody'}: ${textOf(details, 'reason') ?? 'no reason'}`
    case 'step.replayed':
      return `step ${textOf(details, 'step') ?? 'without a name'} answered from the log`
    case 'sync': {
      const missing = textsOf(details, 'missing')
      const without = missing.length === 0 ? '' : ` without ${missing.join(', ')}`
      return `sync point ${textOf(details, 'point') ?? 'without a name'}${without}`
    }
    case 'handoff':
      return `handoff from ${textOf(details, 'from')} to ${textOf(details, 'to')}: ${textOf(details, 'step')}`
    case 'log.forgotten':
      return 'what came before is no longer in the log'
    default: {
      const sentence = textOf(details, 'sentence') // the alarm of a detector
      return sentence === undefined ? undefined : `${eventType}: ${sentence.replaceAll(' -> ', ' → ')}`
    }
  }
}

function inside(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  const found: unknown = Reflect.get(value, key)
  return found
}

function textOf(value: unknown, key: string): string | undefined {
  const found = inside(value, key)
  return typeof found === 'string' ? found : undefined
}

function textsOf(value: unknown, key: string): string[] {
  const found = inside(value, key)
  return Array.isArray(found) ? found.filter((each) => typeof each === 'string') : []
}

/**
 * Makes a label that Mermaid takes as text: ; and # end it, %% begins a comment or a directive, < and > become HTML.
 */
function label(text: string): string {
  const plain = text
    .replaceAll('<', '‹')
    .replaceAll('>', '›')
    .replaceAll(/%{2,}/g, '%')
    .replaceAll(/[;#\s\p{Cc}]+/gu, ' ')
    .trim()
  if (plain === '') return '(no name)'
  const letters = [...plain]
  return letters.length > LONGEST_LABEL ? `${letters.slice(0, LONGEST_LABEL - 1).join('')}…` : plain
}

/** Trace of one run, in the order of the log. All times are epoch ms. */
export interface OrchestrationTrace {
  /**
   * Events: messages (`message`, once each, with its sender as `agent`), turns, steps, crashes, restarts, dead
   * letters. `agent` is null if an event belongs to no agent.
   */
  events: { timestamp: number; eventType: string; agent: string | null; details: object }[]
  /** Decisions of the protocol script, with the reasons. */
  decisions: { timestamp: number; question: string; choice: string; reason: string }[]
  /** Turns: the times at which an agent had a message. */
  agentActivations: { agent: string; startedAt: number; endedAt: number; messageId: string }[]
  /** All messages, once for each recipient. */
  messageFlow: { from: string; to: string; messageId: string; type: MessageType; at: number }[]
  /** Names of the sync points at which all agents arrived, each once; `events` has every generation (`sync`). */
  syncPointsReached: string[]
}

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
    for (let at = from; at < to; at += frame.lengthOf(memory, at)) collect(messages, memory, at, directory, agent)
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
      : (isItself && (actingSender(memory, at) ?? directory.name(frame.senderOf(memory, at))) === agent) ||
        (!isHead(memory, at) && (actingRecipient(memory, at) ?? addresseeOf(memory, at, directory)) === agent)
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
    else for (let at = entry.from; at < entry.to; at += frame.lengthOf(entry.memory, at)) fold.frame(entry.memory, at)
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
    const kind = frame.kindOf(memory, at)
    const agent = this.#directory.name(frame.senderOf(memory, at))
    const messageId = frame.idOf(memory, at)
    if (isMessage(memory, at) && !isHead(memory, at)) this.#message(memory, at, kind, agent)
    if (kind !== frame.END) this.#sent(memory, at)
    const tool = toolEventOf(memory, at, agent)
    if (tool) return this.#event(frame.timeOf(memory, at), tool.type, agent, toolDetails(tool))
    if (kind === frame.END) this.#end(memory, at, agent, messageId)
    else if (kind === frame.STEP_BEGAN || kind === frame.STEP_DONE || kind === frame.REPLAYED) {
      const eventType =
        kind === frame.STEP_BEGAN ? 'step.began' : kind === frame.STEP_DONE ? 'step.finished' : 'step.replayed'
      this.#event(frame.timeOf(memory, at), eventType, agent, {
        step: frame.readBody(memory, at).content,
        attempt: frame.attemptOf(memory, at),
        messageId,
        ...(kind === frame.STEP_DONE && isFailure(memory, at) && { failed: true }),
      })
    } else if (kind === frame.CHUNK && frame.senderOf(memory, at) !== 0)
      this.#event(frame.timeOf(memory, at), 'output.delta', agent, {
        messageId,
        length: frame.readBody(memory, at).content.length,
      })
  }

  #message(memory: Memory, at: number, kind: number, from: string): void {
    const response = kind === frame.END || kind === frame.RESPONSE
    const to = response
      ? (actingRecipient(memory, at) ?? this.#directory.name(frame.recipientOf(memory, at)))
      : addresseeOf(memory, at, this.#directory)
    this.#trace.messageFlow.push({
      from: actingSender(memory, at) ?? from,
      to,
      messageId: messageIdOf(memory, at),
      type: response ? 'response' : frame.typeOf(memory, at),
      at: frame.timeOf(memory, at),
    })
  }

  /** Adds the event of a message, if the frame is one: once, however many recipients it has. */
  #sent(memory: Memory, at: number): void {
    if (!isMessage(memory, at) || isCopy(memory, at)) return
    const message = new ReceivedMessage(memory, at, frame.readId(memory, at), this.#directory)
    const { id: messageId, type, sender, recipient: to } = message
    this.#event(frame.timeOf(memory, at), 'message', sender, { messageId, type, to })
  }

  #end(memory: Memory, at: number, agent: string, messageId: string): void {
    const startedAt = frame.startedOf(memory, at)
    const endedAt = frame.timeOf(memory, at)
    const attempt = frame.attemptOf(memory, at)
    if (!(frame.flagsOf(memory, at) & frame.ANNOUNCED))
      this.#event(startedAt, 'turn.started', agent, { messageId, attempt })
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
    case 'model.called': {
      const { turn: _turn, ...called } = { turn: 0, ...rest }
      return { ...called, error: record.error?.toJSON() ?? null }
    }
    case 'model.piece': {
      const { agent, messageId, callId, round, part, text } = record
      return { agent, messageId, callId, round, part, length: text.length }
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
      return fieldsOf(record, 'details') ?? rest
  }
}
