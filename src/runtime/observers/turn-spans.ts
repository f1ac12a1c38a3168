/**
 * The turns of agents as spans, derived from the log: one per attempt, from its begin until its commit or the exit of
 * its thread. The parent is the turn that sent the message which began it; for a message of the script it is the run.
 */

import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  ANNOUNCED,
  attemptOf,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  HAS_METADATA,
  HAS_THREAD,
  idOf,
  kindOf,
  lengthOf,
  MANY,
  type Memory,
  REQUEST,
  RESULT,
  readBody,
  recipientOf,
  SEND,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  startedOf,
  stepOf,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { CancelledError, type DramatisError } from '../../shared/errors.ts'
import type { Core } from '../host/core.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { Batch, FrameBlock, HostRecord } from '../log/records.ts'
import { BoundedMap } from '../log/run-log.ts'
import type { TracePlace } from '../settings/options.ts'
import type { VerbWaiter } from '../verbs/calls.ts'
import { type Span, type Spans, toolAttributes, turnAttributes } from './spans.ts'

/** A turn over all of its attempts. */
export interface OpenTurn {
  readonly run: RunState
  readonly agent: string
  readonly index: number
  readonly messageId: string
  /** Instance of the agent whose thread executes the turn. */
  readonly instance: number | undefined
  /** True while an attempt is under way; false if the turn was cut off and may be tried again. */
  open: boolean
  /** Span of the attempt; undefined for a script, whose span is that of its run. */
  readonly span: Span | undefined
  /** Parent of the spans that the turn causes. */
  readonly place: TracePlace | undefined
  readonly tools: Map<string, Span>
}

/*
 * Tool calls as spans, wherever they run: in the host they are calls of a verb, in the agent's thread they are steps.
 */

export class ToolSpans {
  readonly #spans: Spans

  constructor(spans: Spans) {
    this.#spans = spans
  }

  /** Returns the turn whose tool call the frame may describe; undefined for a frame of another kind. */
  turnOf(memory: Memory, at: number): { index: number; number: number } | undefined {
    switch (kindOf(memory, at)) {
      case CALL:
        return { index: senderOf(memory, at), number: turnOf(memory, at) }
      case RESULT:
        return { index: recipientOf(memory, at), number: turnOf(memory, at) }
      case STEP_BEGAN:
      case STEP_DONE: // a step that is a call of a tool carries the call's id
        return flagsOf(memory, at) & HAS_THREAD
          ? { index: senderOf(memory, at), number: turnOf(memory, at) }
          : undefined
      default:
        return undefined
    }
  }

