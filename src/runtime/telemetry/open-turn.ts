/** A turn that is not done, as its spans see it. */
import type { TracePlace } from '../settings/telemetry.ts'
import type { RunState } from '../state/run-state.ts'
import type { Span } from './spans.ts'

/** Over its attempts. */
export interface OpenTurn {
  readonly run: RunState
  readonly agent: string
  readonly index: number
  readonly messageId: string
  /** Which thread has it. */
  readonly instance: number | undefined
  /** An attempt is under way; else the turn was cut off, and is to be tried again. */
  open: boolean
  /** Span of the attempt; undefined for a script, whose span is that of its run. */
  readonly span: Span | undefined
  /** Parent of the spans that the turn causes. */
  readonly place: TracePlace | undefined
  /** Calls of tools that are under way. */
  readonly tools: Map<string, Span>
}
