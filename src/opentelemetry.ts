/**
 * `dramatis/opentelemetry`: the spans of a team for OpenTelemetry. Only who imports this needs the package
 * `@opentelemetry/api`.
 */
import {
  type Baggage,
  type BaggageEntry,
  baggageEntryMetadataFromString,
  type Context,
  context,
  createTraceState,
  type HrTime,
  isSpanContextValid,
  type MeterProvider,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import type {
  SpanAttributes,
  SpanStart,
  Telemetry,
  TelemetrySpan,
  TraceHeaders,
  TracePlace,
} from './runtime/settings/options.ts'
import { flag, methods, shape, text } from './shared/checks.ts'
import { own } from './shared/values.ts'

/** How a team's spans are made. */
export interface OpenTelemetryOptions {
  /** The global one. */
  tracerProvider?: TracerProvider
  /** Measures tokens and durations, as metrics. Default: nothing is measured. */
  meterProvider?: MeterProvider
  /** Name of the team's runs, as `gen_ai.workflow.name` and in the names of their spans. Default: none. */
  workflowName?: string
  /**
   * True: queries, prompts, answers, inputs and outputs of tools, and the texts of errors are attributes, with the
   * team's keys taken out. Default: false.
   */
  captureContent?: boolean
}

const optionsShape = shape<OpenTelemetryOptions>({
  tracerProvider: methods('getTracer'),
  meterProvider: methods('getMeter'),
  workflowName: text,
  captureContent: flag,
})

/**
 * Runs, turns, calls of models and of tools as spans, by the semantic conventions for generative AI. A run's span is
 * the child of the span that is active where it is launched; without one it is the root. With a `meterProvider` their
 * durations, and the tokens of models, are metrics too.
 *
 * Source: https://github.com/open-telemetry/semantic-conventions-genai, status Development: names of theirs can change
 * in a minor version.
 *
 * @throws {ConfigurationError} for a wrong option, with its path.
 *
 * @example
 * import { openTelemetry } from 'dramatis/opentelemetry'
 *
 * const team = createTeam({ agents, orchestration, telemetry: openTelemetry({ workflowName: 'review' }) })
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  optionsShape(options, '')
  const { tracerProvider = trace, meterProvider, workflowName, captureContent } = options
  const tracer = tracerProvider.getTracer('dramatis')
  const measure = meterProvider && measuring(meterProvider)
  return {
    workflowName,
    captureContent,
    active: () => context.active(),
    continued,
    startSpan({ name, kind, at, parent, link, attributes }: SpanStart): TelemetrySpan {
      const within = (parent as Context | undefined) ?? ROOT_CONTEXT
      const linked = link && trace.getSpanContext(link as Context)
      const links = linked ? [{ context: linked }] : []
      const options = { kind: KINDS[kind], startTime: timeFrom(at), attributes: mutable(attributes), links }
      const span = spanOf(tracer.startSpan(name, options, within), within)
      return measure && kind !== 'server' ? measured(span, { at, attributes }, measure) : span
    },
  }
}

const KINDS = { internal: SpanKind.INTERNAL, client: SpanKind.CLIENT, server: SpanKind.SERVER }

function spanOf(span: Span, parent: Context): TelemetrySpan {
  const place = trace.setSpan(parent, span)
  return {
    place,
    headers: headersOf(span, place),
    set: (attributes) => void span.setAttributes(mutable(attributes)),
    event: (name, at, attributes) => void span.addEvent(name, mutable(attributes), timeFrom(at)),
    end(at, failed, message) {
      if (failed) span.setStatus({ code: SpanStatusCode.ERROR, ...(message !== undefined && { message }) })
      span.end(timeFrom(at))
    },
    within: (task) => context.with(place, task),
  }
}

type Measure = (attributes: SpanAttributes, seconds: number) => void

/** Has a span be measured at its end, by the attributes that it has then. */
function measured(span: TelemetrySpan, { at, attributes }: Pick<SpanStart, 'at' | 'attributes'>, measure: Measure) {
  let all = attributes
  return {
    ...span,
    set(more: SpanAttributes) {
      all = { ...all, ...more }
      span.set(more)
    },
    end(ended: number, failed: boolean, message?: string) {
      span.end(ended, failed, message)
      measure(all, Math.max(0, ended - at) / 1_000)
    },
  }
}

/** Bounds that the conventions give for calls of models, in s, and bounds for what such calls are a part of. */
const OF_CALLS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const OF_WORK = [0.01, 0.1, 1, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200]

const BY_MODEL = ['operation.name', 'provider.name', 'request.model'].map((name) => `gen_ai.${name}`)
const BY_SERVER = ['server.address', 'server.port']

/** Metric and bounds of the duration of an operation, and the attributes that it is told apart by. */
const DURATIONS: Readonly<Record<string, readonly [metric: string, bounds: number[], by: readonly string[]]>> = {
  chat: ['client.inference.duration', OF_CALLS, [...BY_MODEL, ...BY_SERVER]],
  execute_tool: ['execute_tool.duration', OF_WORK, ['gen_ai.tool.name', 'gen_ai.tool.type']],
  invoke_agent: ['invoke_agent.duration', OF_WORK, ['gen_ai.agent.name']],
  invoke_workflow: ['invoke_workflow.duration', OF_WORK, ['gen_ai.workflow.name']],
}
const TOKENS = ['input_tokens', 'output_tokens', 'cache_read.input_tokens', 'reasoning.output_tokens'] as const
const FIRST = 'gen_ai.response.time_to_first_chunk'

function measuring(provider: MeterProvider): Measure {
  const meter = provider.getMeter('dramatis')
  const seconds = (name: string, explicitBucketBoundaries: number[]) =>
    meter.createHistogram(`gen_ai.${name}`, { unit: 's', advice: { explicitBucketBoundaries } })
  const durations = new Map(
    Object.entries(DURATIONS).map(([operation, [name, bounds, by]]) => [
      operation,
      { by, took: seconds(name, bounds) },
    ]),
  )
  const first = seconds('client.inference.time_to_first_chunk', OF_CALLS)
  const tokens = TOKENS.map((kind) => ({
    used: `gen_ai.usage.${kind}`,
    counter: meter.createCounter(`gen_ai.client.inference.usage.${kind}`, { unit: '{token}' }),
  }))
  return (attributes, took) => {
    const operation = String(attributes['gen_ai.operation.name'])
    const duration = durations.get(operation)
    if (!duration) return
    const pick = (names: readonly string[]) =>
      mutable(
        Object.fromEntries(
          Object.entries(attributes).filter(([name, value]) => value !== undefined && names.includes(name)),
        ),
      )
    duration.took.record(took, pick([...duration.by, 'error.type']))
    if (operation !== 'chat') return
    const whose = pick(duration.by)
    if (typeof attributes[FIRST] === 'number') first.record(attributes[FIRST], whose)
    for (const { used, counter } of tokens) {
      const count = own(attributes, used)
      if (typeof count === 'number') counter.add(count, { ...whose, 'gen_ai.token.modality': 'unknown' })
    }
  }
}

/** In seconds and nanoseconds: of a number the SDK has to guess whether it counts from the epoch. */
function timeFrom(at: number): HrTime {
  const seconds = Math.floor(at / 1_000)
  return [seconds, Math.floor((at - seconds * 1_000) * 1e6)]
}

/** The same, as the types of the API want it. */
const mutable = (attributes: SpanAttributes) =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, typeof value === 'object' ? [...value] : value]),
  )

