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

/**
 * Attributes by operation that the conventions have, and that a team may be asked for. Source:
 * https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai, November 2026.
 */
const OF_ALL = ['operation.name', 'conversation.id', 'input.messages', 'output.messages', 'agent.name']
const REGISTRY: Record<string, string[]> = {
  invoke_workflow: [...OF_ALL, 'workflow.name'],
  invoke_agent: [...OF_ALL, 'agent.description', 'request.model', 'usage.input_tokens', 'usage.output_tokens'],
  execute_tool: [...OF_ALL, 'tool.name', 'tool.call.id', 'tool.type', 'tool.description', 'tool.call.arguments'].concat(
    'tool.call.result',
  ),
  chat: [
    ...OF_ALL,
    ...['provider.name', 'output.type', 'prompt.name', 'conversation.compacted'],
    ...['model', 'stream', 'temperature', 'top_p', 'top_k', 'seed', 'max_tokens', 'stop_sequences'].map(
      (name) => `request.${name}`,
    ),
    ...['id', 'model', 'finish_reasons', 'time_to_first_chunk'].map((name) => `response.${name}`),
    ...['input', 'output', 'cache_read.input', 'cache_write.input', 'reasoning.output'].map(
      (name) => `usage.${name}_tokens`,
    ),
  ],
}
const BESIDE = /^(dramatis\..+|error\.type|server\.(address|port))$/
const OF_MCP =
  /^(mcp\.(method\.name|protocol\.version|session\.id)|network\.transport|jsonrpc\.request\.id|rpc\.response\.status_code)$/

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

  /** Attributes that the conventions do not have for their operation, with their spans. */
  get unknownNames(): string[] {
    return this.spans.flatMap(({ name, attributes }) => {
      const operation = String(attributes['gen_ai.operation.name'])
      const isKnown = (key: string) =>
        BESIDE.test(key) ||
        (operation === 'execute_tool' && OF_MCP.test(key)) ||
        REGISTRY[operation]!.includes(key.replace(/^gen_ai\./, ''))
      return Object.keys(attributes).flatMap((key) => (isKnown(key) ? [] : [`${name}: ${key}`]))
    })
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
