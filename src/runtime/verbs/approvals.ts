/**
 * Approvals: who may agree to a call of a tool, how many have to, and to what. People agree to what they were shown,
 * which a digest names; whoever changes the input of the call has asked the others anew.
 */

import {
  type ApprovedCall,
  type GivenAnswer,
  isShowable,
  NO,
  questionAbout,
  YES,
} from '../../actors/definition/approval.ts'
import { checkBySchema } from '../../actors/definition/schema.ts'
import { ANY_OTHER, type ApprovalRule } from '../../actors/definition/tool.ts'
import { laterSchema } from '../../json-schema/later-schema.ts'
import { isObject, noSuchOption, refused, refusedAs } from '../../shared/checks.ts'
import { AnswerRefusedError, ConfigurationError } from '../../shared/errors.ts'
import { digestOf } from '../../shared/random.ts'
import { visible } from '../../shared/text.ts'
import type { RunState } from '../host/run.ts'
import type { Agreed, QuestionVoted, RecordOf } from '../log/records.ts'

/**
 * Somebody who answers. The program is believed: it knows who the people are.
 *
 * @example
 * await run.answer(questionId, 'yes', { by: { id: 'bob', groups: ['finance'] } })
 */
export interface Answerer {
  /** At most 256 characters. */
  id: string
  /** Groups that the person belongs to, where an approval asks for one of them. */
  groups?: readonly string[]
}

/** Third argument of `run.answer` and `team.answer`. */
export interface AnswerOptions {
  /**
   * Person who answers: the log and the event say so. An approval that this person may not give is an
   * `AnswerRefusedError`. Default: the program itself answers, which is enough for an approval of one person and of no
   * group.
   */
  by?: Answerer
  /** Digest of the approval that was shown: what has become another one meanwhile is an `AnswerRefusedError`. */
  digest?: string
  /** true: who began the run may give approvals of others in it. Default: false. */
  approveOwn?: boolean
}

/** Characters of the id of a person, and of words that are said. */
export const LONGEST_ID = 256

/** @throws ConfigurationError that names the option, what came and what is accepted. */
export function readAnswerOptions(given: AnswerOptions): AnswerOptions {
  if (!isObject(given)) throw refused('options', given, 'an object')
  const { by, digest, approveOwn, ...others } = given
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw noSuchOption(unknown, unknown, ['by', 'digest', 'approveOwn'])
  if (approveOwn !== undefined && typeof approveOwn !== 'boolean')
    throw refused('approveOwn', approveOwn, 'true or false')
  if (digest !== undefined && typeof digest !== 'string') throw refused('digest', digest, 'a text')
  return {
    ...(by !== undefined && { by: answererIn(by) }),
    ...(digest !== undefined && { digest }),
    ...(approveOwn && { approveOwn }),
  }
}

/** @throws ConfigurationError for who is no person. */
export function answererIn(by: unknown): Answerer {
  const { id, groups = [], ...more }: Partial<Record<keyof Answerer, unknown>> = isObject(by) ? by : {}
  const isName = (name: unknown) => typeof name === 'string' && name !== '' && name.length <= LONGEST_ID
  if (isName(id) && Array.isArray(groups) && groups.every(isName) && Object.keys(more).length === 0)
    return { id: String(id), groups: groups.map(String) }
  throw refused('by', by, `{ id, groups? }, texts of 1 to ${LONGEST_ID} characters`)
}

/** Returns the call that an approval is about; undefined for another question, and for one of an older log. */
export function callIn({
  ask,
  tool,
  callId,
  input,
  inputSchema,
  by = ANY_OTHER.by,
  groups = ANY_OTHER.groups,
  quorum = ANY_OTHER.quorum,
}: Partial<ApprovedCall> & { ask?: string }): ApprovedCall | undefined {
  if (ask !== 'approval' || typeof tool !== 'string' || typeof callId !== 'string') return undefined
  return { tool, callId, input, inputSchema: Object(inputSchema), by, groups, quorum }
}

/** Words of an approval, and the call that it is about. */
interface Asked {
  readonly runId: string
  readonly agent: string
  readonly text: string
  readonly choices?: readonly string[] | undefined
  readonly call: ApprovedCall
}

type Vote = Pick<RecordOf<'question.voted'>, 'by' | 'at' | 'input' | 'text'>

/** An approval that is open: what people are asked to agree to now, and who has agreed to that. A fold of its votes. */
export class OpenApproval {
  #asked: Asked
  #agreed: Agreed[] = []
  #digest: string | undefined

