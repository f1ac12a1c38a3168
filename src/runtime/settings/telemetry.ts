/**
 * Where the spans of a team go, as the runtime sees it. An interface of its own, so that the runtime knows no
 * OpenTelemetry: `openTelemetry()` of `dramatis/opentelemetry` is one.
 */

/** What is said of a span. An attribute that is undefined is left out. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>

/** A place in a trace where spans can have their parent. What it is, only who has made it knows. */
export type TracePlace = object

/** A place in a trace as W3C Trace Context writes it. */
export interface TraceHeaders {
  traceparent?: string
  tracestate?: string
}

/** How a span begins. `at` is epoch ms. */
export interface SpanStart {
  name: string
  kind: 'internal' | 'client'
  at: number
  /** undefined: a trace of its own. */
  parent: TracePlace | undefined
  attributes: SpanAttributes
}

/** A span that has begun. Times are epoch ms. */
export interface TelemetrySpan {
  /** Under it. */
  readonly place: TracePlace
  /** The same for others, elsewhere. */
  readonly headers: TraceHeaders
  set(attributes: SpanAttributes): void
  event(name: string, at: number, attributes: SpanAttributes): void
  /** `message`: of what failed, where it may be told. */
  end(at: number, failed: boolean, message?: string): void
  /** Does the task with the span as the active one. */
  within<T>(task: () => T): T
}

/** Takes the spans of a team. What it throws is logged, and hurts nobody. */
export interface Telemetry {
  /** What the team's runs are called in `gen_ai.workflow.name`; without a name they have none. */
  readonly workflowName?: string | undefined
  /** Queries, prompts, answers, what goes in and out of tools, and the texts of errors may stand in attributes; false. */
  readonly captureContent?: boolean | undefined
  /** Where the caller is now. */
  active(): TracePlace | undefined
  /** Where somebody else was; undefined for headers that say nothing. */
  continued(headers: TraceHeaders): TracePlace | undefined
  startSpan(start: SpanStart): TelemetrySpan
}
