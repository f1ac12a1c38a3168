/**
 * The world outside of the team in a play of an old run: models, tools, people and steps. Each answers what it answered
 * then, at the same time since the start of the run. What the old run did not ask for is answered by the caller of the
 * play, or fails.
 */

import { YES } from '../../actors/definition/approval.ts'
import type { AgentContext } from '../../actors/definition/context.ts'
import type { AgentHandlers } from '../../actors/definition/definition.ts'
import type { ModelAnswer, ModelCall } from '../../actors/definition/model.ts'
import { REMOTE, type Verb } from '../../actors/definition/role.ts'
import { idFrom } from '../../mailbox/frame.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { CancelledError, DramatisError, describe, StepMismatchError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { seededRandom } from '../../shared/random.ts'
import type { RunState } from '../host/run.ts'
import { outputField } from '../log/host-frames.ts'
import type { LogEntry, Unrecorded } from '../log/records.ts'
import type { HostCaller, HostVerb } from '../verbs/calls.ts'
import type { ToolCall } from '../verbs/host-tools.ts'
import { aroundTurns } from './faults.ts'
import type { PlayedEffect, PlayedTurn, Prompter } from './mismatches.ts'
import { APPROVAL, type Asked, askedBy, type OldEffect } from './old-turns.ts'
import type { SteppedClock } from './virtual-clock.ts'

/** Something that the old run did not ask for. `input`: null for a step. */
export interface UnknownAsked extends Asked {
  readonly agent: string
}

interface Needs {
  readonly clock: SteppedClock
  readonly prompter: Prompter
  /** Answers what the old run did not ask for; undefined: nobody does. */
  answer?(asked: UnknownAsked): unknown
  messageOf(agent: string, id: string): TypedMessage | undefined
  answerPerson(questionId: string, answer: string): Promise<void>
}

export class OldWorld {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  #turn(agent: string, messageId: string): PlayedTurn | undefined {
    const { messageOf, prompter } = this.#needs
    const message = messageOf(agent, messageId)
    return message && prompter.turnOf(agent, message)
  }

  /** Returns the handlers of an agent, whose steps, readings of the clock and random values are the old ones. */
  around(agent: string, handlers: AgentHandlers): AgentHandlers {
    return aroundTurns(handlers, async (message, context, work) => {
      const turn = this.#turn(agent, message.id)
      if (turn) this.#prompt(turn, context)
      try {
        return await work()
      } finally {
        if (turn) turn.hasEnded = !context.signal.aborted
      }
    })
  }

  #prompt(turn: PlayedTurn, context: AgentContext): void {
    const { old } = turn
    turn.attempts += 1
    const step = context.step.bind(context)
    context.step = <T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }) =>
      typeof name === 'string'
        ? step(name, async () => (await this.#outcomeOf(turn, { kind: 'step', name, input: null })) as T, options)
        : step(name, run, options) // refused there
    if (!old) return
    const now = context.now.bind(context)
    turn.readings = 0 // another attempt reads the same
    context.now = () => old.readings[turn.readings++] ?? now()
    context.random = seededRandom(idFrom(old.message.id))
  }

  /** Returns a verb of the host as it is in this world. `record`: logs what readers of the run expect. */
  serve(verb: Verb, real: HostVerb, record: Recording): HostVerb {
    if (verb === 'tool.simulated') return () => true // so that the host is asked
    if (verb !== 'model' && verb !== 'tool' && verb !== REMOTE && verb !== 'ask' && verb !== 'approve') return real
    return (args, caller, signal) => {
      const asked = askedBy(verb, Object(args))
      const turn = asked && this.#turn(caller.agent.name, caller.agent.messageIdOf(caller.turn))
      if (!turn) return real(args, caller, signal)
      if (asked.name === APPROVAL && asked.kind === 'question') return this.#approval(turn, asked, verb, signal)
      if (asked.kind === 'question') return this.#person(turn, asked, () => real(args, caller, signal), caller)
      const began = this.#needs.clock.monotonic()
      const outcome = this.#outcomeOf(turn, asked, signal)
      const tookMs = () => this.#needs.clock.monotonic() - began
      if (asked.kind === 'model') return modelCall(outcome, Object(args), caller, { tookMs, record })
      return toolCall(outcome, { callId: caller.callId, ...Object(args), ...asked }, caller, { tookMs, record })
    }
  }

  /** Answers as the person did. A log of an earlier version has the call alone, which is answered as a whole. */
  async #approval(turn: PlayedTurn, asked: Asked, verb: Verb, signal: AbortSignal): Promise<unknown> {
    if (turn.old?.effects.some(({ kind, name }) => kind === 'question' && name === APPROVAL))
      return this.#outcomeOf(turn, asked, signal)
    return verb === 'approve' ? undefined : YES
  }

  /** Asks the real question, so that the run has it, and answers it. */
  async #person(turn: PlayedTurn, asked: Asked, ask: () => unknown, { callId }: HostCaller): Promise<unknown> {
    const { answerPerson, prompter } = this.#needs
    const played = prompter.ask(turn, asked)
    const { effect, isBehind } = played
    if (!effect && !isBehind) return this.#unknown(turn, played)
    const { outcome } = effect ?? {}
    const answered = Promise.resolve(ask())
    if (!outcome || 'error' in outcome) return answered // nobody answered then
    const { value } = outcome
    const answering = this.#until(effect!).then(() => answerPerson(callId, String(value)))
    await Promise.race([answered, answering])
    return answered
  }

  async #outcomeOf(turn: PlayedTurn, asked: Asked, signal?: AbortSignal): Promise<unknown> {
    const { prompter } = this.#needs
    const played = prompter.ask(turn, asked)
    const { effect, isBehind } = played
    if (!effect && !isBehind) return this.#unknown(turn, played)
    if (!effect?.outcome) return unanswered(signal)
    const { outcome } = effect
    await this.#until(effect, signal)
    if ('error' in outcome) throw asked.kind === 'step' ? thrownBy(outcome.error) : outcome.error
    return outcome.value
  }

  /** Waits for the time at which the old answer came: so all answers come in the old order. */
  #until({ settledAtMs }: OldEffect, signal?: AbortSignal): Promise<void> {
    const { clock } = this.#needs
    return clock.sleep(Math.max(0, settledAtMs - clock.monotonic()), signal)
  }

  async #unknown({ agent }: PlayedTurn, played: PlayedEffect): Promise<unknown> {
    const { answer, clock } = this.#needs
    const { kind, name, input } = played
    const value = answer && (await clock.outside(Promise.resolve(answer({ agent, kind, name, input }))))
    played.isAnswered = value !== undefined
    if (played.isAnswered) return value
    const what = kind === 'question' ? 'a question to a person' : `the ${kind} "${name}"`
    const text = `Agent "${agent}" came to ${what}, and the old run did not ask for that there, so its log has no answer.`
    throw new StepMismatchError(text, { agent, kind, name })
  }
}

