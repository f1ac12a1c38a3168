/** Questions to people. */
import { ConfigurationError } from '../../index.ts'
import { type Handlers, json } from './call.ts'
import { HttpError } from './problem.ts'
import { refusalFor } from './refusals.ts'
import type { ServedTeams } from './served-teams.ts'
import { questionsOf } from './task-view.ts'
import { isOf, noTask } from './tasks.ts'

export function questionHandlers(teams: ServedTeams): Pick<Handlers, 'listQuestions' | 'answerQuestion'> {
  return {
    async listQuestions({ caller }) {
      const lists = await Promise.all(teams.all.map((served) => questionsOf(served, caller)))
      const mayAll = caller.may.includes('watch')
      const questions = lists.flat().filter(({ kind, refusal }) => mayAll || (kind === 'approval' && refusal === null))
      return json({ questions: questions.sort((one, other) => Date.parse(one.askedAt) - Date.parse(other.askedAt)) })
    },

    async answerQuestion({ task, caller, body: { questionId, answer } }) {
      const { run, approveOwn } = task
      const open = run.questions.find((question) => question.questionId === questionId)
      const seesApprovalsAlone = !isOf(run, caller) && !caller.may.includes('operate')
      if (open && seesApprovalsAlone && open.kind !== 'approval') throw noTask(run.id)
      const refusal = open && refusalFor(caller, open, run.metadata, approveOwn)
      if (refusal !== undefined) throw new HttpError('ANSWER_REFUSED', refusal)
      try {
        await run.answer(questionId, answer, { by: { id: caller.id }, approveOwn })
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw error
        if (seesApprovalsAlone && error.details.path === 'questionId' && error.details.kind !== 'approval')
          throw noTask(run.id)
        throw notTaken(error)
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
