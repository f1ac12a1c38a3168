/**
 * Tool calls as spans, wherever they run: in the host they are calls of a verb, in the agent's thread they are steps.
 */
import { CancelledError, type DramatisError } from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  flagsOf,
  HAS_THREAD,
  kindOf,
  RESULT,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  stepOf,
  timeOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { toolAttributes } from './attributes.ts'
import type { OpenTurn } from './open-turn.ts'
import type { Span, Spans } from './spans.ts'

export class ToolSpans {
  readonly #spans: Spans

  constructor(spans: Spans) {
    this.#spans = spans
  }

  /** Returns the turn whose tool call the frame may describe; undefined for a frame of another kind. */
  turnOf(memory: Memory, at: number): { index: number; number: number } | undefined {
    switch (kindOf(memory, at)) {
      case CALL:
        return { index: senderOf(memory, at), number: turnOf(memory, at) }
      case RESULT:
        return { index: recipientOf(memory, at), number: turnOf(memory, at) }
      case STEP_BEGAN:
      case STEP_DONE: // a step that is a call of a tool carries the call's id
        return flagsOf(memory, at) & HAS_THREAD
          ? { index: senderOf(memory, at), number: turnOf(memory, at) }
          : undefined
      default:
        return undefined
    }
  }

  /** Starts or ends the span that the frame describes. `logged`: time of frames that the host wrote. */
  frame(turn: OpenTurn, memory: Memory, at: number, logged: number): void {
    switch (kindOf(memory, at)) {
      case CALL: {
        const { content, data } = readBody(memory, at)
        if (content !== 'tool') return
        const { name, callId, input } = Object(jsonIn(data)) as Record<string, unknown>
        return this.#start(turn, callKey(memory, at), timeOf(memory, at), `${name}`, `${callId}`, () =>
          JSON.stringify(input),
        )
      }
      case STEP_BEGAN: {
        const { content, data, threadId } = readBody(memory, at)
        return this.#start(turn, stepKey(memory, at), timeOf(memory, at), content, `${threadId}`, () => `${data}`)
      }
      case RESULT:
        return this.#end(turn, callKey(memory, at), logged, memory, at)
      case STEP_DONE:
        return this.#end(turn, stepKey(memory, at), timeOf(memory, at), memory, at)
    }
  }

  /** Returns the span of a call that the host runs. */
  ofCall({ tools }: OpenTurn, correlation: number): Span | undefined {
    return tools.get(keyOfCall(correlation))
  }

  /**
   * Ends the span of a withdrawn tool call, if the frame names one. The turn no longer waits, so no result is reported.
   */
  withdrawn(turn: OpenTurn, memory: Memory, at: number, logged: number): void {
    const { agent } = turn
    this.#take(turn, callKey(memory, at))?.end(logged, new CancelledError(`"${agent}" withdrew the call.`, { agent }))
  }

  /** Ends the spans of calls that ran in the thread. Calls that the host runs for the turn continue. */
  cutOff(turn: OpenTurn, at: number, error: DramatisError): void {
    for (const key of [...turn.tools.keys()]) if (key.startsWith(STEP)) this.#take(turn, key)?.end(at, error)
  }

  #start(turn: OpenTurn, key: string, at: number, name: string, callId: string, input: () => string): void {
    const { run, agent, place: parent } = turn
    const tool = this.#spans.start({
      name: `execute_tool ${name}`,
      kind: 'internal',
      at,
      parent,
      attributes: {
        ...toolAttributes(run, agent, name, callId),
        'gen_ai.tool.call.arguments': this.#spans.content(input),
      },
    })
    turn.tools.set(key, tool)
  }

  #end(turn: OpenTurn, key: string, ended: number, memory: Memory, at: number): void {
    const span = this.#take(turn, key)
    if (!span) return
    const error = isFailure(memory, at) ? errorOf(memory, at) : undefined
    if (!error) span.set({ 'gen_ai.tool.call.result': this.#spans.content(() => readBody(memory, at).data ?? '') })
    span.end(ended, error)
  }

  #take({ tools }: OpenTurn, key: string): Span | undefined {
    const span = tools.get(key)
    tools.delete(key)
    return span
  }
}

const STEP = 'step '
const keyOfCall = (correlation: number) => `call ${correlation}`
const callKey = (memory: Memory, at: number) => keyOfCall(correlationOf(memory, at))
const stepKey = (memory: Memory, at: number) => `${STEP}${stepOf(memory, at)}`
