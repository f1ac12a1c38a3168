/**
 * Target of the spans of a team, as the runtime sees it. It is an interface of its own, so that the runtime does not
 * depend on OpenTelemetry: `openTelemetry()` of `dramatis/opentelemetry` implements it.
 */

/** Attributes of a span. An attribute that is undefined is left out. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>

/** Place in a trace where spans can have their parent. Only the telemetry that made it knows what it is. */
export type TracePlace = object

/** Place in a trace in the format of W3C Trace Context. */
export interface TraceHeaders {
  traceparent?: string
  tracestate?: string
}

/** Start of a span. `at` is epoch ms. */
export interface SpanStart {
  name: string
  kind: 'internal' | 'client'
  at: number
  /** Parent of the span; undefined: it begins a trace of its own. */
  parent: TracePlace | undefined
  attributes: SpanAttributes
}

/** Span that has begun. Times are epoch ms. */
export interface TelemetrySpan {
  /** Place under this span. */
  readonly place: TracePlace
  /** Place under this span for other systems. */
  readonly headers: TraceHeaders
  set(attributes: SpanAttributes): void
  event(name: string, at: number, attributes: SpanAttributes): void
  /** Ends the span. `message`: the text of a failure, if it may be shown. */
  end(at: number, failed: boolean, message?: string): void
  /** Runs the task with the span as the active one. */
  within<T>(task: () => T): T
}

/** Receives the spans of a team. Errors that it throws are logged and have no other effect. */
export interface Telemetry {
  /** Name of the team's runs in `gen_ai.workflow.name`; if left out, they have none. */
  readonly workflowName?: string | undefined
  /**
   * True if queries, prompts, answers, the input and output of tools, and the texts of errors may be in attributes.
   * Default: false.
   */
  readonly captureContent?: boolean | undefined
  /** Returns the caller's present place in a trace. */
  active(): TracePlace | undefined
  /** Returns the place that the headers name; undefined if they name none. */
  continued(headers: TraceHeaders): TracePlace | undefined
  startSpan(start: SpanStart): TelemetrySpan
}