/** https://www.w3.org/TR/trace-context/: of a version that comes later, what this one has of it. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/

function continued({ traceparent = '', tracestate, baggage }: TraceHeaders): TracePlace | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACEPARENT.exec(traceparent.trim()) ?? []
  if (version === '00' && more !== undefined) return undefined
  const spanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(tracestate !== undefined && { traceState: createTraceState(tracestate) }),
  }
  if (!isSpanContextValid(spanContext)) return undefined
  const place = trace.setSpanContext(ROOT_CONTEXT, spanContext)
  return baggage === undefined ? place : propagation.setBaggage(place, baggageIn(baggage))
}

/** https://www.w3.org/TR/baggage/: what is longer is passed along by nobody. */
const LONGEST_BAGGAGE = 8_192

function baggageIn(header: string): Baggage {
  const entries: [string, BaggageEntry][] = []
  for (const member of header.length > LONGEST_BAGGAGE ? [] : header.split(',')) {
    const [, key, value, metadata] = /^\s*([^\s=;,]+)\s*=\s*([^\s;]*)\s*(?:;(.*))?$/.exec(member) ?? []
    if (key === undefined || value === undefined) continue
    try {
      const more = metadata && { metadata: baggageEntryMetadataFromString(metadata.trim()) }
      entries.push([key, { value: decodeURIComponent(value), ...more }])
    } catch {} // a value that is not encoded says nothing
  }
  return propagation.createBaggage(Object.fromEntries(entries))
}

function baggageOf(place: Context): string {
  const entries = propagation.getBaggage(place)?.getAllEntries() ?? []
  const header = entries
    .map(([key, { value, metadata }]) =>
      [`${key}=${encodeURIComponent(value)}`, metadata?.toString()].filter(Boolean).join(';'),
    )
    .join(',')
  return header.length > LONGEST_BAGGAGE ? '' : header
}

function headersOf(span: Span, place: Context): TraceHeaders {
  const spanContext = span.spanContext()
  if (!isSpanContextValid(spanContext)) return {} // without a provider there is nothing to go on with
  const { traceId, spanId, traceFlags, traceState } = spanContext
  const tracestate = traceState?.serialize()
  const baggage = baggageOf(place)
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    ...(tracestate && { tracestate }),
    ...(baggage && { baggage }),
  }
}