  constructor(asked: Asked, votes: readonly Vote[] = []) {
    this.#asked = asked
    for (const vote of votes) this.take(vote)
  }

  get call(): ApprovedCall {
    return this.#asked.call
  }
  get text(): string {
    return this.#asked.text
  }
  get agreed(): readonly Agreed[] {
    return this.#agreed
  }

  /** Digest of all that is shown: whatever a person could decide by is in it. */
  get digest(): string {
    this.#digest ??= digestOfApproval(this.#asked)
    return this.#digest
  }

  /** Number of people who still have to agree. */
  get missing(): number {
    return Math.max(0, this.call.quorum - this.#agreed.length)
  }

  has(id: string): boolean {
    return this.#agreed.some((each) => each.id === id)
  }

  /** Returns the yes of a person as a vote; `input` replaces that of the call. */
  voteOf(questionId: string, by: string, given: GivenAnswer): QuestionVoted {
    const { agent, call } = this.#asked
    const isEdited = typeof given === 'object' && 'input' in given && !isSame(given.input, call.input)
    const edited = isEdited && { input: given.input, text: questionAbout(agent, call.tool, given.input) }
    const asked = edited ? { ...this.#asked, text: edited.text, call: { ...call, input: edited.input } } : this.#asked
    return { questionId, agent, by, digest: digestOfApproval(asked), ...edited }
  }

  /** Takes a yes. One to another input makes another question, to which nobody else has agreed. */
  take({ by, at, input, text }: Vote): void {
    if (text !== undefined) {
      this.#asked = { ...this.#asked, text, call: { ...this.call, input } }
      this.#agreed = []
      this.#digest = undefined
    }
    if (!this.has(by)) this.#agreed.push({ id: by, at })
  }
}

function digestOfApproval({ runId, agent, text, choices = [], call }: Asked): string {
  const { tool, callId, input = null, by, groups, quorum } = call
  return digestOf({ run: runId, agent, tool, call: callId, input, text, choices, policy: { by, groups, quorum } })
}

/** Checks whether two inputs are the same JSON. */
const isSame = (one: unknown, other: unknown): boolean => digestOf(one) === digestOf(other)

/** Notes the answer of a person: the call may begin, with that input alone. */
export function noteApproval(
  { approved }: RunState,
  { callId, input }: Pick<ApprovedCall, 'callId' | 'input'>,
  given: GivenAnswer,
): void {
  const { answer, ...edited } = typeof given === 'string' ? { answer: given } : given
  if (answer === YES) approved.set(callId, digestOf('input' in edited ? edited.input : input))
}

/** Checks whether people have approved the call with that input, in this process or in an earlier one. */
export function isApprovedIn(run: RunState, callId: string, input: unknown): boolean {
  if (!run.approved.has(callId)) recallApproval(run, callId)
  return run.approved.get(callId) === digestOf(input)
}

/** Reads an approval of an earlier process from the log. */
function recallApproval(run: RunState, callId: string): void {
  const asked = new Map<string, ApprovedCall>()
  for (const entry of run.log.entries(-1, run.log.adopted)) {
    const question = entry.kind === 'question' && entry.callId === callId ? callIn(entry) : undefined
    if (question && 'questionId' in entry) asked.set(entry.questionId, question)
    const call = entry.kind === 'answer' && asked.get(entry.questionId)
    if (call) noteApproval(run, call, entry)
  }
}

/** The parts of a question that decide who may answer it. */
export interface Approvable extends Partial<ApprovalRule> {
  readonly kind: 'ask' | 'approval'
  readonly digest?: string | undefined
  readonly agreed?: readonly Agreed[] | undefined
  /** People who have said something to the run: it does their will as well as its caller's. */
  readonly steeredBy?: readonly string[] | undefined
}

/** Why somebody may not answer. `how`: 'changed' and 'agreed' are about the state of the question, not the person. */
export interface Refusal {
  readonly how: 'caller' | 'group' | 'changed' | 'agreed'
  readonly text: string
}

/**
 * Returns why somebody may not answer a question; undefined if nothing is against it. `caller`: of its run. `isYes`:
 * the answer agrees to what is shown.
 */
export function refusalOf(
  caller: string | null,
  question: Approvable,
  { by, digest, approveOwn }: AnswerOptions,
  isYes = true,
): Refusal | undefined {
  if (question.kind !== 'approval') return undefined
  const refusal = by && ofPerson(caller, question, by, approveOwn)
  if (refusal) return refusal
  if (digest !== undefined && digest !== question.digest)
    return { how: 'changed', text: 'The input has changed since it was shown: look again.' }
  const { agreed = [], quorum = ANY_OTHER.quorum } = question
  if (!by || !isYes || !agreed.some(({ id }) => id === by.id)) return undefined
  const missing = quorum - agreed.length
  const text = `${visible(by.id)} has agreed already; ${missing} more ${missing === 1 ? 'is' : 'are'} needed.`
  return { how: 'agreed', text }
}

function ofPerson(
  caller: string | null,
  { by: approvers = ANY_OTHER.by, groups = ANY_OTHER.groups, steeredBy = [] }: Approvable,
  { id, groups: own = [] }: Answerer,
  approveOwn: boolean | undefined,
): Refusal | undefined {
  const named = groups.map((group) => visible(group)).join(', ')
  const isOwn = id === caller
  if (approvers === 'others' && (isOwn || steeredBy.includes(id)) && !approveOwn) {
    const who = named === '' ? 'somebody else who may approve can' : `${named} may`
    const did = isOwn ? 'began this run and cannot approve it' : 'has told this run what to do and cannot approve it'
    return { how: 'caller', text: `${visible(id)} ${did}; ${who}.` }
  }
  if (caller !== null && approvers === 'caller' && id !== caller)
    return { how: 'caller', text: `${visible(caller)} began this run, and nobody else can approve it.` }
  if (groups.length > 0 && !groups.some((group) => own.includes(group)))
    return { how: 'group', text: `${visible(id)} is in none of: ${named}.` }
  return undefined
}

/** @throws AnswerRefusedError for an answer that this person may not give, ConfigurationError where nobody is named. */
export function assertMayAnswer(
  { runId, questionId, caller }: { runId: string; questionId: string; caller: string | null },
  question: Approvable,
  options: AnswerOptions,
  isYes: boolean,
): void {
  const { groups = [], quorum = 1 } = question
  const refusal = refusalOf(caller, question, options, isYes)
  const { by } = options
  if (refusal) throw new AnswerRefusedError(refusal.text, { runId, questionId, by: by?.id, how: refusal.how })
  if (by || question.kind !== 'approval' || (groups.length === 0 && quorum === 1)) return
  const who = [...(quorum > 1 ? [`${quorum} people`] : []), ...(groups.length > 0 ? [`of ${groups.join(', ')}`] : [])]
  throw refusedAs('by', 'nobody', '{ id, groups }', `The approval is for ${who.join(' ')}: say who answers.`)
}

/** Checks whether an answer is a yes to what is shown, or to another input. */
export const isYesTo = (given: GivenAnswer, { call }: { readonly call: ApprovedCall | undefined }): boolean => {
  if (typeof given === 'string') return given === YES
  return given.answer === YES && !('input' in given && !isSame(given.input, call?.input))
}

/** Checks for an answer that agrees. A call of an agent elsewhere has answers that are neither yes nor no. */
export const isYes = (given: GivenAnswer): boolean => (typeof given === 'string' ? given : given.answer) === YES

export const isNo = (given: GivenAnswer): boolean => (typeof given === 'string' ? given : given.answer) === NO

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

/** @throws ConfigurationError for an input that nobody can be shown. */
export function assertShowable(input: unknown): void {
  if (isShowable(input)) return
  throw refusedAs('answer.input', 'a longer one', 'an input that people can be shown: at most 20,000 characters')
}

/** Fields of the record of an answer. */
export type AnswerFields = Pick<RecordOf<'answer'>, 'answer' | 'input' | 'reason' | 'by' | 'agreed' | 'digest'>

export const answerFields = (given: GivenAnswer, by: string | undefined): AnswerFields => ({
  ...(typeof given === 'string' ? { answer: given } : given),
  ...(by !== undefined && { by }),
})

/** Returns the yes of all whom an approval needs, as it is logged. `first`: the call as the agent has made it. */
export function agreedFields({ call, agreed, digest }: OpenApproval, first: ApprovedCall) {
  const { input } = call
  const given = digestOf(input) === digestOf(first.input) ? YES : { answer: YES, input }
  return { given, fields: { ...answerFields(given, agreed.at(-1)?.id), agreed: [...agreed], digest } }
}
