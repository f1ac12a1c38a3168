/**
 * Questions of agents to a person. Each is an event of its run, and any holder of a handle of the run can answer it. A
 * question is logged like any call to the host. So it stays open when the thread of its agent dies, and a retried turn
 * does not ask it again once it is answered.
 */

import { type ApprovalAnswer, type ApprovedCall, type GivenAnswer, NO, YES } from '../../actors/definition/approval.ts'
import type { Verb } from '../../actors/definition/role.ts'
import { checkBySchema } from '../../actors/definition/schema.ts'
import { laterSchema } from '../../json-schema/later-schema.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { jsonFormOf } from '../../mailbox/json.ts'
import { isObject } from '../../shared/checks.ts'
import { ConfigurationError, MessageRejectedError, RequestTimeoutError, shown } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { own } from '../../shared/values.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import type { Suspension } from '../host/permits.ts'
import { callerIn, type OpenQuestion, type QuestionEnd, type RunState } from '../host/run.ts'
import type { Agreed, LogEntry, RecordOf } from '../log/records.ts'
import {
  type AnswerFields,
  type AnswerOptions,
  agreedFields,
  answerFields,
  assertMayAnswer,
  assertShowable,
  callIn,
  checkBySchemaOf,
  isNo,
  isYes,
  isYesTo,
  OpenApproval,
  readAnswerOptions,
} from './approvals.ts'
import type { HostVerb, VerbWaiter } from './calls.ts'
import type { DeadlinePauses } from './deadline-pauses.ts'

/** Longest text of a question, choice or answer, since it travels with events and stays in the log. */
const LONGEST_TEXT = 24_000

/**
 * Question to a person that nobody has answered yet. An approval has the call that it is about: `tool`, `callId`,
 * `input`, `inputSchema`, the JSON schema of the input, and who may approve it: `by`, `groups` and `quorum`.
 */
export interface OpenQuestionInfo extends Partial<ApprovedCall> {
  runId: string
  questionId: string
  /** Agent that asks. */
  agent: string
  kind: 'ask' | 'approval'
  text: string
  choices?: string[]
  /** JSON schema of the object whose JSON text is the answer, where it is not "no". */
  form?: object
  /** Digest of what an approval shows, for who answers. It changes with the input. */
  digest?: string
  /** People who have agreed to that by now. */
  agreed?: readonly Agreed[]
  /** People who have said something to the run. They count as those who began it. */
  steeredBy?: readonly string[]
  /** Epoch ms. */
  askedAt: number
  /** Time until which the question stays open at most, epoch ms; null: as long as the run. */
  answerBy: number | null
}

export function openQuestionsOf({ id, questions, steering }: RunState): OpenQuestionInfo[] {
  const steeredBy = steering?.saidBy ?? []
  return Array.from(
    questions,
    ([questionId, { agent, kind, text, choices, form, call, digest, agreed, askedAt, answerBy }]) => ({
      runId: id,
      questionId,
      agent,
      kind,
      text,
      ...(choices && { choices: [...choices] }),
      ...(form && { form }),
      ...call,
      ...(digest !== undefined && { digest }),
      ...(agreed && { agreed: [...agreed] }),
      ...(kind === 'approval' && steeredBy.length > 0 && { steeredBy }),
      askedAt,
      answerBy,
    }),
  )
}

/**
 * Answers a question. Rejects with `AnswerRefusedError` if it is not theirs, with `ConfigurationError` if the question
 * is not open, or for an answer that it does not take: then it stays open.
 */
export async function answerQuestion(
  run: RunState,
  questionId: string,
  answer: string | ApprovalAnswer,
  options: AnswerOptions = {},
): Promise<void> {
  const who = readAnswerOptions(options)
  const of = { runId: run.id, questionId, caller: callerIn(run.metadata) }
  const mayAnswer = (given: GivenAnswer | undefined): OpenQuestion => {
    const question = openIn(run, questionId)
    const { kind, call, digest, agreed } = question
    const shown = { kind, ...call, digest, agreed, steeredBy: run.steering?.saidBy }
    assertMayAnswer(of, shown, who, given !== undefined && isYesTo(given, question))
    return question
  }
  const question = mayAnswer(undefined)
  const given = givenAnswer(question, answer)
  if (question.form) await assertFits(question.form, given)
  if (typeof given === 'object' && 'input' in given) {
    assertShowable(given.input)
    await question.checkInput(given.input)
  }
  mayAnswer(given).settle(given, who.by?.id) // it may have been closed meanwhile, or be about another input
}

