/**
 * Questions of a team as input requests of the protocol. A key names the question, and what an approval has shown: so
 * an answer says what it is about, and no server has to keep anything between two requests.
 */
import type { ElicitRequestFormParams, InputRequests } from '@modelcontextprotocol/server'
import type { TaskQuestion } from '../http/schemas.ts'
import type { answerAs } from '../http/tasks.ts'

type Answer = Parameters<typeof answerAs>[2]

export interface Given {
  readonly questionId: string
  /** undefined: its person says nothing, which is a no where the question is about a form. */
  readonly answer: Answer | undefined
}

/** Answers in one request: the log of the task is searched for each that is not open. */
const MOST_ANSWERS = 100

const keyOf = ({ questionId, digest }: TaskQuestion): string =>
  digest === undefined ? questionId : `${questionId}.${digest}`

/** Returns the input requests for questions that their caller may answer. */
export const requestsOf = (questions: readonly TaskQuestion[]): InputRequests =>
  Object.fromEntries(
    questions.map((question) => [
      keyOf(question),
      {
        method: 'elicitation/create',
        params: { mode: 'form', message: question.text, requestedSchema: formOf(question) },
      },
    ]),
  )

type Form = ElicitRequestFormParams['requestedSchema']

function formOf({ kind, choices, form }: TaskQuestion): Form {
  if (kind === 'approval') return APPROVAL
  if (form && isPlain(form)) return { ...form, type: 'object' } as Form
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

/** Checks for a form that a client can show: its fields are plain ones. */
function isPlain({ properties }: { readonly properties?: unknown }): boolean {
  const fields = Object.values(Object(properties)) as unknown[]
  return fields.length > 0 && fields.every((field) => PLAIN.has(String(Object(field).type)))
}

const PLAIN = new Set(['string', 'number', 'integer', 'boolean'])

/** Returns the answers that a client sends. Whatever does not agree to a call is a no. */
export function answersIn(responses: Readonly<Record<string, unknown>> = {}): Given[] {
  return Object.entries(responses)
    .slice(0, MOST_ANSWERS)
    .map(([key, response]) => {
      const [questionId = '', digest] = key.split('.')
      const { action, content } = Object(response) as { action?: unknown; content?: unknown }
      const isAccepted = action === 'accept'
      const said = Object(isAccepted ? content : {}) as { approve?: unknown; reason?: unknown; answer?: unknown }
      if (digest !== undefined) {
        const no = { approved: false as const, ...(typeof said.reason === 'string' && { reason: said.reason }) }
        return { questionId, answer: { questionId, digest, answer: said.approve === true ? { approved: true } : no } }
      }
      if (!isAccepted) return { questionId, answer: undefined }
      const { answer = JSON.stringify(said) } = said
      return { questionId, answer: typeof answer === 'string' ? { questionId, answer } : undefined }
    })
}
