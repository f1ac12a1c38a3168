/**
 * Questions of a team as input requests of the protocol. A key names the question, and what an approval has shown: so
 * an answer says what it is about, and no server has to keep anything between two requests.
 */
import type { ElicitRequestFormParams, InputRequests } from '@modelcontextprotocol/server'
import type { Run } from '../../index.ts'
import type { TaskQuestion } from '../http/schemas.ts'
import type { answerAs } from '../http/tasks.ts'
import type { Sdk } from './sdk.ts'

type Answer = Parameters<typeof answerAs>[2]
type IsSpecType = Sdk['isSpecType']

export interface Given {
  readonly questionId: string
  /** Digest of an approval, as it was shown. */
  readonly digest: string | undefined
  readonly response: unknown
}

/** Answers in one request: the log of the task is searched for each that is not open. */
const MOST_ANSWERS = 100

const keyOf = ({ questionId, digest }: TaskQuestion): string =>
  digest === undefined ? questionId : `${questionId}.${digest}`

/**
 * Returns the input requests for questions that their caller may answer. `refused`: why an answer was not taken, by
 * the id of its question.
 */
export const requestsOf = (
  questions: readonly TaskQuestion[],
  isSpecType: IsSpecType,
  refused: ReadonlyMap<string, Error> = new Map(),
): InputRequests =>
  Object.fromEntries(
    questions.map((question) => {
      const { message: why } = refused.get(question.questionId) ?? {}
      const message = why === undefined ? question.text : `${why}\n${question.text}`
      const params = { mode: 'form' as const, message, requestedSchema: formOf(question, isSpecType) }
      return [keyOf(question), { method: 'elicitation/create', params }]
    }),
  )

type Form = ElicitRequestFormParams['requestedSchema']

function formOf({ kind, choices, form }: TaskQuestion, isSpecType: IsSpecType): Form {
  if (kind === 'approval') return APPROVAL
  if (form && isPlain(form, isSpecType)) return { ...form, type: 'object' } as Form
  const title = form ? `JSON text of an object: ${JSON.stringify(form)}` : 'Answer'
  return {
    type: 'object',
    properties: { answer: { type: 'string', title, ...(choices && { enum: choices }) } },
    required: ['answer'],
  }
}

const APPROVAL: Form = {
  type: 'object',
  properties: { approve: { type: 'boolean' }, reason: { type: 'string', title: 'Why not' } },
  required: ['approve'],
}

/** Checks for a form that a client takes: its fields are plain ones, with what the protocol has for them. */
function isPlain(form: { readonly properties?: unknown }, isSpecType: IsSpecType): boolean {
  const fields = Object.values(Object(form.properties)) as unknown[]
  if (fields.length === 0 || !fields.every((field) => PLAIN.has(String(Object(field).type)))) return false
  return isSpecType.ElicitRequestFormParams({ message: '', requestedSchema: { ...form, type: 'object' } })
}

const PLAIN = new Set(['string', 'number', 'integer', 'boolean'])

/** Returns what a client says to questions. */
export const answersIn = (responses: Readonly<Record<string, unknown>> = {}): Given[] =>
  Object.entries(responses)
    .slice(0, MOST_ANSWERS)
    .map(([key, response]) => {
      const [questionId = '', digest] = key.split('.')
      return { questionId, digest, response }
    })

/**
 * Returns the answer to a question; undefined: its person says nothing. Whatever does not agree to a call is a no, and
 * so is a form that nobody fills in. `question`: undefined where it is not open.
 */
export function answerTo(
  question: Run<unknown>['questions'][number] | undefined,
  { questionId, digest, response }: Given,
  isSpecType: IsSpecType,
): Answer | undefined {
  const { action, content } = Object(response) as { action?: unknown; content?: unknown }
  const isAccepted = action === 'accept'
  const said = Object(isAccepted ? content : {}) as { approve?: unknown; reason?: unknown; answer?: unknown }
  if (digest !== undefined) {
    const no = { approved: false as const, ...(typeof said.reason === 'string' && { reason: said.reason }) }
    return { questionId, digest, answer: said.approve === true ? { approved: true } : no }
  }
  if (!isAccepted) return question?.form && { questionId, answer: 'no' }
  const isWhole = !question || (question.form && isPlain(question.form, isSpecType))
  const answer = isWhole ? JSON.stringify(said) : said.answer
  return typeof answer === 'string' ? { questionId, answer } : undefined
}
