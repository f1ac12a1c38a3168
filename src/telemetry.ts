/**
 * `dramatis/telemetry`: the types for telemetry of one's own (`telemetry`); OpenTelemetry's is in
 * `dramatis/opentelemetry`.
 */
export type {
  SpanAttributes,
  SpanStart,
  Telemetry,
  TelemetrySpan,
  TraceHeaders,
  TracePlace,
} from './runtime/settings/options.ts'
