/** `dramatis questions --log <folder>`: what the runs of a log ask a person. */

import { logFolder } from '../../runtime/replay/find-run.ts'
import { openQuestionsIn, type RecordedQuestion } from '../../runtime/replay/open-questions.ts'
import { recordedRuns } from '../../runtime/replay/recorded-runs.ts'
import { readLog } from '../../runtime/store/log-reader.ts'
import { callIn } from '../../runtime/verbs/open-question.ts'
import { visible } from '../../visible.ts'
import { environmentRedactor } from '../environment-redactor.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import { oneLine } from '../one-line.ts'
import type { Surroundings } from './run.ts'

export interface QuestionsFlags {
  log: string
  json?: boolean
}

/** Prints the open questions and resolves to the exit code. Rejects if there is no such log. */
export async function questions(
  { log, json = false }: QuestionsFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const { runs } = await recordedRuns(() => readLog(logFolder(log, folder)))
  const open = redactor.data(openQuestionsIn(runs).map(questionInfo))
  if (json) await answer.write(jsonText(open))
  else if (open.length === 0) stderr.write('No question is open.\n')
  else await answer.write(open.map(questionLines).join('\n'))
  return EXIT.done
}

function questionInfo({ run: { id: runId }, asked }: RecordedQuestion) {
  const { at, agent, questionId, ask: kind, text, choices } = asked
  return { questionId, runId, agent, kind, text, ...(choices && { choices }), ...callIn(asked), askedAt: at }
}

/** The words are a model's, and could steer the terminal. */
function questionLines({ questionId, runId, agent, text, choices = [] }: ReturnType<typeof questionInfo>): string {
  const lines = visible(text, '\n').split('\n')
  const rest = [...lines, ...choices.map((choice) => `- ${visible(choice)}`)].map((line) => `  ${line}\n`)
  return `${questionId}  ${oneLine(agent)} in run ${oneLine(runId)}\n${rest.join('')}`
}
