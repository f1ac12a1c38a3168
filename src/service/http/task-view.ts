/** A run as the HTTP API shows it. */
import type { DramatisError } from '../../errors.ts'
import type { Run, Team } from '../../index.ts'
import { isoTime, isoTimeOr } from './iso-time.ts'
import type { Caller } from './options.ts'
import type { Prices } from './prices.ts'
import { HttpError, problemOf } from './problem.ts'
import { refusalFor } from './refusals.ts'
import { isOver, knownEndOf } from './run-ends.ts'
import type { Problem, Task, TaskQuestion } from './schemas.ts'

export interface ServedTeam {
  readonly name: string
  readonly team: Team
  /** Prices of models, where the service has some. */
  readonly prices?: Prices | undefined
  /** True if callers may approve calls of tools in their own tasks. */
  readonly approveOwn: boolean
}

/** A task that the caller may see. */
export interface FoundTask extends ServedTeam {
  readonly run: Run<unknown>
  readonly caller: Caller
}

export const pathOf = (id: string): string => `/api/tasks/${encodeURIComponent(id)}`

/** Returns the task as it is now, for its caller or another one. */
export async function taskOf(task: FoundTask): Promise<Task> {
  const { run, caller, ...served } = task
  const end = await knownEndOf(run)
  const result = end && 'runId' in end ? end : undefined
  const questions = end ? [] : await questionsOf(served, caller, run.id)
  return {
    id: run.id,
    team: served.name,
    query: run.query,
    status: run.status,
    createdAt: isoTime(run.startedAt),
    endedAt: isOver(run) ? isoTime(run.startedAt + (result?.executionTimeMs ?? 0)) : null,
    answer: result?.finalOutput ?? null,
    data: result?.data ?? null,
    failures: (result?.failures ?? []).map((failure) => ({
      ...failure,
      error: problemIn(failure.error, pathOf(run.id)),
    })),
    subTasks: run.tasks.map((task) => ({ ...task, deadline: isoTimeOr(task.deadline) })),
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
 * Returns the questions that wait for a person, of one task or of all, as they are for a caller, once the durable log
 * has them: what a person has seen is still asked after a crash.
 */
export async function questionsOf(served: ServedTeam, caller: Caller, taskId?: string): Promise<TaskQuestion[]> {
  const { name, team, approveOwn } = served
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
      askedAt: isoTime(question.askedAt),
      answerBy: isoTimeOr(question.answerBy),
      refusal: refusalFor(caller, question, team.getRun(id)?.metadata, approveOwn) ?? null,
      taskId: id,
      team: name,
      choices,
      ...(inputSchema && { inputSchema: { ...inputSchema } }),
    }))
}

export function problemIn(error: DramatisError, instance: string): Problem {
  const { code, message, details } = error.toJSON()
  return problemOf(new HttpError(code, message, { details: { ...details } }), instance)
}
