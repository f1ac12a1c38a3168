/**
 * A team's runs, turns, model calls and tool calls as spans. The parent of a run's span is the `traceparent` of its
 * metadata, or else the span that was active when it was launched. A message from outside has no run span: its turns
 * are children of the active span.
 */
import type { Scheduler } from '../../shared/clock.ts'
import { DramatisError, describe, ModelError } from '../../shared/errors.ts'
import type { Reader } from '../host/journal.ts'
import type { RunState, RunTable } from '../host/run.ts'
import type { HostRecord } from '../log/records.ts'
import type { SpanAttributes, Telemetry, TraceHeaders, TracePlace } from '../settings/options.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { GatewayLayer } from '../verbs/gateway.ts'
import type { AroundTool } from '../verbs/host-tools.ts'
import {
  answerAttributes,
  answerContent,
  callAttributes,
  promptContent,
  queryContent,
  runAttributes,
  type Span,
  Spans,
} from './spans.ts'
import { TurnSpans } from './turn-spans.ts'

export type PlaceOfTurn = (run: RunState, agent: number, turn: number) => TracePlace | undefined

export const modelSpans = (spans: Spans, clock: Scheduler, placeOf: PlaceOfTurn): GatewayLayer => {
  return async (pending, next) => {
    const { caller, call, model } = pending
    const at = clock.now()
    await undefined // its turn may have begun in the same tick, and the records of a tick are delivered at its end
    const span = spans.start({
      name: `chat ${model}`,
      kind: 'client',
      at,
      parent: placeOf(caller.run, caller.agent.index, caller.turn),
      attributes: { ...callAttributes(pending), 'gen_ai.input.messages': spans.content(() => promptContent(call)) },
    })
    try {
      const made = await span.within(() => next(pending))
      const { answer, error } = made
      span.set(answerAttributes(made))
      if (answer) span.set({ 'gen_ai.output.messages': spans.content(() => answerContent(answer)) })
      span.end(clock.now(), error)
      return made
    } catch (thrown) {
      span.end(clock.now(), thrown instanceof DramatisError ? thrown : new ModelError(describe(thrown), {}))
      throw thrown
    }
  }
}

/** A request to a server of the team: what it is, and the places in traces that it and its carrier name. */
export interface ServedRequest {
  name: string
  attributes: SpanAttributes
  own: TraceHeaders
  carrier: TraceHeaders
}

/** Those of teams with a telemetry, for who serves them. */
export const tracings = new WeakMap<object, Tracing>()

export class Tracing {
  readonly #spans: Spans
  readonly #turns: TurnSpans
  readonly #supervisor: Supervisor
  /** Trace place and span of each run. Weak, so that an entry goes when its run does. */
  readonly #runs = new WeakMap<RunState, { place: TracePlace | undefined; span?: Span }>()
  readonly layer: GatewayLayer

  /** Runs the work of a tool call in the host within the call's span, so that spans of this work are its children. */
  readonly aroundTool: AroundTool = async (waiter, work) => {
    await undefined // the records of a tick are delivered at its end
    const span = this.#turns.toolOf(waiter)
    return span ? span.within(() => work(span)) : work()
  }

  constructor(telemetry: Telemetry, supervisor: Supervisor) {
    const { clock, logger, redactor } = supervisor
    this.#supervisor = supervisor
    this.#spans = new Spans(telemetry, logger, redactor)
    this.#turns = new TurnSpans(supervisor, this.#spans, (run) => this.#runs.get(run)?.place)
    this.layer = modelSpans(this.#spans, clock, (...turn) => this.#turns.placeOf(...turn))
  }

  /**
   * Does what a request asks of the team within a span of its own. It is below the place that the request names itself,
   * linked to that of what has carried it; without the former it is below the latter. `failed` tells an error.
   */
  async served<T>(
    { name, attributes, own, carrier }: ServedRequest,
    work: (headers: TraceHeaders) => Promise<T>,
    failed: (result: T) => { code: string; message: string } | undefined,
  ): Promise<T> {
    const { clock } = this.#supervisor
    const parent = this.#spans.continued(own)
    const carried = this.#spans.continued(carrier) ?? this.#spans.active()
    const place = { parent: parent ?? carried, link: parent && carried }
    const span = this.#spans.start({ name, kind: 'server', at: clock.now(), ...place, attributes })
    try {
      const result = await span.within(() => work(span.headers))
      span.end(clock.now(), failed(result))
      return result
    } finally {
      span.end(clock.now(), { code: '_OTHER', message: '' }) // of one that has not ended
    }
  }

  /** Starts the span of a run at its launch. The run's agents get its place in the trace with its metadata. */
  launched(run: RunState): void {
    const { headers } = this.#begin(run, run.startedAt, this.#spans.continued(run.metadata) ?? this.#spans.active())
    if (headers.traceparent !== undefined) run.traceHeaders = headers
  }

  /**
   * Starts a span of a run that an earlier process has begun, whose own span went with that process. It is below the
   * place that the run had then, and the agents keep that place.
   */
  resumed(run: RunState): void {
    this.#begin(run, this.#supervisor.clock.now(), this.#spans.continued(run.traceHeaders ?? run.metadata))
  }

  #begin(run: RunState, at: number, parent: TracePlace | undefined): Span {
    const span = this.#spans.start({
      name: ['invoke_workflow', this.#spans.workflowName ?? []].flat().join(' '),
      kind: 'internal',
      at,
      parent,
      attributes: {
        ...runAttributes(run, this.#spans.workflowName),
        'gen_ai.input.messages': this.#spans.content(() => queryContent(run.query)),
      },
    })
    this.#runs.set(run, { place: span.place, span })
    return span
  }

  /** Notes the active trace place for a message from outside of any run, when it is sent. */
  posted(run: RunState): void {
    this.#runs.set(run, { place: this.#spans.active() })
  }

  /**
   * Ends the span of a run. Called before the caller learns of the run's end, so that spans which it then exports are
   * complete.
   */
  finished(run: RunState, error?: DramatisError): void {
    this.#runs.get(run)?.span?.end(this.#supervisor.clock.now(), error)
  }

  readonly part = ({ runs }: { runs: RunTable }): Reader => ({
    next: (batch) => {
      this.#turns.next(batch)
      for (const entry of batch) {
        const run = entry.kind === 'frames' ? undefined : runs.get(entry.run)
        const span = run && this.#runs.get(run)?.span
        if (span && entry.kind !== 'frames') noteOnRun(span, entry)
      }
    },
    close: () => this.#spans.close(this.#supervisor.clock.now()),
  })
}

function noteOnRun(span: Span, record: HostRecord): void {
  switch (record.kind) {
    case 'alarm': {
      const { at, name, agents, fields, details } = record
      const single = Object.entries({ ...fields, ...details }).filter(([, value]) => /string|number/.test(typeof value))
      return span.event(`dramatis.${name}`, at, {
        ...(agents.length > 0 && { 'dramatis.agents': [...agents] }),
        ...Object.fromEntries(single.map(([key, value]) => [`dramatis.${name}.${key}`, value])),
      })
    }
    case 'message.dead': {
      const { reason, errors, message } = record.letter
      return span.event('dramatis.message.dead', record.at, {
        'dramatis.message.id': message.id,
        'dramatis.message.reason': reason,
        'error.type': errors.at(-1)?.code,
      })
    }
  }
}
