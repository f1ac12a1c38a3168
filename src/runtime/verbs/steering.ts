/**
 * Takes words that people say to a run while it works, and puts them into the prompts of its model agents: last in the
 * next call of each, from where the thread of the agent keeps them.
 */

import { tooLarge } from '../../actors/definition/checks.ts'
import { asJson, type Content, messageParts, textOf, withText } from '../../actors/definition/content.ts'
import { type ModelAnswer, type ModelCall, type ModelMessage, NO_TOKENS } from '../../actors/definition/model.ts'
import type { Guardrail } from '../../actors/definition/role.ts'
import { asksForSummary } from '../../actors/model/summary.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { ASKS, copyId, MANY, NOBODY, readBody, SEND, senderOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { withParts } from '../../mailbox/parts.ts'
import { isObject, noSuchOption, refused } from '../../shared/checks.ts'
import {
  CancelledError,
  type DramatisError,
  type ErrorCode,
  RunEndedError,
  shown,
  UnknownAgentError,
} from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { HostMessages } from '../host/admission.ts'
import type { Agent, OpenRequest } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { USER_INDEX } from '../host/directory.ts'
import { whoAnswered } from '../host/handed-answers.ts'
import { asksLastSpeaker } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import { ANSWER_ANEW, STEERED, type SteerWords } from '../host/steering.ts'
import type { RecordOf, Unrecorded } from '../log/records.ts'
import { type Answerer, answererIn, LONGEST_ID } from './approvals.ts'
import { answerIn, type MadeCall, type MakeOnce, type ModelCaller } from './gateway.ts'
import { type GuardedPlace, type Guards, isBefore, isBeside } from './guards.ts'

/** Options of `run.steer`. */
export interface SteerOptions {
  /** Name of the only agent that gets the words. Default: all agents of the run get them. */
  to?: string
  /** 'next' (default): with the next call of a model. 'interrupt': calls of models under way are cut and made anew. */
  when?: 'next' | 'interrupt'
  /** The same id is the same words: they are taken once. Default: a new id. */
  id?: string
  /** Person who says it: the log and the event say so. */
  by?: Answerer
}

/** @throws ConfigurationError that names the option, what came and what is accepted. */
export function readSteerOptions(given: SteerOptions): SteerOptions {
  if (!isObject(given)) throw refused('options', given, 'an object')
  const { to, when, id, by, ...others } = given
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw noSuchOption(unknown, unknown, ['to', 'when', 'id', 'by'])
  const isName = (name: unknown) => typeof name === 'string' && name !== '' && name.length <= LONGEST_ID
  for (const [option, value] of Object.entries({ to, id }))
    if (value !== undefined && !isName(value)) throw refused(option, value, `a text of 1 to ${LONGEST_ID} characters`)
  if (when !== undefined && when !== 'next' && when !== 'interrupt') throw refused('when', when, '"next", "interrupt"')
  return { ...given, ...(by !== undefined && { by: answererIn(by) }) }
}

/** A call of a model that is under way. */
interface OpenCall {
  readonly caller: ModelCaller
  readonly cut: AbortController
  /** True if somebody has read words of it who cannot take them back. */
  isRead: boolean
}

export class Steers {
  readonly #core: Core
  readonly #guards: Guards
  readonly #hostMessages: HostMessages
  /** Calls of models that hear words, in the order of their begin. */
  readonly #open = new Set<OpenCall>()
  /** Words that are being checked, by run and id. */
  readonly #checked = new Map<string, Promise<SteerWords>>()

  constructor(core: Core, guards: Guards, hostMessages: HostMessages) {
    this.#core = core
    this.#guards = guards
    this.#hostMessages = hostMessages
  }

