/** `dramatis resume [run] <team file>`: goes on with the interrupted runs of a team's log, or with one of them. */
import { setImmediate as turn } from 'node:timers/promises'
import { ConfigurationError } from '../../errors.ts'
import { createTeam, type MultiAgentPatternOptions, type MultiAgentResult, type Team } from '../../index.ts'
import { lineLogger } from '../../runtime/logging/default-logger.ts'
import { askPerson, type Question } from '../ask-person.ts'
import { EXIT, exitCodeOf, failureWords } from '../failure.ts'
import { listenForInterrupt, unlessAborted } from '../interrupt.ts'
import { resultText } from '../json-text.ts'
import { loadEnv } from '../load-env.ts'
import { loadTeamFile } from '../load-team-file.ts'
import { oneLine } from '../one-line.ts'
import { progressOn, withoutEvents } from '../progress.ts'
import type { Surroundings } from './run.ts'

export interface ResumeFlags {
  json?: boolean
  timeout?: number
  onMismatch?: 'refuse' | 'continue'
}

/**
 * Prints the results and resolves to the exit code: that of the first run that failed. Ctrl-C leaves the runs
 * interrupted. Rejects for everything that keeps the team from starting, and for an unknown run.
 */
export async function resume(
  file: string,
  runId: string | undefined,
  { json = false, timeout, onMismatch }: ResumeFlags,
  { answer, stderr, stdin, folder }: Surroundings,
): Promise<number> {
  loadEnv(folder)
  const progress = await progressOn(stderr)
  answer.divertTo(progress.print)
  const { signal, stop } = listenForInterrupt(progress.print)
  const unanswered = new AbortController()
  try {
    const definition = byHand(await unlessAborted(loadTeamFile(file, folder), signal), file)
    const team = createTeam({ ...definition, logger: definition.logger ?? withoutEvents(lineLogger(progress.print)) })
    const asking = askPerson(team, stdin, progress.print, async (question) =>
      unanswered.abort(new ConfigurationError(nobodyAnswers(question), { questionId: question.questionId })),
    )
    try {
      progress.watch(team)
      await unlessAborted(team.start(), signal)
      const ids = runId === undefined ? await interrupted(team) : [runId]
      if (ids.length === 0) stderr.write('No run is interrupted.\n')
      const options = { ...(timeout !== undefined && { timeoutMs: timeout }), ...(onMismatch && { onMismatch }) }
      const results = Promise.all(ids.map((id) => team.resume(id, options)))
      await Promise.race([results, turn()]) // from then on they go on, with the questions that they had
      for (const question of team.questions()) asking.ask(question)
      const ended = await unlessAborted(unlessAborted(results, unanswered.signal), signal)
      progress.end()
      return await tellAll(ids, ended)
    } finally {
      asking.stop()
      progress.end()
      await team.close()
    }
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    throw error
  } finally {
    stop()
  }

  async function tellAll(ids: readonly string[], results: readonly MultiAgentResult[]): Promise<number> {
    let code: number = EXIT.done
    for (const [at, result] of results.entries()) {
      const id = oneLine(ids[at]!)
      if (json) await answer.write(resultText(result))
      else if (result.success) {
        if (ids.length > 1) stderr.write(`run ${id}:\n`)
        await answer.write(result.finalOutput.replace(/\n?$/, '\n'))
      }
      if (result.success) continue
      stderr.write(`error: run ${id}: ${failureWords(result.error)}\n`)
      code = code === EXIT.done ? exitCodeOf(result.error) : code
    }
    return code
  }
}

const nobodyAnswers = ({ agent, questionId, runId }: Question) =>
  `${agent} asks a question in run "${runId}", and the input has ended. The run stays interrupted: answer with dramatis answer ${questionId} "..." --log <folder>, then resume it.`

const interrupted = async (team: Team): Promise<string[]> =>
  (await team.listRuns({ status: 'interrupted' })).map(({ id }) => id)

/** Returns the definition of a team that goes on with no run by itself. */
function byHand(definition: MultiAgentPatternOptions, file: string): MultiAgentPatternOptions {
  const { stateManagement } = definition
  if (stateManagement) return { ...definition, stateManagement: { ...stateManagement, resume: 'manual' } }
  const text = `Team file "${file}" has no stateManagement, so its runs are in no log. Write: stateManagement: { path: './log' }`
  throw new ConfigurationError(text, { file, path: 'stateManagement' })
}
