/** Questions to people. */
import type { Run } from '../../index.ts'
import { type Handlers, json } from './call.ts'
import { HttpError } from './problem.ts'
import type { ServedTeams } from './served-teams.ts'
import { questionsOf } from './task-view.ts'

export function questionHandlers(teams: ServedTeams): Pick<Handlers, 'listQuestions' | 'answerQuestion'> {
  return {
    listQuestions() {
      const questions = teams.all.flatMap((served) => questionsOf(served))
      return json({ questions: questions.sort((one, other) => one.askedAt - other.askedAt) })
    },

    async answerQuestion({ task: { team, run }, body: { questionId, answer } }) {
      const open = team.listQuestions(run.id).find((question) => question.questionId === questionId)
      if (!open) throw await notOpen(run, questionId)
      if (open.choices && !open.choices.includes(answer)) {
        const accepted = open.choices.map((choice) => JSON.stringify(choice)).join(', ')
        const detail = `answer: it is none of the choices of that question: ${accepted}.`
        throw new HttpError('CONFIGURATION', detail, { details: { path: 'answer', accepted: open.choices } })
      }
      await run.answer(questionId, answer)
      return new Response(null, { status: 204 })
    },
  }
}

/** Error for a question that waits for no answer: it was answered or withdrawn, or never was. */
async function notOpen(run: Run<unknown>, questionId: string): Promise<HttpError> {
  for await (const event of run.events({ types: ['question'], follow: false }))
    if (event.type === 'question' && event.questionId === questionId)
      return new HttpError('CONFLICT', `The question "${questionId.slice(0, 255)}" waits for no answer any more.`)
  return new HttpError('NOT_FOUND', `The task has no question "${questionId.slice(0, 255)}".`)
}