  /**
   * Takes words for a run. `checks`: guardrails of the team. Resolves when they are logged.
   *
   * Rejects with `RunEndedError`, `GuardrailError`, `UnknownAgentError`, and `MessageRejectedError` for words that are
   * too large.
   */
  async say(
    run: RunState,
    content: Content,
    { id = this.#core.frames.id(), ...options }: SteerOptions,
    checks: readonly Guardrail<string>[],
  ): Promise<SteerWords> {
    const known = run.steering?.words.get(id)
    if (known) return known
    assertGoesOn(run)
    const key = `${run.index} ${id}`
    const before = this.#checked.get(key)
    if (before) return before
    const words = this.#take(run, content, { ...options, id }, checks)
    this.#checked.set(key, words)
    try {
      return await words
    } finally {
      this.#checked.delete(key)
    }
  }

  async #take(
    run: RunState,
    given: Content,
    { id, to: agent, when, by }: SteerOptions & { id: string },
    checks: readonly Guardrail<string>[],
  ): Promise<SteerWords> {
    const { directory, journal, parts } = this.#core
    const to = agent ?? null
    const addressed = to === null ? directory.agents(run) : [this.#recipient(run, to)]
    const readers = addressed.filter(({ settings }) => settings.playedByModel)
    let text = textOf(given)
    for (const [whose, all] of [[null, checks] as const, ...readers.map(inputChecksOf)])
      if (all.length > 0) text = await this.#passed(all, text, { run, agent: whose, on: 'input' })
    assertGoesOn(run)
    const changed = text === textOf(given) || typeof given === 'string' ? given : withText(messageParts(given), text)
    const content = typeof changed === 'string' ? undefined : asJson(changed, parts.keeperFor(run))
    const { maxMessageBytes } = directory.byIndex[USER_INDEX]!.settings.mailbox
    const bytes = Buffer.byteLength(JSON.stringify(content ?? text))
    if (bytes > maxMessageBytes) throw tooLarge(bytes, maxMessageBytes)
    const interrupts = when === 'interrupt'
    const record = journal.record(run, {
      kind: 'steer',
      ...{ steerId: id, text, to, by: by?.id ?? null },
      ...(content && { content }),
      ...(interrupts && { interrupts }),
    })
    run.steered(record)
    const words = run.steering!.words.get(id)!
    this.#tell(
      run,
      words,
      addressed.filter(({ settings }) => !settings.playedByModel),
    )
    if (interrupts) for (const { name } of readers) this.#cut(run, name)
    return words
  }

