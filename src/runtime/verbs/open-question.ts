/** Questions to a person that are open: how they are listed, and how they are answered. */

import { type ApprovalAnswer, type ApprovedCall, type GivenAnswer, NO, YES } from '../../actors/definition/approval.ts'
import { checkBySchema } from '../../actors/definition/schema.ts'
import { AnswerRefusedError, ConfigurationError, shown } from '../../errors.ts'
import { laterSchema } from '../../json-schema/later-schema.ts'
import { jsonFormOf } from '../../mailbox/json-form.ts'
import { own } from '../../own.ts'
import { isObject } from '../checks/checks.ts'
import { refused, refusedAs } from '../checks/refused.ts'
import type { LogEntry } from '../log/records.ts'
import { callerIn } from '../state/caller.ts'
import type { OpenQuestion, QuestionEnd } from '../state/open-question.ts'
import type { RunState } from '../state/run-state.ts'

/** Longest text of a question, choice or answer, since it travels with events and stays in the log. */
export const LONGEST_TEXT = 24_000

/**
 * Question to a person that nobody has answered yet. An approval has the call that it is about: `tool`, `callId`,
 * `input`, `inputSchema`, the JSON schema of the input, and `by`, who may approve it.
 */
export interface OpenQuestionInfo extends Partial<ApprovedCall> {
  runId: string
  questionId: string
  /** Agent that asks. */
  agent: string
  kind: 'ask' | 'approval'
  text: string
  choices?: string[]
  /** Epoch ms. */
  askedAt: number
  /** Time until which the question stays open at most, epoch ms; null: as long as the run. */
  answerBy: number | null
}

/** Returns the open questions of a run, in the order in which they were asked. */
export function openQuestionsOf({ id, questions }: RunState): OpenQuestionInfo[] {
  return Array.from(questions, ([questionId, { agent, kind, text, choices, call, askedAt, answerBy }]) => ({
    runId: id,
    questionId,
    agent,
    kind,
    text,
    ...(choices && { choices: [...choices] }),
    ...call,
    askedAt,
    answerBy,
  }))
}

/**
 * Somebody who answers. The program is believed: it knows who the people are.
 *
 * @example
 * await run.answer(questionId, 'yes', { by: { id: 'bob' } })
 */
export interface Answerer {
  /** At most 256 characters. */
  id: string
}

/** Third argument of `run.answer` and `team.answer`. */
export interface AnswerOptions {
  /**
   * Person who answers: the log and the event say so. An approval that this person may not give is an
   * `AnswerRefusedError`. Default: the program itself answers.
   */
  by?: Answerer
  /** true: who began the run may give approvals of others in it. Default: false. */
  approveOwn?: boolean
}

const LONGEST_ID = 256

/** @throws ConfigurationError that names the option, what came and what is accepted. */
function readAnswerOptions(given: AnswerOptions): AnswerOptions {
  if (!isObject(given)) throw refused('options', given, 'an object')
  const { by, approveOwn, ...others } = given
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw refusedAs(unknown, 'there', 'by, approveOwn', 'Remove it.')
  if (approveOwn !== undefined && typeof approveOwn !== 'boolean')
    throw refused('approveOwn', approveOwn, 'true or false')
  if (by === undefined) return {}
  const { id, ...more }: { id?: unknown } = isObject(by) ? by : {}
  if (typeof id !== 'string' || id === '' || id.length > LONGEST_ID || Object.keys(more).length > 0)
    throw refused('by', by, `{ id }, a text of 1 to ${LONGEST_ID} characters`)
  return { by: { id }, ...(approveOwn && { approveOwn }) }
}

/** Returns why somebody may not answer a question; undefined if nothing is against it. `caller`: of its run. */
export function refusalOf(
  caller: string | null,
  { kind, by: approvers = 'others' }: Pick<OpenQuestionInfo, 'kind' | 'by'>,
  { by, approveOwn }: AnswerOptions,
): string | undefined {
  if (kind !== 'approval' || caller === null || !by) return undefined
  if (approvers === 'others' && by.id === caller && !approveOwn)
    return `${shown(caller)} began this run and cannot approve it: somebody else who may approve has to.`
  if (approvers === 'caller' && by.id !== caller)
    return `${shown(caller)} began this run, and nobody else can approve it.`
  return undefined
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
  const { by, approveOwn } = readAnswerOptions(options)
  const question = openIn(run, questionId)
  const refusal = refusalOf(callerIn(run.metadata), { kind: question.kind, by: question.call?.by }, { by, approveOwn })
  if (refusal !== undefined)
    throw new AnswerRefusedError(`questionId: ${refusal}`, { runId: run.id, questionId, by: by?.id })
  const given = givenAnswer(question, answer)
  if (typeof given === 'object' && 'input' in given) {
    await question.checkInput(given.input)
    openIn(run, questionId) // it may have been closed meanwhile
  }
  question.settle(given, by?.id)
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

/** Error for an input that a person gives a tool, and that the tool would refuse. */
export const invalidInput = (tool: string, issues: string): ConfigurationError =>
  new ConfigurationError(
    `answer.input: it misses the schema of the tool "${tool}": ${issues}. The question stays open.`,
    { path: 'answer.input', tool, issues },
  )

/** Checks an input by the JSON schema of its tool. What that schema cannot say is checked when the call begins. */
export async function checkBySchemaOf(call: ApprovedCall | undefined, input: unknown): Promise<void> {
  if (!call) return
  const schema = laterSchema(call.inputSchema, () => [])
  await checkBySchema(schema, input, (issues) => invalidInput(call.tool, issues))
}

/** Returns the fields of the record of an answer. */
export const answerFields = (given: GivenAnswer, by: string | undefined) => ({
  ...(typeof given === 'string' ? { answer: given } : given),
  ...(by !== undefined && { by }),
})

/** Returns the answer as its record has it. */
export function answerIn(record: { answer: string; input?: unknown; reason?: string }): GivenAnswer {
  const { answer, reason } = record
  if ('input' in record) return { answer, input: record.input }
  return reason === undefined ? answer : { answer, reason }
}

/** Returns the call that an approval is about; undefined for another question, and for one of an older log. */
export function callIn({
  ask,
  tool,
  callId,
  input,
  inputSchema,
  by = 'others',
}: Partial<ApprovedCall> & { ask?: string }): ApprovedCall | undefined {
  if (ask !== 'approval' || typeof tool !== 'string' || typeof callId !== 'string') return undefined
  return { tool, callId, input, inputSchema: Object(inputSchema), by }
}