function openIn({ id, log, questions }: RunState, questionId: string): OpenQuestion {
  const question = questions.get(questionId)
  if (question) return question
  const how = endOf(log.entries(), questionId)
  const open = [...questions.keys()].join(', ') || 'none'
  const why = how === undefined ? 'it never was, or the log has given it up' : ENDS[how]
  const text = `questionId: run "${id}" has no open question ${shown(questionId)}: ${why}. Open: ${open}.`
  const details = { path: 'questionId', got: shown(questionId), accepted: open }
  const kind = kindOf(log.entries(), questionId)
  throw new ConfigurationError(text, { ...details, ...(how !== undefined && { how }), ...(kind && { kind }) })
}

/** Returns the kind of a question, by the log; undefined if the log does not say. */
function kindOf(entries: Iterable<LogEntry>, questionId: string): OpenQuestion['kind'] | undefined {
  for (const entry of entries) if (entry.kind === 'question' && entry.questionId === questionId) return entry.ask
  return undefined
}

const ENDS: Readonly<Record<QuestionEnd, string>> = {
  answered: 'it is answered',
  withdrawn: 'it was withdrawn, since nobody waits for its answer any more',
  late: 'its time was up before it was answered',
}

/** Returns how a question was closed, by the log; undefined if the log does not say. */
export function endOf(entries: Iterable<LogEntry>, questionId: string): QuestionEnd | undefined {
  let how: QuestionEnd | undefined
  for (const entry of entries)
    if (entry.kind === 'answer' && entry.questionId === questionId) how ??= 'answered'
    else if (entry.kind === 'question.closed' && entry.questionId === questionId) how ??= entry.how
  return how
}

/** The parts of a question that decide which answers it takes. */
export type Answerable = Pick<OpenQuestion, 'agent' | 'choices' | 'call'>

/**
 * Returns the answer as it is logged.
 *
 * @throws ConfigurationError for an answer that the question does not take.
 */
export function givenAnswer({ agent, choices, call }: Answerable, answer: string | ApprovalAnswer): GivenAnswer {
  if (typeof answer === 'object' && answer !== null) return approvalGiven(answer, agent, call)
  if (typeof answer !== 'string') throw wrong('answer', answer, call ? APPROVALS : 'a string')
  if (choices && !choices.includes(answer))
    throw wrong('answer', answer, choices.map(shown).join(', '), `Agent "${agent}" asked for one of these.`)
  return answer
}

/** Rejects with `ConfigurationError` for an answer that is not as its form asks for. */
export async function assertFits(form: object, given: GivenAnswer): Promise<void> {
  if (isNo(given)) return
  const accepted = `"no", or the JSON text of an object of this schema: ${shown(form)}`
  const value = jsonIn(given as string)
  if (!isObject(value)) throw wrong('answer', given, accepted)
  await checkBySchema(
    laterSchema(form, () => []),
    value,
    (issues) => wrong('answer', given, accepted, issues),
  )
}

const APPROVALS = '"yes", "no", { approved: true, input? } or { approved: false, reason? }'

function approvalGiven(answer: object, agent: string, call: ApprovedCall | undefined): GivenAnswer {
  if (!call) throw wrong('answer', answer, 'a string', `Agent "${agent}" asks no approval of a tool.`)
  const { approved, input, reason, ...others } = answer as Record<string, unknown>
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw wrong(`answer.${unknown}`, own(others, unknown), APPROVALS)
  if (typeof approved !== 'boolean') throw wrong('answer.approved', approved, 'true, false')
  if (!approved) {
    if (input !== undefined) throw wrong('answer.input', input, 'nothing', 'The call does not begin.')
    if (reason === undefined) return NO
    if (typeof reason === 'string' && reason !== '' && reason.length <= LONGEST_TEXT) return { answer: NO, reason }
    throw wrong('answer.reason', reason, `a text of 1 to ${LONGEST_TEXT} characters`)
  }
  if (reason !== undefined) throw wrong('answer.reason', reason, 'nothing', 'The call begins.')
  if (input === undefined) return YES
  const { value, issue } = jsonFormOf(input, 'answer.input')
  if (!issue) return { answer: YES, input: value }
  throw new ConfigurationError(`${issue.path} is ${issue.got}; accepted: a JSON value. ${issue.advice}`, {
    path: issue.path,
    got: issue.got,
    accepted: 'a JSON value',
  })
}

