/**
 * Questions of agents to a person. Each is an event of its run, and any holder of a handle of the run can answer it. A
 * question is logged like any call to the host. So it stays open when the thread of its agent dies, and a retried turn
 * does not ask it again once it is answered.
 */
import type { ApprovedCall, GivenAnswer } from '../../actors/definition/approval.ts'
import type { Verb } from '../../actors/definition/trust.ts'
import type { Scheduler } from '../../clock.ts'
import { ConfigurationError, MessageRejectedError, RequestTimeoutError, shown } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import type { Shelf } from '../dispatch/shelf.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { OpenQuestion, QuestionEnd } from '../state/open-question.ts'
import type { RunState } from '../state/run-state.ts'
import type { DeadlinePauses } from './deadline-pauses.ts'
import type { HostVerb, VerbWaiter } from './host-verb.ts'
import { answerFields, answerIn, callIn, checkBySchemaOf, LONGEST_TEXT } from './open-question.ts'

interface Needs {
  readonly clock: Scheduler
  readonly frames: HostFrames
  readonly journal: Journal
  readonly loop: HostLoop
  readonly pauses: DeadlinePauses
  readonly shelf: Shelf
}

/** Arguments of `ask`. `answerWithinMs`: time limit for the answer. */
export interface AskRequest extends Partial<ApprovedCall> {
  question: string
  choices?: string[]
  answerWithinMs?: number
  /** 'approval': the question is about a call of a tool. */
  ask?: 'approval'
  /** Name that `answerWithinMs` has in older logs. */
  timeoutMs?: number
}

const MOST_CHOICES = 100

/**
 * Asks the holders of a handle of the run. The time that the person takes counts for no deadline. `checkInput` rejects
 * with `ConfigurationError` for an input that the tool would refuse; default: the JSON schema in the question decides.
 */
export type AskPerson = (
  waiter: VerbWaiter,
  question: object,
  signal: AbortSignal,
  checkInput?: OpenQuestion['checkInput'],
) => Promise<GivenAnswer>

export const personVerbs = (ask: AskPerson): [Verb, HostVerb][] => [
  ['ask', (args, caller, signal) => ask(caller, args as object, signal)],
]

/** Makes the function that asks. `hasHandle` checks whether a caller can have a handle of that run, and so answer. */
export const asksPerson =
  (needs: Needs, hasHandle: (run: RunState) => boolean): AskPerson =>
  (waiter, question, signal, checkInput) => {
    const { cell, run } = waiter
    const { callId } = waiter // the same in a later process, so that the answer finds it
    const questionId = callId === undefined || run.questions.has(callId) ? needs.frames.id() : callId
    if (hasHandle(run))
      return needs.pauses.during(waiter, () => {
        const answer = askPerson(needs, cell, run, { questionId, question, signal, checkInput })
        if (run.questions.has(questionId)) waitsForPerson(needs, waiter)
        return answer
      })
    const text = `ask: nobody can answer agent "${cell.name}" here: a message from outside of any run began this turn. Ask in a run, which has a handle with answer().`
    throw new ConfigurationError(text, { path: 'ask', agent: cell.name })
  }

/** Notes that the call of a turn waits for a person: then the turn may be shelved. */
function waitsForPerson({ shelf }: Needs, { cell, turn, correlation }: VerbWaiter): void {
  const call = cell.first.calls.get(correlation)
  if (!call) return
  call.ofPerson = true
  shelf.consider(cell.first, turn)
}

interface Asking {
  readonly questionId: string
  readonly question: object
  readonly signal: AbortSignal
  readonly checkInput: OpenQuestion['checkInput'] | undefined
}

