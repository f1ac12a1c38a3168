/** Turns log entries into events. Each watcher has its own fold for the status of agents. */
import { OWN_WORK } from '../../actors/definition/role.ts'
import type { AgentStatus } from '../../actors/definition/task.ts'
import { type Directory, decodeMessage, isCopy, isMessage } from '../../mailbox/codec.ts'
import type { Memory } from '../../mailbox/frame.ts'
import * as frame from '../../mailbox/frame.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { busiest } from '../host/directory.ts'
import { SpeakerFold } from '../host/handed-answers.ts'
import { toolEventOf } from '../log/host-frames.ts'
import {
  type FrameBlock,
  fieldsOf,
  type HostRecord,
  type LogEntry,
  picked,
  SEQ_STEP,
  toolEventFrom,
  type Whose,
} from '../log/records.ts'
import { callIn } from '../verbs/approvals.ts'
import type { AlarmEvent, RuntimeEvent } from './events.ts'
import type { MultiAgentResult } from './result.ts'

/*
 * Status of each agent over time, for readers of events. It is folded from records that the log has anyway. It costs
 * the agents nothing: a turn writes no extra record, and without a reader nothing is folded.
 */

/** Number of interrupted turns that are remembered, in case they are redelivered. */
const CUT_OFF = 1_024
/**
 * Number among the waits for a writer that waits for its reader. Such a wait is no request and has no number of its
 * own. It ends with the thread.
 */
const READER = 0

interface Doing {
  /** Instance whose thread runs the turn; undefined if the turn did something before it was announced. */
  instance: number | undefined
  /**
   * True if the turn runs beside the other open turns. Otherwise the turn that began last is at work: it has overtaken
   * the others.
   */
  beside: boolean
  open: boolean
  /**
   * Numbers of the turn's unanswered requests to others, or to the host. They survive the exit of the thread that
   * asked.
   */
  readonly waits: Set<number>
}

interface Agent {
  readonly name: string
  /** Status of each instance's thread: 'idle' while it runs. */
  readonly lives: AgentStatus[]
  epoch: number | undefined
  readonly turns: Map<number, Doing>
  told: AgentStatus | undefined
}

/** Change of an agent's status. `epoch` is undefined if the log does not have it. */
export interface StatusChange {
  agent: string
  index: number
  status: AgentStatus
  epoch: number | undefined
}

export class StatusFold {
  readonly speakers: SpeakerFold
  readonly #name: (index: number) => string
  /** Agents by index: two runs may have agents of the same name. */
  readonly #agents = new Map<number, Agent>()

  constructor(name: (index: number) => string) {
    this.#name = name
    this.speakers = new SpeakerFold(name)
  }

  lives(
    { index, agent: name, instance = 0, epoch }: Whose & { epoch: number },
    status: AgentStatus,
  ): StatusChange | undefined {
    const agent = this.#agent(index, name)
    agent.lives[instance] = status
    agent.epoch = epoch
    for (const turn of agent.turns.values()) {
      if ((turn.instance ?? instance) !== instance) continue
      turn.open = false
      turn.waits.delete(READER)
    }
    return this.#change(index, agent)
  }

  begins({
    index,
    agent: name,
    instance = 0,
    turn,
    beside,
  }: Whose & { turn: number; beside: boolean }): StatusChange | undefined {
    if (isRuntimes(name)) return undefined
    const agent = this.#agent(index, name)
    const { turns } = agent
    const waits = turns.get(turn)?.waits ?? new Set()
    turns.delete(turn) // moves it to the end
    turns.set(turn, { instance, beside, open: true, waits })
    if (turns.size > CUT_OFF) for (const [other, { open }] of turns) if (!open) turns.delete(other)
    return this.#change(index, agent)
  }

  /** Reads a frame. Returns the changes that follow from it, in their order. */
  frame(memory: Memory, at: number): (StatusChange | undefined)[] {
    return [this.beginsUnannounced(memory, at), this.ofSender(memory, at), this.ofRecipient(memory, at)]
  }

