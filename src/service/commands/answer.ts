/** `dramatis answer <id> <text> --log <folder>`: answers a question of a run that no process goes on with now. */
import { systemClock } from '../../clock.ts'
import { LogHeldError } from '../../errors.ts'
import { logFolder } from '../../runtime/replay/find-run.ts'
import { answerInLog } from '../../runtime/replay/open-questions.ts'
import { FileStore } from '../../runtime/store/file-store.ts'
import { EXIT } from '../failure.ts'
import { oneLine } from '../one-line.ts'
import type { Surroundings } from './run.ts'

export interface AnswerFlags {
  log: string
}

/**
 * Writes the answer into the log and resolves to the exit code. Rejects if there is no such log or question, if the
 * answer is none of its choices, and if a process has the log.
 */
export async function answer(
  questionId: string,
  text: string,
  { log }: AnswerFlags,
  { stderr, folder }: Surroundings,
): Promise<number> {
  const store = new FileStore(logFolder(log, folder), { clock: systemClock })
  try {
    const { run, asked } = await answerInLog(store, questionId, text)
    stderr.write(`${oneLine(asked.agent)} gets the answer when run ${oneLine(run.id)} goes on.\n`)
    return EXIT.done
  } catch (error) {
    throw error instanceof LogHeldError ? heldElsewhere(error) : error
  } finally {
    await store.close()
  }
}

function heldElsewhere({ details }: LogHeldError): LogHeldError {
  const who = details.pid === undefined ? 'another process' : `process ${details.pid} on ${details.host}`
  const text = `The log is held by ${who}, which goes on with its runs. Answer there (run.answer, or its terminal), or end it first.`
  return new LogHeldError(text, details)
}