  #recipient(run: RunState, to: string): Agent {
    const agent = this.#core.directory.agent(to, run)
    if (agent?.settings.isAgent && !agent.removed) return agent
    throw new UnknownAgentError(`to: no agent of this run is named ${shown(to)}.`, { path: 'to', agent: to })
  }

  async #passed(checks: readonly Guardrail<string>[], text: string, place: GuardedPlace): Promise<string> {
    const { ended } = place.run
    try {
      const passed = await this.#guards.inOrder(checks.filter(isBefore), text, place, ended)
      await this.#guards.atOnce(checks.filter(isBeside), passed, place, ended)
      return passed
    } catch (error) {
      assertGoesOn(place.run) // the end of a run cuts its checks: they have refused nothing
      throw error
    }
  }

  /** Tells agents with code, for their `observe`. A message that one of them refuses is a dead letter. */
  #tell(run: RunState, { id, text, content }: SteerWords, agents: readonly Agent[]): void {
    if (agents.length === 0) return
    const { directory, frames, journal } = this.#core
    const user = directory.byIndex[USER_INDEX]!
    const { threadId } = run
    const parts = typeof content === 'string' ? undefined : messageParts(content)
    const fields = {
      ...({ kind: SEND, type: 'broadcast', sender: USER_INDEX, run: run.index, content: text } as const),
      metadata: JSON.stringify(withParts({ steerId: id }, parts)),
      name: JSON.stringify(agents.map(({ name }) => name)),
      ...(threadId !== undefined && { threadId }),
    }
    const said = frames.make({ ...fields, recipient: NOBODY, flags: MANY, correlation: 0 })
    journal.appendOwned(run, said.memory, said.bytes)
    for (const { index } of agents) {
      const correlation = this.#hostMessages.number()
      const copy = frames.make({ ...fields, recipient: index, flags: MANY | ASKS, correlation })
      copyId(said.memory, 0, copy.memory, 0)
      this.#hostMessages.post(user, run, copy, () => {})
    }
  }

  /** Cuts the oldest call of that agent whose words can be taken back: one prompt with the words is enough. */
  #cut(run: RunState, agent: string): void {
    for (const { caller, cut, isRead } of this.#open)
      if (caller.run === run && caller.agent.name === agent && !isRead && !cut.signal.aborted)
        return cut.abort(INTERRUPTED)
  }

  /**
   * Has a model answer, with the words that its agent has not read: last in the prompt. What `make` throws, this
   * throws.
   */
  async answer(
    caller: ModelCaller,
    call: ModelCall,
    { make, signal, onText }: { make: MakeOnce; signal: AbortSignal; onText: (text: string) => void },
  ): Promise<ModelAnswer> {
    const { agent, run } = caller
    if (!agent.settings.playedByModel || asksForSummary(call.messages))
      return answerIn(await make(caller, call, signal, onText))
    const heard = this.#begun(caller)
    let [asked, superseded] = [caller, false]
    for (;;) {
      heard.push(...this.#unread(caller, superseded))
      const words = heard.filter(({ id }) => !call.messages.some((message) => message.steerId === id))
      const messages = words.map(messageOf)
      const open: OpenCall = { caller, cut: new AbortController(), isRead: false }
      this.#open.add(open)
      const detach = onAbort(signal, () => open.cut.abort(signal.reason))
      let made: MadeCall
      try {
        made = await make(
          words.length === 0 ? asked : { ...asked, steerIds: words.map(({ id }) => id) },
          words.length === 0 ? call : { ...call, messages: [...call.messages, ...messages] },
          open.cut.signal,
          (text) => {
            open.isRead ||= call.watched?.answerOf !== 'run'
            onText(text)
          },
        )
        if (!made.answer && !isCut(open)) throw made.error
      } catch (error) {
        if (!isCut(open) || signal.aborted) {
          if (words.length > 0 && !run.over)
            this.#record(run, { kind: 'steer.again', agent: agent.name, callId: caller.callId })
          throw error
        }
        made = { answer: undefined, usage: NO_TOKENS, error: undefined }
      } finally {
        detach()
        this.#open.delete(open)
      }
      superseded = made.answer !== undefined && !open.isRead && this.#supersedes(caller, made.answer)
      if (made.answer && !superseded) return messages.length > 0 ? { ...made.answer, steered: messages } : made.answer
      if (made.heard === undefined) continue
      asked = { ...asked, isRetried: true }
      if (call.watched)
        this.#record(run, {
          kind: 'model.superseded',
          ...{ agent: agent.name, callId: caller.callId, ...call.watched, reason: 'steered' },
        })
    }
  }

  /**
   * Asks the agent that has given the answer of a run again, if words have come since that it has not read: while
   * checks of the answer, or a script behind it, were at work. Returns false if the answer stands. `settle`: takes the
   * next answer.
   */
  asksAgain(run: RunState, answer: string, settle: NonNullable<OpenRequest['settle']>): boolean {
    const { steering } = run
    if (!steering?.maySupersede || run.over || run.ending) return false
    const target = whoAnswered(this.#core, run, answer)
    if (!target?.settings.playedByModel || target.stopped || steering.unreadBy(target.name).length === 0) return false
    const metadata = JSON.stringify({ [STEERED]: steering.superseded + 1 })
    this.#hostMessages.ask({ target, run, question: { content: ANSWER_ANEW, metadata }, settle })
    return true
  }

  /** Makes words unread again that were read in calls behind these: the answer of the run has nothing of them. */
  unreadSince(run: RunState, calls: ReadonlySet<string>): void {
    for (const { callId, agent } of run.steering?.calls ?? [])
      if (!calls.has(callId)) this.#record(run, { kind: 'steer.again', agent, callId })
  }

  /** Returns the words that the prompt of the call has had in an earlier process. */
  #begun({ run, callId, isAgain }: ModelCaller): SteerWords[] {
    return (isAgain && run.steering?.ofCall(callId)) || []
  }

  /** Has the agent read what it has not read, and returns it. */
  #unread(caller: ModelCaller, superseded: boolean): SteerWords[] {
    const { agent, run, callId, turn } = caller
    const { steering } = run
    if (!steering) return []
    const unread = steering.unreadBy(agent.name)
    const messageId = agent.messageIdOf(turn) ?? ''
    const answers = superseded ? steering.superseded + 1 : supersededBy(agent.messageOf(turn))
    const count = answers > 0 ? { superseded: answers } : {}
    for (const { id: steerId } of unread)
      this.#record(run, { kind: 'steer.read', steerId, agent: agent.name, messageId, callId, ...count })
    return unread
  }

  #record(run: RunState, fields: Unrecorded): void {
    const record = this.#core.journal.record(run, fields)
    if (record.kind !== 'model.superseded') run.steered(record)
  }

  /** Checks whether words that the agent has not read keep its answer from being that of the run. */
  #supersedes({ agent, run, turn }: ModelCaller, { toolCalls }: ModelAnswer): boolean {
    const { steering } = run
    if (!steering?.maySupersede || run.over || steering.unreadBy(agent.name).length === 0) return false
    const asked = agent.messageOf(turn)
    if (!asked || asked.handedOff || !asksLastSpeaker(asked.memory, asked.at)) return false
    return toolCalls.length === 0 || toolCalls.some(({ name }) => name === FINISH)
  }
}