const wrong = (path: string, got: unknown, accepted: string, advice = '') =>
  new ConfigurationError(`${path}: ${shown(got)} is none of what is accepted: ${accepted}.${advice && ` ${advice}`}`, {
    path,
    got: shown(got),
    accepted,
  })

function answerIn(record: { answer: string; input?: unknown; reason?: string }): GivenAnswer {
  const { answer, reason } = record
  if ('input' in record) return { answer, input: record.input }
  return reason === undefined ? answer : { answer, reason }
}

/** Arguments of `ask`. `answerWithinMs`: time limit for the answer. */
export interface AskRequest extends Partial<ApprovedCall> {
  question: string
  choices?: string[]
  form?: object
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
  (core: Core, pauses: DeadlinePauses, suspension: Suspension, hasHandle: (run: RunState) => boolean): AskPerson =>
  (waiter, question, signal, checkInput) => {
    const { agent, run } = waiter
    const { callId, ofTool } = waiter // the same in a later process, so that the answer finds it
    const questionId = callId === undefined || run.questions.has(callId) ? core.frames.id() : callId
    if (hasHandle(run))
      return pauses.during(waiter, () => {
        const answer = askPerson(core, agent, run, { questionId, question, signal, checkInput, ofTool })
        return run.questions.has(questionId) ? waitsForPerson(suspension, waiter, answer) : answer
      })
    const text = `ask: nobody can answer agent "${agent.name}" here: a message from outside of any run began this turn. Ask in a run, which has a handle with answer().`
    throw new ConfigurationError(text, { path: 'ask', agent: agent.name })
  }

/** Notes that the call of a turn waits for a person: then the turn may be suspended. */
async function waitsForPerson<T>(
  suspension: Suspension,
  { agent, turn, correlation }: VerbWaiter,
  answer: Promise<T>,
): Promise<T> {
  const call = agent.first.calls.get(correlation)
  if (!call) return answer
  call.ofPerson = true
  suspension.consider(agent.first, turn)
  return answer.finally(() => {
    call.ofPerson = false
  })
}

interface Asking {
  readonly questionId: string
  readonly question: object
  readonly signal: AbortSignal
  readonly checkInput: OpenQuestion['checkInput'] | undefined
  readonly ofTool: string | undefined
}

function askPerson(
  core: Core,
  { index, name, settings }: Agent,
  run: RunState,
  { questionId, question, signal, checkInput, ofTool }: Asking,
): Promise<GivenAnswer> {
  const request = checked(question)
  const { question: text, choices, form, ask = 'ask' } = request
  const limitMs = request.answerWithinMs ?? request.timeoutMs ?? settings.answerWithinMs
  const call = callIn(request)
  const { asked, answerBy: expires, given, isLate, votes } = before(run, questionId)
  if (given !== undefined) return Promise.resolve(given)
  const askedAt = asked ?? core.clock.now()
  const answerBy = expires ?? (limitMs === false ? null : askedAt + limitMs)
  const late = () => unanswered(name, text, (answerBy ?? askedAt) - askedAt)
  if (isLate) return Promise.reject(late())
  const approval = call && new OpenApproval({ runId: run.id, agent: name, text, choices, call }, votes)
  return new Promise((resolve, reject) => {
    const close = (how: QuestionEnd) => {
      run.closes(questionId)
      timer?.cancel()
      stop()
      if (how !== 'answered') core.journal.record(run, { kind: 'question.closed', agent: name, questionId, how })
    }
    const answered = (answer: GivenAnswer, fields: AnswerFields) => {
      close('answered')
      core.journal.record(run, { kind: 'answer', agent: name, questionId, ...fields })
      resolve(answer)
      core.loop.wake()
    }
    const agreedBy = (agreeing: OpenApproval, first: ApprovedCall) => {
      const { given: answer, fields } = agreedFields(agreeing, first)
      answered(answer, fields)
    }
    const stop = onAbort(signal, () => {
      close('withdrawn')
      reject(signal.reason)
    })
    const timer =
      answerBy === null
        ? undefined
        : core.due.add(answerBy, () => {
            close('late')
            reject(late())
            core.loop.wake()
          })
    run.asks(questionId, {
      agent: name,
      kind: ask,
      get text() {
        return approval?.text ?? text
      },
      choices,
      form,
      get call() {
        return approval?.call
      },
      get digest() {
        return approval?.digest
      },
      get agreed() {
        return approval?.agreed
      },
      askedAt,
      answerBy,
      checkInput: checkInput ?? ((input) => checkBySchemaOf(call, input)),
      settle(answer, by) {
        if (!approval || !call || !isYes(answer)) return answered(answer, answerFields(answer, by))
        const vote = approval.voteOf(questionId, by ?? '', answer)
        if (by === undefined) return answered(answer, { ...answerFields(answer, by), digest: vote.digest })
        const { at } = core.journal.record(run, { kind: 'question.voted', ...vote })
        approval.take({ ...vote, at })
        if (approval.missing === 0) agreedBy(approval, call)
        else core.loop.wake()
      },
    })
    if (asked === undefined) {
      const more = {
        ...(choices && { choices }),
        ...(form && { form }),
        ...(ofTool !== undefined && { ofTool: { index, callId: ofTool } }),
        ...call,
        ...(approval && { digest: approval.digest }),
        ...(answerBy !== null && { answerBy }),
      }
      core.journal.record(run, { kind: 'question', agent: name, questionId, ask, text, ...more })
    } else if (approval && call && approval.missing === 0) agreedBy(approval, call) // that process has died before
  })
}

/** Records of earlier processes about a question. */
interface Before {
  /** Time at which it was asked, epoch ms. */
  asked?: number
  /** Time until which it stays open, epoch ms. */
  answerBy?: number
  /** Answer that a person has given, also while no process had the log. */
  given?: GivenAnswer
  isLate?: true
  /** Yeses of people to it, if it is an approval. */
  readonly votes: RecordOf<'question.voted'>[]
}

function before({ log }: RunState, questionId: string): Before {
  const found: Before = { votes: [] }
  for (const entry of log.entries(-1, log.adopted)) {
    if (!('questionId' in entry) || entry.questionId !== questionId) continue
    if (entry.kind === 'question') {
      found.asked = entry.at
      if (entry.answerBy !== undefined) found.answerBy = entry.answerBy
    } else if (entry.kind === 'answer') found.given = answerIn(entry)
    else if (entry.kind === 'question.voted') found.votes.push(entry)
    else if (entry.how === 'late') found.isLate = true
  }
  return found
}

function checked(request: object): AskRequest {
  const { question, choices, form, ask, ...more } = request as Partial<AskRequest>
  if (typeof question !== 'string' || question === '' || question.length > LONGEST_TEXT)
    throw rejected('question', question, `a text of 1 to ${LONGEST_TEXT} characters`)
  if (choices !== undefined && !isListOfChoices(choices))
    throw rejected('choices', choices, `a list of 1 to ${MOST_CHOICES} different texts that are not empty`)
  if (form !== undefined && (choices !== undefined || !isShortForm(form)))
    throw rejected('form', form, `a JSON schema of at most ${LONGEST_TEXT} characters, and no choices beside it`)
  for (const limit of ['answerWithinMs', 'timeoutMs'] as const) {
    const ms = more[limit]
    if (ms !== undefined && !(typeof ms === 'number' && ms > 0 && ms < 2 ** 31))
      throw rejected(limit, ms, 'a number of ms above 0 and below 2^31')
  }
  const text = form ? `${question} ${formWords(form)}` : question
  const of = { ...(choices && { choices }), ...(form && { form }), ...(ask === 'approval' && { ask }) }
  return { ...more, question: text, ...of }
}

/** Says how a form is answered where nothing but text is seen. */
function formWords(form: object): string {
  const { properties, required }: { properties?: unknown; required?: unknown } = form
  const fields = Object.entries(Object(properties)).map(([name, field]) => {
    const { type = 'any', enum: values }: { type?: unknown; enum?: unknown } = Object(field)
    return [
      Array.isArray(required) && required.includes(name) ? name : `${name}?`,
      Array.isArray(values)
        ? values.map((value) => (typeof value === 'string' ? value : shown(value))).join(' | ')
        : type,
    ]
  })
  return `Answer "no", or in JSON: ${JSON.stringify(Object.fromEntries(fields))}`
}

const isShortForm = (form: unknown): boolean => isObject(form) && JSON.stringify(form).length <= LONGEST_TEXT

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
