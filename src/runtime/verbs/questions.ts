/**
 * Questions of agents to a person. Each is an event of its run, and any holder of a handle of the run can answer it. A
 * question is logged like any call to the host. So it stays open when the thread of its agent dies, and a retried turn
 * does not ask it again once it is answered.
 */
import type { Verb } from '../../actors/definition/trust.ts'
import type { Scheduler } from '../../clock.ts'
import { ConfigurationError, MessageRejectedError, RequestTimeoutError, shown } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import type { DeadlinePauses } from './deadline-pauses.ts'
import type { HostVerb, VerbWaiter } from './host-verb.ts'

interface Needs {
  readonly clock: Scheduler
  readonly frames: HostFrames
  readonly journal: Journal
  readonly loop: HostLoop
  readonly pauses: DeadlinePauses
}

/** Arguments of `ask`. `timeoutMs`: time limit for the answer. */
export interface AskRequest {
  question: string
  choices?: string[]
  timeoutMs?: number
  /** 'approval': the question is about a call of a tool. */
  ask?: 'approval'
}

/** Longest text of a question or choice, since it travels with events and stays in the log. */
const LONGEST = 24_000 // an approval contains the whole input of a tool
const MOST_CHOICES = 100

/** Asks the holders of a handle of the run. The time that the person takes counts for no deadline. */
export type AskPerson = (waiter: VerbWaiter, question: object, signal: AbortSignal) => Promise<string>

export const personVerbs = (ask: AskPerson): [Verb, HostVerb][] => [
  ['ask', (args, caller, signal) => ask(caller, args as object, signal)],
]

/** Makes the function that asks. `hasHandle` checks whether a caller can have a handle of that run, and so answer. */
export const asksPerson =
  (needs: Needs, hasHandle: (run: RunState) => boolean): AskPerson =>
  (waiter, question, signal) => {
    const { cell, run } = waiter
    const { callId } = waiter // the same in a later process, so that the answer finds it
    const questionId = callId === undefined || run.questions.has(callId) ? needs.frames.id() : callId
    if (hasHandle(run))
      return needs.pauses.during(waiter, () => askPerson(needs, cell, run, questionId, question, signal))
    const text = `ask: nobody can answer agent "${cell.name}" here: a message from outside of any run began this turn. Ask in a run, which has a handle with answer().`
    throw new ConfigurationError(text, { path: 'ask', agent: cell.name })
  }

/** Adds the question to the run's events, and waits for the answer. */
function askPerson(
  needs: Needs,
  { name, settings }: Cell,
  run: RunState,
  questionId: string,
  request: object,
  signal: AbortSignal,
): Promise<string> {
  const { question: text, choices, ask = 'ask', ...limits } = checked(request)
  const { timeoutMs = settings.questionTimeoutMs } = limits
  const given = answeredBefore(run, questionId)
  if (given !== undefined) return Promise.resolve(given)
  return new Promise((resolve, reject) => {
    const close = () => {
      run.questions.delete(questionId)
      timer?.cancel()
      stop()
    }
    const stop = onAbort(signal, () => {
      close()
      reject(signal.reason)
    })
    const before = askedBefore(run, questionId)
    const passedMs = Math.max(0, needs.clock.now() - (before ?? needs.clock.now())) // by wall clock
    const timer =
      timeoutMs === false
        ? undefined
        : needs.clock.timer(Math.max(0, timeoutMs - passedMs), () => {
            close()
            reject(unanswered(name, text, timeoutMs))
            needs.loop.wake()
          })
    run.questions.set(questionId, {
      agent: name,
      text,
      choices,
      askedAt: before ?? needs.clock.now(),
      settle(answer) {
        close()
        needs.journal.record(run, { kind: 'answer', agent: name, questionId, answer })
        resolve(answer)
        needs.loop.wake()
      },
    })
    if (before !== undefined) return // its event is in the log already
    needs.journal.record(run, { kind: 'question', agent: name, questionId, ask, text, ...(choices && { choices }) })
  })
}

