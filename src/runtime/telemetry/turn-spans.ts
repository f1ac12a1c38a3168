/**
 * The turns of agents as spans, derived from the log: one per attempt, from its begin until its commit or the exit of
 * its thread. The parent is the turn that sent the message which began it; for a message of the script it is the run.
 */
import { CancelledError, type DramatisError } from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  ANNOUNCED,
  attemptOf,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  HAS_METADATA,
  kindOf,
  lengthOf,
  MANY,
  REQUEST,
  SEND,
  senderOf,
  startedOf,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { BoundedMap } from '../log/bounded-map.ts'
import type { Batch, FrameBlock, HostRecord } from '../log/records.ts'
import type { TracePlace } from '../settings/telemetry.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { RunState } from '../state/run-state.ts'
import type { RunTable } from '../state/run-table.ts'
import type { VerbWaiter } from '../verbs/host-verb.ts'
import { turnAttributes } from './attributes.ts'
import type { OpenTurn } from './open-turn.ts'
import type { Span, Spans } from './spans.ts'
import { ToolSpans } from './tool-spans.ts'

interface Needs {
  readonly directory: AgentDirectory
  readonly runs: RunTable
}

/** Begin of an attempt. */
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
  readonly #needs: Needs
  readonly #spans: Spans
  readonly #placeOfRun: (run: RunState) => TracePlace | undefined
  readonly #turns = new Map<string, OpenTurn>()
  readonly #origins = new BoundedMap<string, Origin>(MOST_ORIGINS)
  readonly #tools: ToolSpans
  /** Turn that hands off its duty. The message about it follows, and names no turn. */
  #giver: { run: number; agent: string; turn: number } | undefined

  constructor(needs: Needs, spans: Spans, placeOfRun: (run: RunState) => TracePlace | undefined) {
    this.#needs = needs
    this.#spans = spans
    this.#placeOfRun = placeOfRun
    this.#tools = new ToolSpans(spans)
  }

  /** Returns the parent of all that happens in that turn. */
  placeOf(run: RunState, index: number, turn: number): TracePlace | undefined {
    const open = this.#turns.get(keyOf(run.index, index, turn))
    return open ? open.place : this.#placeOfRun(run)
  }

  /** Returns the span of a tool that the host runs for that turn. */
  toolOf({ run, cell, turn, correlation }: VerbWaiter): Span | undefined {
    const open = this.#turns.get(keyOf(run.index, cell.index, turn))
    return open && this.#tools.ofCall(open, correlation)
  }

  next(batch: Batch): void {
    const beginnings = beginningsIn(batch)
    for (const entry of batch) {
      const run = this.#needs.runs.get(entry.run)
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
    return giver?.run === run.index && giver.agent === this.#needs.directory.name(sender) ? giver.turn : undefined
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
    const agent = run.agentName(index) ?? this.#needs.directory.name(index)
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
          if (!this.#needs.runs.has(turn.run.index)) this.#turns.delete(key) // its run is gone: no other attempt
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