  /** Notes the beginning of a turn that was not announced, from its end. */
  beginsUnannounced(memory: Memory, at: number): StatusChange | undefined {
    if (frame.kindOf(memory, at) !== frame.END || frame.flagsOf(memory, at) & frame.ANNOUNCED) return undefined
    const index = frame.senderOf(memory, at)
    return this.begins({ index, agent: this.#name(index), turn: frame.turnOf(memory, at), beside: true })
  }

  ofSender(memory: Memory, at: number): StatusChange | undefined {
    const index = frame.senderOf(memory, at)
    const name = this.#name(index)
    const kind = frame.kindOf(memory, at)
    const correlation = frame.correlationOf(memory, at)
    if (isRuntimes(name)) return undefined
    const turn = frame.turnOf(memory, at)
    if (kind === frame.END) {
      const agent = this.#agent(index, name)
      agent.turns.delete(turn)
      return this.#change(index, agent)
    }
    const asks = kind === frame.REQUEST || kind === frame.SEND || (kind === frame.CALL && !isOwnWork(memory, at))
    const reads = kind === frame.STREAM_WAIT
    if (!(asks && correlation > 0) && kind !== frame.CANCEL && !reads) return undefined // negative: the host's own calls
    const agent = this.#agent(index, name)
    if (kind === frame.CANCEL) settle(agent, correlation)
    else if (reads && frame.limitOf(memory, at) === 0) agent.turns.get(turn)?.waits.delete(READER)
    else turnIn(agent, turn).waits.add(correlation)
    return this.#change(index, agent)
  }

  /** Updates the status of the agent that waited for an answer. */
  ofRecipient(memory: Memory, at: number): StatusChange | undefined {
    if (!ANSWERS.has(frame.kindOf(memory, at))) return undefined
    const index = frame.recipientOf(memory, at)
    const agent = this.#agents.get(index)
    return agent && settle(agent, frame.correlationOf(memory, at)) ? this.#change(index, agent) : undefined
  }

  /** Returns the agent at an index. The index of a run agent is reused after its run is over. */
  #agent(index: number, name: string): Agent {
    let agent = this.#agents.get(index)
    if (agent?.name !== name) {
      agent = { name, lives: ['idle'], epoch: undefined, turns: new Map(), told: undefined }
      this.#agents.set(index, agent)
    }
    return agent
  }

  #change(index: number, agent: Agent): StatusChange | undefined {
    const status = statusOf(agent)
    if (status === agent.told) return undefined
    agent.told = status
    return { agent: agent.name, index, status, epoch: agent.epoch }
  }
}

export function statusAfter(record: HostRecord, fold: StatusFold): StatusChange | undefined {
  switch (record.kind) {
    case 'agent.status':
      return fold.lives(record, record.status)
    case 'agent.ready':
      return fold.lives(record, 'idle')
    case 'turn.started':
      return fold.begins(record)
    default:
      return undefined
  }
}

const isOwnWork = (memory: Memory, at: number) => OWN_WORK.has(frame.readBody(memory, at).content)

function turnIn({ turns }: Agent, turn: number): Doing {
  const known = turns.get(turn)
  if (known) return known
  const doing: Doing = { instance: undefined, beside: false, open: true, waits: new Set() }
  turns.set(turn, doing)
  return doing
}

/** Ends a wait; false: there is no such wait. */
function settle({ turns }: Agent, correlation: number): boolean {
  if (correlation === READER) return false
  for (const { waits } of turns.values()) if (waits.delete(correlation)) return true
  return false
}

const ANSWERS: ReadonlySet<number> = new Set([frame.END, frame.RESPONSE, frame.RESULT, frame.ACCEPTED, frame.REFUSED])

/** Checks for a name of the runtime. The script has many turns at a time, and the caller has none. */
const isRuntimes = (agent: string) => agent.startsWith('$')

function statusOf({ lives, turns }: Agent): AgentStatus {
  const life = busiest(lives)
  const open = [...turns.values()].filter((turn) => turn.open)
  const last = open.at(-1)
  if (life !== 'idle' || !last) return life
  const working = last.beside ? open.some(({ waits }) => waits.size === 0) : last.waits.size === 0
  return working ? 'running' : 'waiting'
}

/** Source of names and run ids by index, of epochs, and of the result of a finished run. */
export interface EventSource extends Directory {
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
  const speaker = fold.speakers.record(entry)
  if (speaker) yield { type: 'speaker', seq: entry.seq + 2, at: entry.at, runId: source.runId(entry.run), ...speaker }
}

