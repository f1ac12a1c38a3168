/** A turn that is not done, with the data that its spans need. */
import type { TracePlace } from '../settings/telemetry.ts'
import type { RunState } from '../state/run-state.ts'
import type { Span } from './spans.ts'

/** A turn over all of its attempts. */
export interface OpenTurn {
  readonly run: RunState
  readonly agent: string
  readonly index: number
  readonly messageId: string
  /** Instance of the agent whose thread executes the turn. */
  readonly instance: number | undefined
  /** True while an attempt is under way; false if the turn was cut off and may be tried again. */
  open: boolean
  /** Span of the attempt; undefined for a script, whose span is that of its run. */
  readonly span: Span | undefined
  /** Parent of the spans that the turn causes. */
  readonly place: TracePlace | undefined
  /** Calls of tools that are under way. */
  readonly tools: Map<string, Span>
}