export type Recording = (run: RunState, record: Unrecorded) => LogEntry

interface Reported {
  readonly record: Recording
  tookMs(): number
}

async function modelCall(
  outcome: Promise<unknown>,
  { messages = [], stream }: Partial<ModelCall>,
  { run, agent, turn, callId, say }: HostCaller,
  { record, tookMs }: Reported,
): Promise<unknown> {
  const answer = (await outcome) as ModelAnswer
  const { usage, model, rehearsed, text, steered = [] } = answer
  const messageId = agent.messageIdOf(turn) ?? ''
  const unread = new Set(run.steering?.unreadBy(agent.name).map(({ id }) => id))
  for (const { steerId = '' } of [...messages, ...steered])
    if (unread.delete(steerId))
      run.steered(record(run, { kind: 'steer.read', steerId, agent: agent.name, messageId, callId }))
  const of = { agent: agent.name, index: agent.index, turn, messageId: agent.messageIdOf(turn) }
  record(run, { kind: 'model.called', ...of, model, usage, durationMs: tookMs(), rehearsed, error: null })
  if (stream && text !== '') say(text)
  return answer
}

export async function toolCall(
  outcome: Promise<unknown>,
  { name, input, callId }: Partial<ToolCall>,
  { run, agent, turn }: HostCaller,
  { record, tookMs }: Reported,
): Promise<unknown> {
  const call = { agent: agent.name, messageId: agent.messageIdOf(turn), callId: String(callId), tool: String(name) }
  record(run, { kind: 'tool.started', ...call, input })
  let error: DramatisError | null = null
  let output: string | undefined
  try {
    const said = await outcome
    output = JSON.stringify(said)
    return said
  } catch (thrown) {
    error = thrown instanceof DramatisError ? thrown : new CancelledError(describe(thrown), {})
    throw thrown
  } finally {
    record(run, { kind: 'tool.finished', ...call, durationMs: tookMs(), ...outputField(output), error })
  }
}

/** A wait whose end the log does not have: it lasts until its turn or the play ends. */
function unanswered(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    if (signal) onAbort(signal, () => reject(signal.reason))
  })
}

/** Returns what the function of a step threw, as far as the log has it: code may have caught it. */
export function thrownBy(error: DramatisError): Error {
  const { cause } = error
  if (error.code !== 'AGENT_FAILED' || !(cause instanceof Error)) return error
  const [, name, message] = /^(\w+): ([\s\S]*)$/.exec(cause.message) ?? []
  return message === undefined ? cause : Object.assign(new Error(message), { name, stack: cause.stack })
}