/** Updates the fold with an entry whose events are not needed. */
export function passOver(entry: LogEntry, fold: StatusFold): void {
  if (entry.kind !== 'frames') {
    statusAfter(entry, fold)
    fold.speakers.record(entry)
    return
  }
  for (let at = entry.from; at < entry.to; at += frame.lengthOf(entry.memory, at)) {
    fold.frame(entry.memory, at)
    fold.speakers.frame(entry.memory, at, entry.run)
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
  for (let at = block.from; at < block.to; at += frame.lengthOf(memory, at), seq += SEQ_STEP) {
    const kind = frame.kindOf(memory, at)
    const agent = source.name(frame.senderOf(memory, at))
    const turn = { agent, messageId: frame.idOf(memory, at), attempt: frame.attemptOf(memory, at), runId }
    if (kind === frame.END && !(frame.flagsOf(memory, at) & frame.ANNOUNCED))
      yield { type: 'turn.started', seq, at: frame.startedOf(memory, at), ...turn }
    const begins = fold.beginsUnannounced(memory, at)
    if (begins) yield statusEvent(begins, seq + 1, frame.startedOf(memory, at), runId, source)
    if (isMessage(memory, at) && !isCopy(memory, at))
      yield { type: 'message', seq: seq + 2, at: block.at, runId, message: decodeMessage(memory, at, source) }
    const speaker = fold.speakers.frame(memory, at, block.run)
    if (speaker) yield { type: 'speaker', seq: seq + 3, at: block.at, runId, ...speaker }
    const tool = toolEventOf(memory, at, agent)
    if (tool) yield { ...tool, seq: seq + 2, at: frame.timeOf(memory, at), runId }
    if (kind === frame.END) yield { type: 'turn.finished', seq: seq + 3, at: frame.timeOf(memory, at), ...turn }
    const sender = fold.ofSender(memory, at)
    if (sender) yield statusEvent(sender, seq + 4, frame.timeOf(memory, at), runId, source)
    const recipient = fold.ofRecipient(memory, at)
    if (recipient) yield statusEvent(recipient, seq + 5, block.at, runId, source)
    if (kind === frame.CHUNK && frame.senderOf(memory, at) !== 0)
      // what the host streams to a turn is not for others
      yield {
        type: 'output.delta',
        seq: seq + 6,
        at: block.at,
        runId,
        agent,
        messageId: frame.idOf(memory, at),
        chunk: frame.readBody(memory, at).content,
        final: agent === ORCHESTRATOR,
      }
  }
}

/** Returns the event of a record; undefined for one that is for the trace alone. */
export function recordEvent(record: HostRecord, source: EventSource): RuntimeEvent<unknown> | undefined {
  const base = { seq: record.seq, at: record.at, runId: source.runId(record.run) }
  switch (record.kind) {
    case 'run.finished': {
      const result = source.resultOf(base.runId)
      return result && { type: record.kind, ...base, result }
    }
    case 'model.called': {
      const { agent, messageId = '', model, usage, durationMs, rehearsed, error } = record
      const more = { ...picked(record, ['money', 'tenant']), durationMs, rehearsed, error }
      return { type: record.kind, ...base, agent, messageId, model, usage: { ...usage }, ...more }
    }
    case 'model.piece': {
      const { agent, messageId, callId, round, answerOf, part, text } = record
      const ofTool = picked(record, ['toolCallId', 'tool'])
      return { type: 'model.delta', ...base, agent, messageId, callId, round, answerOf, part, text, ...ofTool }
    }
    case 'question': {
      const { agent, questionId, ask, text, choices } = record
      const more = { ...(choices && { choices }), ...callIn(record), ...picked(record, ['form', 'digest', 'answerBy']) }
      return { type: record.kind, ...base, agent, questionId, kind: ask, text, ...more }
    }
    case 'answer': {
      const { kind: _, seq: __, at, run: ___, by, agreed, ...given } = record
      const people = agreed ?? (by === undefined ? [] : [{ id: by, at }])
      return { type: 'question.closed', ...base, ...given, how: 'answered', by: people }
    }
    case 'alarm': {
      const { name: type, sentence, fields } = record
      return { type, ...base, ...fields, sentence } as AlarmEvent
    }
    case 'tool.started':
    case 'tool.finished':
    case 'tool.progress':
      return { ...toolEventFrom(record), ...base }
    default: {
      const fields = fieldsOf(record, 'event')
      return fields && ({ type: record.kind, ...base, ...fields } as RuntimeEvent<unknown>)
    }
  }
}