/** Adds the question to the run's events, and waits for the answer. */
function askPerson(
  needs: Needs,
  { name, settings }: Cell,
  run: RunState,
  { questionId, question, signal, checkInput }: Asking,
): Promise<GivenAnswer> {
  const request = checked(question)
  const { question: text, choices, ask = 'ask' } = request
  const limitMs = request.answerWithinMs ?? request.timeoutMs ?? settings.answerWithinMs
  const call = callIn(request)
  const { asked, given, late } = before(run, questionId)
  if (given !== undefined) return Promise.resolve(given)
  if (late) return Promise.reject(unanswered(name, text, Number(limitMs)))
  const askedAt = asked ?? needs.clock.now()
  return new Promise((resolve, reject) => {
    const close = (how: QuestionEnd) => {
      run.closes(questionId)
      timer?.cancel()
      stop()
      if (how !== 'answered') needs.journal.record(run, { kind: 'question.closed', agent: name, questionId, how })
    }
    const stop = onAbort(signal, () => {
      close('withdrawn')
      reject(signal.reason)
    })
    const passedMs = Math.max(0, needs.clock.now() - askedAt) // by wall clock
    const timer =
      limitMs === false
        ? undefined
        : needs.clock.timer(Math.max(0, limitMs - passedMs), () => {
            close('late')
            reject(unanswered(name, text, limitMs))
            needs.loop.wake()
          })
    run.asks(questionId, {
      agent: name,
      kind: ask,
      text,
      choices,
      call,
      askedAt,
      answerBy: limitMs === false ? null : askedAt + limitMs,
      checkInput: checkInput ?? ((input) => checkBySchemaOf(call, input)),
      settle(answer, by) {
        close('answered')
        needs.journal.record(run, { kind: 'answer', agent: name, questionId, ...answerFields(answer, by) })
        resolve(answer)
        needs.loop.wake()
      },
    })
    if (asked !== undefined) return // its event is in the log already
    const more = { ...(choices && { choices }), ...call }
    needs.journal.record(run, { kind: 'question', agent: name, questionId, ask, text, ...more })
  })
}

/** Records of earlier processes about a question. */
interface Before {
  /** Time at which it was asked, epoch ms. */
  asked?: number
  /** Answer that a person has given, also while no process had the log. */
  given?: GivenAnswer
  late?: true
}

function before({ log }: RunState, questionId: string): Before {
  const found: Before = {}
  for (const entry of log.entries(-1, log.adopted)) {
    if (!('questionId' in entry) || entry.questionId !== questionId) continue
    if (entry.kind === 'question') found.asked = entry.at
    else if (entry.kind === 'answer') found.given = answerIn(entry)
    else if (entry.how === 'late') found.late = true
  }
  return found
}

function checked(request: object): AskRequest {
  const { question, choices, ask, ...more } = request as Partial<AskRequest>
  if (typeof question !== 'string' || question === '' || question.length > LONGEST_TEXT)
    throw rejected('question', question, `a text of 1 to ${LONGEST_TEXT} characters`)
  if (choices !== undefined && !isListOfChoices(choices))
    throw rejected('choices', choices, `a list of 1 to ${MOST_CHOICES} different texts that are not empty`)
  for (const limit of ['answerWithinMs', 'timeoutMs'] as const) {
    const ms = more[limit]
    if (ms !== undefined && !(typeof ms === 'number' && ms > 0 && ms < 2 ** 31))
      throw rejected(limit, ms, 'a number of ms above 0 and below 2^31')
  }
  return { ...more, question, ...(choices && { choices }), ...(ask === 'approval' && { ask }) }
}

const isListOfChoices = (choices: unknown): choices is string[] =>
  Array.isArray(choices) &&
  choices.length > 0 &&
  choices.length <= MOST_CHOICES &&
  new Set(choices).size === choices.length &&
  choices.every((choice) => typeof choice === 'string' && choice !== '' && choice.length <= LONGEST_TEXT)

const rejected = (path: string, got: unknown, accepted: string) =>
  new MessageRejectedError(`ask: ${path} is ${shown(got)}; accepted: ${accepted}.`, { path, got: shown(got), accepted })

const unanswered = (agent: string, question: string, answerWithinMs: number) =>
  new RequestTimeoutError(
    `Nobody answered the question of agent "${agent}" within ${answerWithinMs} ms: ${shown(question)}. Listen to the run's question events and call run.answer(), or give it more time (answerWithinMs of the question, of the tool, or of communication).`,
    { agent, question, answerWithinMs },
  )
