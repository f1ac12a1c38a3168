/**
 * `dramatis/opentelemetry`: the spans of a team for OpenTelemetry. Only who imports this needs the package
 * `@opentelemetry/api`.
 */
import {
  type Context,
  context,
  createTraceState,
  type HrTime,
  isSpanContextValid,
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

/** How a team's spans are made. */
export interface OpenTelemetryOptions {
  /** The global one. */
  tracerProvider?: TracerProvider
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
  workflowName: text,
  captureContent: flag,
})

/**
 * Runs, turns, calls of models and of tools as spans, by the semantic conventions for generative AI. A run's span is
 * the child of the span that is active where it is launched; without one it is the root. Source: the semantic
 * conventions for generative AI of OpenTelemetry, status Development: names of theirs can change in a minor version.
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
  const { tracerProvider = trace, workflowName, captureContent } = options
  const tracer = tracerProvider.getTracer('dramatis')
  return {
    workflowName,
    captureContent,
    active: () => context.active(),
    continued,
    startSpan({ name, kind, at, parent, attributes }: SpanStart): TelemetrySpan {
      const within = (parent as Context | undefined) ?? ROOT_CONTEXT
      const options = { kind: KINDS[kind], startTime: timeFrom(at), attributes: mutable(attributes) }
      return spanOf(tracer.startSpan(name, options, within), within)
    },
  }
}

const KINDS = { internal: SpanKind.INTERNAL, client: SpanKind.CLIENT }

function spanOf(span: Span, parent: Context): TelemetrySpan {
  const place = trace.setSpan(parent, span)
  return {
    place,
    headers: headersOf(span),
    set: (attributes) => void span.setAttributes(mutable(attributes)),
    event: (name, at, attributes) => void span.addEvent(name, mutable(attributes), timeFrom(at)),
    end(at, failed, message) {
      if (failed) span.setStatus({ code: SpanStatusCode.ERROR, ...(message !== undefined && { message }) })
      span.end(timeFrom(at))
    },
    within: (task) => context.with(place, task),
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

function continued({ traceparent = '', tracestate }: TraceHeaders): TracePlace | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACEPARENT.exec(traceparent.trim()) ?? []
  if (version === '00' && more !== undefined) return undefined
  const spanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(tracestate !== undefined && { traceState: createTraceState(tracestate) }),
  }
  return isSpanContextValid(spanContext) ? trace.setSpanContext(ROOT_CONTEXT, spanContext) : undefined
}

function headersOf(span: Span): TraceHeaders {
  const spanContext = span.spanContext()
  if (!isSpanContextValid(spanContext)) return {} // without a provider there is nothing to go on with
  const { traceId, spanId, traceFlags, traceState } = spanContext
  const tracestate = traceState?.serialize()
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    ...(tracestate && { tracestate }),
  }
}