  /** Starts or ends the span that the frame describes. `logged`: time of frames that the host wrote. */
  frame(turn: OpenTurn, memory: Memory, at: number, logged: number): void {
    switch (kindOf(memory, at)) {
      case CALL: {
        const { content, data } = readBody(memory, at)
        if (content !== 'tool') return
        const { name, callId, input } = Object(jsonIn(data)) as Record<string, unknown>
        return this.#start(turn, callKey(memory, at), timeOf(memory, at), `${name}`, `${callId}`, () =>
          JSON.stringify(input),
        )
      }
      case STEP_BEGAN: {
        const { content, data, threadId } = readBody(memory, at)
        return this.#start(turn, stepKey(memory, at), timeOf(memory, at), content, `${threadId}`, () => `${data}`)
      }
      case RESULT:
        return this.#end(turn, callKey(memory, at), logged, memory, at)
      case STEP_DONE:
        return this.#end(turn, stepKey(memory, at), timeOf(memory, at), memory, at)
    }
  }

  ofCall({ tools }: OpenTurn, correlation: number): Span | undefined {
    return tools.get(keyOfCall(correlation))
  }

  /**
   * Ends the span of a withdrawn tool call, if the frame names one. The turn no longer waits, so no result is reported.
   */
  withdrawn(turn: OpenTurn, memory: Memory, at: number, logged: number): void {
    const { agent } = turn
    this.#take(turn, callKey(memory, at))?.end(logged, new CancelledError(`"${agent}" withdrew the call.`, { agent }))
  }

  /** Ends the spans of calls that ran in the thread. Calls that the host runs for the turn continue. */
  cutOff(turn: OpenTurn, at: number, error: DramatisError): void {
    for (const key of [...turn.tools.keys()]) if (key.startsWith(STEP)) this.#take(turn, key)?.end(at, error)
  }

  #start(turn: OpenTurn, key: string, at: number, name: string, callId: string, input: () => string): void {
    const { run, agent, place: parent } = turn
    const tool = this.#spans.start({
      name: `execute_tool ${name}`,
      kind: 'internal',
      at,
      parent,
      attributes: {
        ...toolAttributes(run, agent, name, callId),
        'gen_ai.tool.call.arguments': this.#spans.content(input),
      },
    })
    turn.tools.set(key, tool)
  }

  #end(turn: OpenTurn, key: string, ended: number, memory: Memory, at: number): void {
    const span = this.#take(turn, key)
    if (!span) return
    const error = isFailure(memory, at) ? errorOf(memory, at) : undefined
    if (!error) span.set({ 'gen_ai.tool.call.result': this.#spans.content(() => readBody(memory, at).data ?? '') })
    span.end(ended, error)
  }

  #take({ tools }: OpenTurn, key: string): Span | undefined {
    const span = tools.get(key)
    tools.delete(key)
    return span
  }
}

const STEP = 'step '
const keyOfCall = (correlation: number) => `call ${correlation}`
const callKey = (memory: Memory, at: number) => keyOfCall(correlationOf(memory, at))
const stepKey = (memory: Memory, at: number) => `${STEP}${stepOf(memory, at)}`

interface Beginning {
  /** Record that reports the begin; undefined if only the end of a short turn reports it. */
  readonly record: HostRecord | undefined
  readonly at: number
  readonly messageId: string
  readonly attempt: number
  readonly instance: number | undefined
}

/** Sender of a message. `many`: the message begins several turns. */
interface Origin {
  readonly place: TracePlace | undefined
  readonly many: boolean
}

/** Maximum number of unhandled messages whose sender is remembered. For others the run is the parent. */
const MOST_ORIGINS = 65_536

export class TurnSpans {
  readonly #core: Core
  readonly #spans: Spans
  readonly #placeOfRun: (run: RunState) => TracePlace | undefined
  readonly #turns = new Map<string, OpenTurn>()
  readonly #origins = new BoundedMap<string, Origin>(MOST_ORIGINS)
  readonly #tools: ToolSpans
  /** Turn that hands off its duty. The message about it follows, and names no turn. */
  #giver: { run: number; agent: string; turn: number } | undefined

  constructor(core: Core, spans: Spans, placeOfRun: (run: RunState) => TracePlace | undefined) {
    this.#core = core
    this.#spans = spans
    this.#placeOfRun = placeOfRun
    this.#tools = new ToolSpans(spans)
  }

  /** Returns the parent of all that happens in that turn. */
  placeOf(run: RunState, index: number, turn: number): TracePlace | undefined {
    const open = this.#turns.get(keyOf(run.index, index, turn))
    return open ? open.place : this.#placeOfRun(run)
  }

  toolOf({ run, agent, turn, correlation }: VerbWaiter): Span | undefined {
    const open = this.#turns.get(keyOf(run.index, agent.index, turn))
    return open && this.#tools.ofCall(open, correlation)
  }

  next(batch: Batch): void {
    const beginnings = beginningsIn(batch)
    for (const entry of batch) {
      const run = this.#core.runs.get(entry.run)
      if (entry.kind !== 'frames') this.#record(entry, run, beginnings)
      else if (run) this.#frames(entry, run, beginnings)
    }
  }

