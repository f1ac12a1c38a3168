/** Questions to people. */
import { ConfigurationError } from '../../index.ts'
import { type Handlers, json } from './call.ts'
import { HttpError } from './problem.ts'
import type { ServedTeams } from './served-teams.ts'
import { questionsOf } from './task-view.ts'

export function questionHandlers(teams: ServedTeams): Pick<Handlers, 'listQuestions' | 'answerQuestion'> {
  return {
    async listQuestions() {
      const questions = await Promise.all(teams.all.map((served) => questionsOf(served)))
      return json({ questions: questions.flat().sort((one, other) => one.askedAt - other.askedAt) })
    },

    async answerQuestion({ task: { run }, body: { questionId, answer } }) {
      try {
        await run.answer(questionId, answer)
      } catch (error) {
        throw error instanceof ConfigurationError ? notTaken(error) : error
      }
      return new Response(null, { status: 204 })
    },
  }
}

/** Error for a question that is not open (any more), or that takes another answer. */
function notTaken({ message, details }: ConfigurationError): HttpError {
  if (details.path !== 'questionId') return new HttpError('CONFIGURATION', message, { details: { ...details } })
  return new HttpError(details.how === undefined ? 'NOT_FOUND' : 'CONFLICT', message)
}
