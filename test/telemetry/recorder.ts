/** Where the spans of a test go, and how it looks at them: as a tree of names, each with what the test wants to see. */
import { type Attributes, SpanKind, SpanStatusCode } from '@opentelemetry/api'
import { MetricReader } from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { type OpenTelemetryOptions, openTelemetry } from '../../src/opentelemetry.ts'
import type { Telemetry } from '../../src/telemetry.ts'

/** One span and what is under it, in the order in which they began. */
export type Tree = [name: string, ...children: Tree[]]

export class Recorder {
  readonly #exporter = new InMemorySpanExporter()
  readonly telemetry: Telemetry
  readonly tracerProvider: BasicTracerProvider
  started = 0

  constructor(options: OpenTelemetryOptions = {}) {
    const count = {
      onStart: () => {
        this.started += 1
      },
      onEnd: () => {},
      forceFlush: async () => {},
      shutdown: async () => {},
    }
    this.tracerProvider = new BasicTracerProvider({
      spanProcessors: [count, new SimpleSpanProcessor(this.#exporter)],
    })
    this.telemetry = openTelemetry({ tracerProvider: this.tracerProvider, ...options })
  }

  /** Those that have ended. */
  get spans(): ReadableSpan[] {
    return this.#exporter.getFinishedSpans()
  }

  /** How many have begun and not ended. */
  get open(): number {
    return this.started - this.spans.length
  }

  named(name: string): ReadableSpan[] {
    return this.spans.filter((span) => span.name === name)
  }

  one(name: string): ReadableSpan {
    const [span, ...others] = this.named(name)
    if (!span || others.length > 0) throw new Error(`${others.length + (span ? 1 : 0)} spans are named ${name}`)
    return span
  }

  /** The spans without a parent here, and all below. */
  get trees(): Tree[] {
    const ids = new Set(this.spans.map(idOf))
    return this.#below(this.spans.filter(({ parentSpanContext }) => !ids.has(parentSpanContext?.spanId ?? '')))
  }

  #below(spans: ReadableSpan[]): Tree[] {
    return spans
      .sort((one, other) => msOf(one) - msOf(other))
      .map((span) => {
        const children = this.spans.filter(({ parentSpanContext }) => parentSpanContext?.spanId === idOf(span))
        return [span.name, ...this.#below(children)]
      })
  }
}

/** What was measured: by metric, the attributes with the sum of their values, and the unit. */
export class Measures extends MetricReader {
  async measured(): Promise<Record<string, [Attributes, number, unit: string][]>> {
    const { resourceMetrics } = await this.collect()
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
    return Object.fromEntries(
      metrics.map(({ descriptor, dataPoints }) => [
        descriptor.name,
        dataPoints.map(({ attributes, value }) => [
          attributes,
          typeof value === 'number' ? value : (value.sum ?? 0),
          descriptor.unit,
        ]),
      ]),
    )
  }

  protected async onForceFlush(): Promise<void> {}
  protected async onShutdown(): Promise<void> {}
}

export const idOf = (span: ReadableSpan): string => span.spanContext().spanId
export const traceOf = (span: ReadableSpan): string => span.spanContext().traceId
export const parentOf = (span: ReadableSpan): string | undefined => span.parentSpanContext?.spanId

/** When it began, epoch ms. */
export const msOf = ({ startTime: [seconds, nanos] }: ReadableSpan): number => seconds * 1_000 + nanos / 1e6

/** How long it took, ms. */
export const tookOf = ({ duration: [seconds, nanos] }: ReadableSpan): number => seconds * 1_000 + nanos / 1e6

export const isInternal = ({ kind }: ReadableSpan): boolean => kind === SpanKind.INTERNAL

/** The kind of error that it ended in; undefined if it did in none. */
export function errorOf({ status, attributes }: ReadableSpan): Attributes['error.type'] {
  const failed = status.code === SpanStatusCode.ERROR
  return failed === 'error.type' in attributes ? attributes['error.type'] : `status ${status.code}`
}