/** Verb of a model that ends the whole task. */
const FINISH = 'finish'

/** Returns the number of answers that were superseded when that message was sent; 0 for another one. */
function supersededBy(asked: Envelope<RunState> | undefined): number {
  if (!asked || senderOf(asked.memory, asked.at) !== USER_INDEX) return 0
  return Number(Object(jsonIn(readBody(asked.memory, asked.at).metadata))[STEERED] ?? 0)
}

const INTERRUPTED = new CancelledError(
  'Somebody has said something to the run, which the model is asked with anew.',
  {},
)

const isCut = ({ cut }: OpenCall): boolean => cut.signal.reason === INTERRUPTED

const messageOf = ({ id, content }: SteerWords): ModelMessage => ({ role: 'user', content, steerId: id })

const inputChecksOf = ({ name, settings }: Agent) => [name, settings.guards.input] as const

function assertGoesOn(run: RunState): void {
  if (run.over || run.ending) throw hasEnded(run, false, run.ending)
}

/** Codes of a team that does not go on with its runs: somebody else does. */
const ELSEWHERE: readonly ErrorCode[] = ['TEAM_CLOSED', 'LOG_LOST']

/**
 * Returns the error for words to a run that does not go on. `isLeft`: it has no end, and does not go on here; `error`:
 * what it has ended with.
 */
export function hasEnded(
  { id, threadId }: RunState,
  isLeft: boolean,
  error: DramatisError | null | undefined,
): DramatisError {
  if (error && ELSEWHERE.includes(error.code)) return error
  const next = threadId === undefined ? 'begin another' : `send it as the next message of thread ${shown(threadId)}`
  const text = isLeft ? 'The task is interrupted; go on with it first (team.resume).' : `The task has ended; ${next}.`
  return new RunEndedError(text, { runId: id, ...(threadId !== undefined && { threadId }) })
}

/** Writes into the log of a run that ends which words nobody has read whom they were for. */
export function recordUnread(core: Core, run: RunState, speaker: string | null): void {
  const agent = speaker === null ? undefined : core.directory.agent(speaker, run)
  const model = agent?.settings.playedByModel ? speaker : null
  for (const { id: steerId, text, to, by } of run.steering?.leftUnread(model) ?? []) {
    const fields = { steerId, text, to, by }
    run.steered(core.journal.record(run, { kind: 'steer.unread', ...fields }) as RecordOf<'steer.unread'>)
  }
}
