/** `dramatis answer <id> <text> --log <folder>`: answers a question of a run that no process goes on with now. */
import { hostname, userInfo } from 'node:os'
import { type ApprovalAnswer, NO, YES } from '../../actors/definition/approval.ts'
import { systemClock } from '../../clock.ts'
import { ConfigurationError, describe, LogHeldError, shown } from '../../errors.ts'
import { logFolder } from '../../runtime/replay/find-run.ts'
import { answerInLog } from '../../runtime/replay/open-questions.ts'
import { FileStore } from '../../runtime/store/file-store.ts'
import { EXIT } from '../failure.ts'
import { oneLine } from '../one-line.ts'
import type { Surroundings } from './run.ts'

export interface AnswerFlags {
  log: string
  /** JSON that replaces the input of a tool. */
  input?: string
  /** Why a tool may not be called. */
  reason?: string
}

/**
 * Writes the answer into the log and resolves to the exit code. Rejects if there is no such log or question, if the
 * question does not take the answer, and if a process has the log.
 */
export async function answer(
  questionId: string,
  text: string,
  { log, input, reason }: AnswerFlags,
  { stderr, folder }: Surroundings,
): Promise<number> {
  const given = answerOf(text, input, reason)
  const store = new FileStore(logFolder(log, folder), { clock: systemClock, waitsForRoom: false })
  try {
    const { run, asked } = await answerInLog(store, questionId, given, whoAmI())
    stderr.write(`${oneLine(asked.agent)} gets the answer when run ${oneLine(run.id)} goes on.\n`)
    return EXIT.done
  } catch (error) {
    throw error instanceof LogHeldError ? heldElsewhere(error) : error
  } finally {
    await store.close()
  }
}

/** Returns the name of who is at this terminal. A container may run under a number that has no name. */
function whoAmI(): string {
  try {
    return `cli:${userInfo().username}@${hostname()}`
  } catch {
    return `cli:${process.getuid?.() ?? ''}@${hostname()}`
  }
}

/** Returns the answer: the text, or an approval with more than yes or no. */
function answerOf(text: string, input: string | undefined, reason: string | undefined): string | ApprovalAnswer {
  if (input !== undefined) {
    assertSays('--input', text, YES)
    return { approved: true, input: jsonOf(input) }
  }
  if (reason === undefined) return text
  assertSays('--reason', text, NO)
  return { approved: false, reason }
}

function assertSays(option: string, text: string, accepted: string): void {
  if (text === accepted) return
  const error = `${option}: it goes with the answer ${shown(accepted)} alone; the answer is ${shown(text)}.`
  throw new ConfigurationError(error, { path: option, got: text, accepted })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const message = `--input: ${shown(text)} is no JSON: ${describe(error)}`
    throw new ConfigurationError(message, { path: '--input', got: text, accepted: 'JSON' }, error)
  }
}

function heldElsewhere({ details }: LogHeldError): LogHeldError {
  const who = details.pid === undefined ? 'another process' : `process ${details.pid} on ${details.host}`
  const text = `The log is held by ${who}, which goes on with its runs. Answer there (run.answer, or its terminal), or end it first.`
  return new LogHeldError(text, details)
}
