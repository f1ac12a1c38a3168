/**
 * The spans of one team. The first error that the user's telemetry throws is logged, later ones are ignored, and the
 * team goes on. Spans that are still open end with the team.
 */
import type { Logger } from '../../actors/definition/logger.ts'
import { type DramatisError, describe, TeamClosedError } from '../../errors.ts'
import type { Redactor } from '../logging/redactor.ts'
import type {
  SpanAttributes,
  SpanStart,
  Telemetry,
  TelemetrySpan,
  TraceHeaders,
  TracePlace,
} from '../settings/telemetry.ts'

export class Spans {
  readonly #telemetry: Telemetry
  readonly #logger: Logger
  readonly #redactor: Redactor
  readonly #open = new Set<Span>()
  #hasThrown = false

  constructor(telemetry: Telemetry, logger: Logger, redactor: Redactor) {
    this.#telemetry = telemetry
    this.#logger = logger
    this.#redactor = redactor
  }

  get workflowName(): string | undefined {
    return this.#telemetry.workflowName
  }

  active(): TracePlace | undefined {
    return this.guarded(() => this.#telemetry.active())
  }

  continued(headers: TraceHeaders): TracePlace | undefined {
    return this.guarded(() => this.#telemetry.continued(headers))
  }

  start(start: SpanStart): Span {
    const span = new Span(
      this,
      this.guarded(() => this.#telemetry.startSpan(start)),
    )
    this.#open.add(span)
    return span
  }

  isOpen(span: Span): boolean {
    return this.#open.has(span)
  }

  ended(span: Span): void {
    this.#open.delete(span)
  }

  /** Returns a content for an attribute, with keys taken out; undefined if contents are not captured. */
  content(text: () => string): string | undefined {
    return this.#telemetry.captureContent ? this.#redactor.text(text()) : undefined
  }

  close(at: number): void {
    const closed = new TeamClosedError('The team was closed.', {})
    for (const span of [...this.#open]) span.end(at, closed)
  }

  guarded<T>(task: () => T): T | undefined {
    try {
      return task()
    } catch (error) {
      if (!this.#hasThrown)
        this.#logger.error({ error: describe(error) }, 'the telemetry threw; this is told once, and the team goes on')
      this.#hasThrown = true
      return undefined
    }
  }
}

/** A span. The first end counts; events and attributes that come later are dropped. */
export class Span {
  readonly #spans: Spans
  readonly #span: TelemetrySpan | undefined

  constructor(spans: Spans, span: TelemetrySpan | undefined) {
    this.#spans = spans
    this.#span = span
  }

  get place(): TracePlace | undefined {
    return this.#spans.guarded(() => this.#span?.place)
  }

  get headers(): TraceHeaders {
    return this.#spans.guarded(() => ({ ...this.#span?.headers })) ?? {}
  }

  set(attributes: SpanAttributes): void {
    if (this.#spans.isOpen(this)) this.#spans.guarded(() => this.#span?.set(attributes))
  }

  event(name: string, at: number, attributes: SpanAttributes): void {
    if (this.#spans.isOpen(this)) this.#spans.guarded(() => this.#span?.event(name, at, attributes))
  }

  end(at: number, error?: DramatisError | null): void {
    if (!this.#spans.isOpen(this)) return
    if (error) this.set({ 'error.type': error.code })
    this.#spans.ended(this)
    const message = error ? this.#spans.content(() => error.message) : undefined
    this.#spans.guarded(() => this.#span?.end(at, Boolean(error), message))
  }

  /** Runs the task within the span. The task runs exactly once, even if the telemetry throws or does not call it. */
  within<T>(task: () => T): T {
    let outcome: (() => T) | undefined
    const once = () => {
      outcome ??= outcomeOf(task)
    }
    this.#spans.guarded(() => this.#span?.within(once))
    once()
    return outcome!()
  }
}

/** Runs the task and returns a function that returns the task's result or throws its error. */
function outcomeOf<T>(task: () => T): () => T {
  try {
    const result = task()
    return () => result
  } catch (error) {
    return () => {
      throw error
    }
  }
}