  #frames({ memory, from, to, at: logged }: FrameBlock, run: RunState, beginnings: Beginnings): void {
    for (let at = from; at < to; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      if (kind === SEND || kind === REQUEST) this.#message(run, memory, at, beginnings)
      else if (kind === END) this.#end(run, memory, at, beginnings)
      else if (kind === CANCEL) this.#withdrawn(run, memory, at, logged)
      else {
        const turn = this.#tools.turnOf(memory, at)
        const key = turn && keyOf(run.index, turn.index, turn.number)
        const open = key && this.#begun(run, key, turn.index, beginnings)
        if (open) this.#tools.frame(open, memory, at, logged)
      }
    }
  }

  /** Ends the span of a withdrawn call. A turn that has ended has no open calls. */
  #withdrawn(run: RunState, memory: Memory, at: number, logged: number): void {
    const turn = this.#turns.get(keyOf(run.index, senderOf(memory, at), turnOf(memory, at)))
    if (turn) this.#tools.withdrawn(turn, memory, at, logged)
  }

  #message(run: RunState, memory: Memory, at: number, beginnings: Beginnings): void {
    const many = kindOf(memory, at) === SEND && (flagsOf(memory, at) & MANY) !== 0
    const id = idOf(memory, at)
    if (many && this.#origins.has(id)) return // a copy of it
    const index = senderOf(memory, at)
    const giver = this.#giverOf(run, index)
    const turn = giver ?? turnOf(memory, at)
    const key = keyOf(run.index, index, turn)
    const turnOfSender = this.#begun(run, key, index, beginnings)
    const place = turnOfSender ? turnOfSender.place : this.#placeOfRun(run)
    this.#origins.set(id, { place: this.#continued(memory, at) ?? place, many })
  }

  /** Returns the place that the sender of the message has given in its metadata. */
  #continued(memory: Memory, at: number): TracePlace | undefined {
    if ((flagsOf(memory, at) & HAS_METADATA) === 0) return undefined
    const { traceparent, tracestate } = Object(jsonIn(readBody(memory, at).metadata)) as Record<string, unknown>
    if (typeof traceparent !== 'string') return undefined
    return this.#spans.continued({ traceparent, ...(typeof tracestate === 'string' && { tracestate }) })
  }

  #giverOf(run: RunState, sender: number): number | undefined {
    const giver = this.#giver
    this.#giver = undefined
    return giver?.run === run.index && giver.agent === this.#core.directory.name(sender) ? giver.turn : undefined
  }

  /** Returns the turn if it has begun by now. Its actions can precede the record of its begin in the log. */
  #begun(run: RunState, key: string, index: number, beginnings: Beginnings): OpenTurn | undefined {
    const beginning = this.#turns.get(key)?.open ? undefined : beginnings.get(key)?.shift()
    if (beginning) this.#begin(run, key, index, beginning)
    return this.#turns.get(key)
  }

  #started(run: RunState, record: HostRecord & { kind: 'turn.started' }, beginnings: Beginnings): void {
    const key = keyOf(run.index, record.index, record.turn)
    const next = beginnings.get(key)
    if (next?.[0]?.record === record) this.#begin(run, key, record.index, next.shift()!)
  }

  #begin(run: RunState, key: string, index: number, { at, messageId, attempt, instance }: Beginning): void {
    const agent = run.agentName(index) ?? this.#core.directory.name(index)
    const before = this.#turns.get(key)
    before?.span?.end(at) // the host has begun it anew
    const origin = this.#origins.get(messageId)
    const parent = origin ? origin.place : this.#placeOfRun(run)
    const isScript = index === ORCHESTRATOR_INDEX
    const span = isScript
      ? undefined
      : this.#spans.start({
          name: `invoke_agent ${agent}`,
          kind: 'internal',
          at,
          parent,
          attributes: turnAttributes(run, agent, messageId, attempt),
        })
    const place = isScript ? this.#placeOfRun(run) : span?.place
    const tools = before?.tools ?? new Map<string, Span>()
    this.#turns.set(key, { run, agent, index, messageId, instance, open: true, span, place, tools })
  }

  #end(run: RunState, memory: Memory, at: number, beginnings: Beginnings): void {
    const key = keyOf(run.index, senderOf(memory, at), turnOf(memory, at))
    const turn = this.#begun(run, key, senderOf(memory, at), beginnings)
    if (!turn) return
    const failure = isFailure(memory, at) ? errorOf(memory, at) : undefined
    this.#over(key, turn, timeOf(memory, at), failure)
    // A turn that failed and answers no caller may be tried again.
    if (!failure || correlationOf(memory, at) !== 0) this.#forget(turn.messageId)
  }

  #over(key: string, turn: OpenTurn, at: number, error: DramatisError | undefined): void {
    this.#turns.delete(key)
    for (const tool of turn.tools.values()) tool.end(at, error ?? withdrawn(turn.agent))
    turn.span?.end(at, error)
  }

  #forget(messageId: string): void {
    if (!this.#origins.get(messageId)?.many) this.#origins.delete(messageId)
  }

  #record(record: HostRecord, run: RunState | undefined, beginnings: Beginnings): void {
    switch (record.kind) {
      case 'turn.started':
        if (run) this.#started(run, record, beginnings)
        return
      case 'agent.exited':
        for (const [key, turn] of this.#turns) {
          const { index, agent, instance } = turn
          if (!this.#core.runs.has(turn.run.index)) this.#turns.delete(key) // its run is gone: no other attempt
          if (index !== record.index || agent !== record.agent) continue
          if ((instance ?? record.instance) === record.instance) this.#cutOff(turn, record)
        }
        return
      case 'message.dead': {
        const { message, errors } = record.letter
        for (const [key, turn] of this.#turns)
          if (turn.messageId === message.id && turn.agent === message.recipient)
            this.#over(key, turn, record.at, errors.at(-1))
        return this.#forget(message.id)
      }
      case 'handoff':
        if (record.step === 'requested') this.#giver = { run: record.run, agent: record.agent, turn: record.turn }
    }
  }

  /** Ends the attempt when its thread has exited. Calls that the host runs for the turn continue. */
  #cutOff(turn: OpenTurn, { at, error, epoch, how }: HostRecord & { kind: 'agent.exited' }): void {
    turn.span?.event('dramatis.agent.exited', at, { 'dramatis.agent.epoch': epoch, 'dramatis.agent.how': how })
    turn.span?.end(at, error)
    turn.open = false
    this.#tools.cutOff(turn, at, error)
  }
}