/** Returns the time at which an earlier process has asked that question; undefined if none has. */
function askedBefore({ log }: RunState, questionId: string): number | undefined {
  for (const entry of log.entries(-1, log.adopted))
    if (entry.kind === 'question' && entry.questionId === questionId) return entry.at
  return undefined
}

/** Returns the answer that a person has given while no process had the log. */
function answeredBefore({ log }: RunState, questionId: string): string | undefined {
  for (const entry of log.entries(-1, log.adopted))
    if (entry.kind === 'answer' && entry.questionId === questionId) return entry.answer
  return undefined
}

/** Answers a question. Throws if there is no such question, or the answer is none of its choices. */
export function answerQuestion({ id, questions }: RunState, questionId: string, answer: string): void {
  if (typeof answer !== 'string') throw wrong('answer', answer, 'a string')
  const question = questions.get(questionId)
  if (!question) {
    const open = [...questions.keys()].join(', ') || 'none'
    const text = `questionId: run "${id}" has no open question ${shown(questionId)}: it was answered, was withdrawn, or never was. Open: ${open}.`
    throw new ConfigurationError(text, { path: 'questionId', got: shown(questionId), accepted: open })
  }
  const { choices, agent } = question
  if (choices && !choices.includes(answer))
    throw wrong('answer', answer, choices.map(shown).join(', '), `Agent "${agent}" asked for one of these.`)
  question.settle(answer)
}

/** Returns a sentence that names the questions which nobody has answered yet; '' if there are none. */
export function openQuestionsOf({ questions }: RunState): string {
  const open = Array.from(questions.values(), ({ agent, text }) => `"${agent}" waits for a person: ${shown(text)}`)
  return open.length === 0 ? '' : ` ${open.join('; ')}. Answer with run.answer(), or give the run more time.`
}

function checked(request: object): AskRequest {
  const { question, choices, timeoutMs, ask } = request as Partial<AskRequest>
  if (typeof question !== 'string' || question === '' || question.length > LONGEST)
    throw rejected('question', question, `a text of 1 to ${LONGEST} characters`)
  if (choices !== undefined && !isListOfChoices(choices))
    throw rejected('choices', choices, `a list of 1 to ${MOST_CHOICES} different texts that are not empty`)
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs > 0 && timeoutMs < 2 ** 31))
    throw rejected('timeoutMs', timeoutMs, 'a number of ms above 0 and below 2^31')
  const kind = ask === 'approval' && { ask }
  return { question, ...(choices && { choices }), ...(timeoutMs !== undefined && { timeoutMs }), ...kind }
}

const isListOfChoices = (choices: unknown): choices is string[] =>
  Array.isArray(choices) &&
  choices.length > 0 &&
  choices.length <= MOST_CHOICES &&
  new Set(choices).size === choices.length &&
  choices.every((choice) => typeof choice === 'string' && choice !== '' && choice.length <= LONGEST)

const rejected = (path: string, got: unknown, accepted: string) =>
  new MessageRejectedError(`ask: ${path} is ${shown(got)}; accepted: ${accepted}.`, { path, got: shown(got), accepted })

const wrong = (path: string, got: unknown, accepted: string, advice = '') =>
  new ConfigurationError(`${path}: ${shown(got)} is none of what is accepted: ${accepted}.${advice && ` ${advice}`}`, {
    path,
    got: shown(got),
    accepted,
  })

const unanswered = (agent: string, question: string, timeoutMs: number) =>
  new RequestTimeoutError(
    `Nobody answered the question of agent "${agent}" within ${timeoutMs} ms: ${shown(question)}. Listen to the run's question events and call run.answer(), or give it more time (timeoutMs of the question, or communication.questionTimeoutMs).`,
    { agent, question, timeoutMs },
  )
