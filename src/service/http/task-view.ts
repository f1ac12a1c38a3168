/** A run as the HTTP API shows it. */
import { DramatisError, describe, StartFailedError } from '../../errors.ts'
import type { MultiAgentResult, Run, Team } from '../../index.ts'
import type { Prices } from './prices.ts'
import { HttpError, problemOf, statusOf } from './problem.ts'
import type { Problem, Task, TaskQuestion } from './schemas.ts'

export interface ServedTeam {
  readonly name: string
  readonly team: Team
  /** Prices of models, where the service has some. */
  readonly prices?: Prices | undefined
}

const ENDED: readonly Run['status'][] = ['finished', 'failed', 'aborted', 'interrupted']

export const hasEnded = ({ status }: Run<unknown>): boolean => ENDED.includes(status)

/** Checks for a run that nothing more can happen in: one that is interrupted may go on. */
export const isOver = (run: Run<unknown>): boolean => hasEnded(run) && run.status !== 'interrupted'

export const pathOf = (id: string): string => `/api/tasks/${encodeURIComponent(id)}`

type End = MultiAgentResult<unknown> | { error: DramatisError }

/** Returns the result of a run that has ended. One whose configuration cannot work has an error and no result. */
export async function endOf(run: Run<unknown>): Promise<End> {
  try {
    return await run.result
  } catch (error) {
    return { error: error instanceof DramatisError ? error : new StartFailedError(describe(error), {}, error) }
  }
}

/** Resolves to the end of a run, if it is known: a run that is to be resumed by hand has none until then. */
export async function knownEndOf(run: Run<unknown>): Promise<End | undefined> {
  if (!hasEnded(run)) return undefined
  if (run.status !== 'interrupted') return endOf(run) // it may have to be read from the log
  const ending = endingOf(run)
  if (!ending.end) await new Promise((resolve) => setImmediate(resolve))
  return ending.end
}

interface Ending {
  end: End | undefined
  readonly waiters: Set<() => void>
}

const ENDINGS = new WeakMap<Run<unknown>, Ending>()

/** A run may last for weeks, and a promise keeps all that was ever called on it: each run has one wait for its end. */
function endingOf(run: Run<unknown>): Ending {
  const known = ENDINGS.get(run)
  if (known) return known
  const ending: Ending = { end: undefined, waiters: new Set() }
  ENDINGS.set(run, ending)
  void endOf(run).then((end) => {
    ending.end = end
    for (const tell of ending.waiters) tell()
    ending.waiters.clear()
  })
  return ending
}

/** Calls back when the run has ended. Returns a function that gives up the wait, of which nothing is left then. */
export function onEnd(run: Run<unknown>, listener: () => void): () => void {
  const { end, waiters } = endingOf(run)
  if (end) listener()
  else waiters.add(listener)
  return () => waiters.delete(listener)
}

/** Returns the task as it is now. */
export async function taskOf(served: ServedTeam, run: Run<unknown>): Promise<Task> {
  const end = await knownEndOf(run)
  const result = end && 'runId' in end ? end : undefined
  const questions = end ? [] : await questionsOf(served, run.id)
  return {
    id: run.id,
    team: served.name,
    query: run.query,
    status: run.status,
    createdAt: run.startedAt,
    endedAt: isOver(run) ? run.startedAt + (result?.executionTimeMs ?? 0) : null,
    answer: result?.finalOutput ?? null,
    data: result?.data ?? null,
    failures: (result?.failures ?? []).map((failure) => ({
      ...failure,
      error: problemIn(failure.error, pathOf(run.id)),
    })),
    subTasks: [...run.tasks],
    questions,
    usage: run.usage,
    usageByAgent: run.usageByAgent,
    cost: (end && (await served.prices?.costOf(run))) ?? null,
    rehearsed: result?.rehearsed ?? false,
    error: end?.error ? problemIn(end.error, pathOf(run.id)) : null,
  }
}

/** Ids of the open questions that the durable log of a team is known to have. */
const LOGGED = new WeakMap<Team, ReadonlySet<string>>()

/**
 * Returns the questions that wait for a person, of one task or of all, once the durable log has them: what a person has
 * seen is still asked after a crash.
 */
export async function questionsOf({ name, team }: ServedTeam, taskId?: string): Promise<TaskQuestion[]> {
  const isLogged = ({ questionId }: { questionId: string }) => LOGGED.get(team)?.has(questionId) === true
  if (!team.questions(taskId).every(isLogged)) {
    const open = team.questions().map(({ questionId }) => questionId)
    await team.flush().catch(() => {}) // a log that is lost ends the task itself
    LOGGED.set(team, new Set(open))
  }
  return team
    .questions(taskId)
    .filter(isLogged)
    .map(({ runId: id, choices = null, inputSchema, ...question }) => ({
      ...question,
      taskId: id,
      team: name,
      choices,
      ...(inputSchema && { inputSchema: { ...inputSchema } }),
    }))
}

export function problemIn(error: DramatisError, instance: string): Problem {
  const { code, message, details } = error.toJSON()
  return problemOf(new HttpError(code, message, { status: statusOf(code), details: { ...details } }), instance)
}