/** Begins of attempts by turn, in order: an attempt can end and the next begin in one batch. */
type Beginnings = Map<string, Beginning[]>

/** Returns the turns that begin in this batch, by a record of their own or, for short turns, by their end. */
function beginningsIn(batch: Batch): Beginnings {
  const found: Beginnings = new Map()
  const add = (key: string, beginning: Beginning) => {
    const others = found.get(key)
    if (others) others.push(beginning)
    else found.set(key, [beginning])
  }
  for (const entry of batch) {
    if (entry.kind === 'turn.started') {
      const { run, index, turn, at, messageId, attempt, instance } = entry
      add(keyOf(run, index, turn), { record: entry, at, messageId, attempt, instance })
    }
    if (entry.kind !== 'frames') continue
    const { memory, from, to, run } = entry
    for (let at = from; at < to; at += lengthOf(memory, at)) {
      if (kindOf(memory, at) !== END || flagsOf(memory, at) & ANNOUNCED) continue
      add(keyOf(run, senderOf(memory, at), turnOf(memory, at)), {
        record: undefined,
        at: startedOf(memory, at),
        messageId: idOf(memory, at),
        attempt: attemptOf(memory, at),
        instance: undefined,
      })
    }
  }
  return found
}

const keyOf = (run: number, index: number, turn: number) => `${run} ${index} ${turn}`

const withdrawn = (agent: string) =>
  new CancelledError(`The turn of "${agent}" ended before the call of its tool had.`, { agent })
