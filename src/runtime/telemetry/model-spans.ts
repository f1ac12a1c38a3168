/** A span around each model call, from the request to the answer, including all attempts of the client. */
import type { Scheduler } from '../../clock.ts'
import { DramatisError, describe, ModelError } from '../../errors.ts'
import type { GatewayLayer } from '../models/gateway.ts'
import type { TracePlace } from '../settings/telemetry.ts'
import type { RunState } from '../state/run-state.ts'
import { answerAttributes, answerContent, callAttributes, promptContent } from './attributes.ts'
import type { Spans } from './spans.ts'

/** Returns the parent of the spans of a turn. */
export type PlaceOfTurn = (run: RunState, agent: number, turn: number) => TracePlace | undefined

export const modelSpans = (spans: Spans, clock: Scheduler, placeOf: PlaceOfTurn): GatewayLayer => {
  return async (pending, next) => {
    const { caller, call, model } = pending
    const at = clock.now()
    await undefined // its turn may have begun in the same tick, and the records of a tick are delivered at its end
    const span = spans.start({
      name: `chat ${model}`,
      kind: 'client',
      at,
      parent: placeOf(caller.run, caller.cell.index, caller.turn),
      attributes: { ...callAttributes(pending), 'gen_ai.input.messages': spans.content(() => promptContent(call)) },
    })
    try {
      const made = await span.within(() => next(pending))
      const { answer, error } = made
      span.set(answerAttributes(made))
      if (answer) span.set({ 'gen_ai.output.messages': spans.content(() => answerContent(answer)) })
      span.end(clock.now(), error)
      return made
    } catch (thrown) {
      span.end(clock.now(), thrown instanceof DramatisError ? thrown : new ModelError(describe(thrown), {}))
      throw thrown
    }
  }
}
