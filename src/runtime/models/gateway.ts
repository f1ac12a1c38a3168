/**
 * The way of a model call: the one place in the host where a call leaves the team. No thread ever speaks with a provider, so
 * that no thread has a key, and a call whose thread dies goes on: its answer is in the log for who comes after.
 */
import {
  addUsage,
  type ModelAnswer,
  type ModelCall,
  NO_TOKENS,
  type TokenUsage,
} from '../../actors/definition/model.ts'
import { readAsAnswer } from '../../actors/model/answer-function.ts'
import type { Scheduler } from '../../clock.ts'
import { DramatisError, describe, MessageRejectedError, ModelError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import type { Unrecorded } from '../log/records.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { ResolvedModel } from '../providers/client.ts'
import { collect, nothingYet } from '../providers/collect.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { HostVerb } from '../verbs/host-verb.ts'

/** Who asks. */
export interface ModelCaller {
  readonly cell: Cell
  readonly run: RunState
  readonly turn: number
}

/** Which model an agent means in that run. `wanted` is a name in the team's `models`; undefined: the default. */
export type ResolveModel = (wanted: string | undefined, caller: ModelCaller) => ResolvedModel

/** A call that is about to be made. */
export interface PendingCall extends ResolvedModel {
  readonly caller: ModelCaller
  readonly call: ModelCall
  readonly signal: AbortSignal
}

/** What was called, and what it cost, also where it failed. */
export interface MadeCall {
  readonly answer: ModelAnswer | undefined
  readonly usage: TokenUsage
  readonly error: DramatisError | undefined
}

/**
 * What goes around each call, the first outermost: a budget that is reserved before and settled after, a span. It calls `next`
 * once, with what it was given or with another call in its place, or throws what keeps the call from being made.
 */
export type GatewayLayer = (pending: PendingCall, next: MakeCall) => Promise<MadeCall>

export type MakeCall = (pending: PendingCall) => Promise<MadeCall>

export interface GatewayOptions {
  readonly clock: Scheduler
  readonly resolve: ResolveModel
  readonly record: (run: RunState, record: Unrecorded) => void
  readonly layers?: readonly GatewayLayer[]
  /** Takes keys out of what is said of a failure. */
  readonly redactor: Redactor
}

export class ModelGateway {
  readonly #options: GatewayOptions

  constructor(options: GatewayOptions) {
    this.#options = options
  }

  /** As turns reach it. */
  readonly verb: HostVerb = async (args, { cell, run, turn, say }, signal) =>
    this.call({ cell, run, turn }, checked(args), signal, say)

  async call(
    caller: ModelCaller,
    call: ModelCall,
    signal: AbortSignal,
    onText: (text: string) => void,
  ): Promise<ModelAnswer> {
    const { clock, resolve, layers = [] } = this.#options
    const resolved = resolve(call.model, caller)
    const make: MakeCall = (asked) => this.#make(asked, call.stream ? onText : () => {})
    const layered = layers.reduceRight<MakeCall>((next, layer) => (asked) => layer(asked, next), make)
    const ending = new AbortController()
    const detach = onAbort(signal, () => ending.abort(signal.reason))
    const { modelTimeoutMs } = caller.cell.settings
    const timer = clock.timer(modelTimeoutMs, () => ending.abort(tooLate(caller, resolved.model, modelTimeoutMs)), true)
    try {
      const { answer, error } = await layered({ ...resolved, caller, call, signal: ending.signal })
      if (answer) return answer
      throw error
    } finally {
      detach()
      timer.cancel()
    }
  }

  async #make(pending: PendingCall, onText: (text: string) => void): Promise<MadeCall> {
    const { clock, record, redactor } = this.#options
    const { caller, client, model, call, signal } = pending
    const { messages, tools = [], ...rest } = call
    const collected = nothingYet()
    const pieces = redactor.pieces(onText)
    const began = clock.monotonic()
    let error: DramatisError | undefined
    try {
      const request = {
        ...rest,
        model,
        messages: [...messages],
        ...(tools.length > 0 && { tools: [...tools] }),
        agent: caller.cell.name,
        runId: caller.run.id,
        clock,
        timeoutMs: caller.cell.settings.modelTimeoutMs,
        signal,
      }
      await collect(client, request, collected, (text) => pieces.push(text))
      pieces.end()
    } catch (thrown) {
      const { reason } = signal
      error = reason instanceof ModelError ? reason : this.#failure(thrown, pending)
    }
    const said = readAsAnswer(redactor.data(collected), call.answerFunction)
    const { text, toolCalls, finishReason = toolCalls.length > 0 ? 'tool_calls' : 'stop' } = said
    const usage = collected.usage.calls > 0 ? collected.usage : addUsage(collected.usage, ONE_CALL)
    const rehearsed = client.rehearsal === true
    record(caller.run, {
      kind: 'model.called',
      agent: caller.cell.name,
      index: caller.cell.index,
      turn: caller.turn,
      model,
      usage,
      durationMs: clock.monotonic() - began,
      rehearsed,
      error: error ?? null,
    })
    if (error) return { answer: undefined, usage, error }
    return { answer: { text, toolCalls, usage, finishReason, rehearsed, model }, usage, error }
  }

  /** The one place where what a client throws becomes what others get to see. */
  #failure(thrown: unknown, { caller, model }: PendingCall): DramatisError {
    const { redactor } = this.#options
    const agent = caller.cell.name
    if (thrown instanceof DramatisError && !(thrown instanceof ModelError)) return redactor.fields(thrown)
    const what = redactor.text(thrown instanceof ModelError ? thrown.message : describe(thrown))
    const details = thrown instanceof ModelError ? redactor.fields(thrown.details) : {}
    const said = { reason: 'other', ...details, agent, model }
    return new ModelError(`The model "${model}" has no answer for "${agent}": ${what}`, said)
  }
}

/** What a call ends with whose time is up. */
function tooLate({ cell }: ModelCaller, model: string, timeoutMs: number): ModelError {
  const text = `The model "${model}" has no answer for "${cell.name}": it did not answer within ${timeoutMs} ms, retries and waits included (communication.modelTimeoutMs). Raise it, or ask for less at once.`
  return new ModelError(text, { reason: 'timeout', agent: cell.name, model, timeoutMs, retryable: false })
}

const ONE_CALL: TokenUsage = { ...NO_TOKENS, calls: 1 }

/** It comes from a thread, where the user's code is. */
function checked(args: unknown): ModelCall {
  const { messages } = Object(args) as { messages?: unknown }
  if (!Array.isArray(messages) || !messages.every(isMessage))
    throw new MessageRejectedError('messages: a list of { role, content } is needed.', { path: 'messages' })
  return args as ModelCall
}

function isMessage(message: unknown): boolean {
  const { role, content } = Object(message) as { role?: unknown; content?: unknown }
  return typeof role === 'string' && typeof content === 'string'
}
