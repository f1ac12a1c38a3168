/** A run as the HTTP API shows it. */
import type { z } from 'zod'
import type { AgentMessage, AgentTask, MultiAgentResult, Run, SteerInfo, Team } from '../../index.ts'
import { callerIn } from '../../runtime/host/run.ts'
import { toldMessage } from '../../runtime/runs/told-events.ts'
import { DramatisError, describe, StartFailedError } from '../../shared/errors.ts'
import { nextTurn } from '../../shared/timers.ts'
import type { Caller, Estimates } from './options.ts'
import { HttpError, problemOf, refusalFor } from './problem.ts'
import {
  isoTime,
  isoTimeOr,
  type message,
  type Problem,
  type Task,
  type TaskQuestion,
  type TaskSteer,
} from './schemas.ts'

export type ShownMessage = z.infer<typeof message>

/** Characters of a content that are shown in a list. */
const MOST_SHOWN = 65_536

/** `most`: characters of the content that are shown. */
export function shownMessage(message: AgentMessage, most = MOST_SHOWN): ShownMessage {
  const shown = { ...toldMessage(message), ...entryIn(message), sentAt: isoTime(message.sentAt) }
  const told = shown as ShownMessage
  const { content } = told
  return content.length <= most ? told : { ...told, content: content.slice(0, most), cut: content.length }
}

/** Returns the entry of the blackboard that a message publishes, with its time as the API writes times. */
function entryIn({ type, structuredData }: AgentMessage): { structuredData?: unknown } {
  const { timestamp } = Object(structuredData) as { timestamp?: unknown }
  if (type !== 'publish' || typeof timestamp !== 'number') return {}
  return { structuredData: { ...Object(structuredData), timestamp: isoTime(timestamp) } }
}

const ENDED: readonly Run['status'][] = ['finished', 'failed', 'aborted', 'interrupted']

export const hasEnded = ({ status }: Pick<Run<unknown>, 'status'>): boolean => ENDED.includes(status)

/** Checks for a run that nothing more can happen in: one that is interrupted may go on. */
export const isOver = (run: Run<unknown>): boolean => hasEnded(run) && run.status !== 'interrupted'

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
  if (!ending.end) await nextTurn()
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

export interface ServedTeam {
  readonly name: string
  readonly team: Team
  /** Shard of the team and id of this process, where it runs over several processes. */
  readonly shard?: number
  readonly node?: string
  /** Prices of models, where the service has some. */
  readonly prices?: Estimates | undefined
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
    subTasks: subTasksIn(run.tasks),
    questions,
    steers: run.steers.map(steerOf),
    usage: run.usage,
    speaker: result ? result.speaker : run.speaker,
    usageByAgent: run.usageByAgent,
    money: run.money,
    cost: (end && (await served.prices?.costOf(run))) ?? null,
    rehearsed: result?.rehearsed ?? false,
    error: end?.error ? problemIn(end.error, pathOf(run.id)) : null,
  }
}

/** Returns words that were said to a task as they are sent. */
export const steerOf = ({ at, readBy, ...words }: SteerInfo): TaskSteer => ({
  ...words,
  at: isoTime(at),
  readBy: [...readBy],
})

/** Returns the tasks that are sub-tasks. What was given as a part of another request, as of a plan, has no parent. */
function subTasksIn(tasks: readonly AgentTask[]): Task['subTasks'] {
  const others = new Set(tasks.flatMap(({ id, coordination }) => (coordination ? [id] : [])))
  return tasks
    .filter(({ id }) => !others.has(id))
    .map((task) => ({
      ...task,
      parentTask: others.has(task.parentTask ?? '') ? null : task.parentTask,
      deadline: isoTimeOr(task.deadline),
    }))
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
    .filter((question) => isLogged(question) && isOfTenant(team.getRun(question.runId), caller))
    .map(({ runId: id, choices = null, form, inputSchema, groups, agreed, steeredBy, ...rest }) => ({
      ...rest,
      ...(steeredBy && { steeredBy: [...steeredBy] }),
      ...(groups && { groups: [...groups] }),
      ...(agreed && { agreed: agreed.map((each) => ({ id: each.id, at: isoTime(each.at) })) }),
      askedAt: isoTime(rest.askedAt),
      answerBy: isoTimeOr(rest.answerBy),
      refusal:
        refusalFor(
          caller,
          { ...rest, ...(groups && { groups }), agreed, steeredBy },
          team.getRun(id)?.metadata,
          approveOwn,
        )?.text ?? null,
      taskId: id,
      team: name,
      choices,
      ...(form && { form: { ...form } }),
      ...(inputSchema && { inputSchema: { ...inputSchema } }),
    }))
}

/** Checks for a question of a task that its reader may answer. */
export const mayAnswer = ({ run, caller, approveOwn }: FoundTask): boolean =>
  run.questions.some((question) => !refusalFor(caller, question, run.metadata, approveOwn))

/** Resolves when a task asks what its reader may answer, when it is over, or when the signal is aborted. */
export async function untilAnswerable(found: FoundTask, signal: AbortSignal): Promise<void> {
  try {
    for await (const _ of found.run.events({ types: ['question', 'question.voted'], signal }))
      if (mayAnswer(found)) return
  } catch {
    // who waits looks at the task itself
  }
}

/** `isHeld`: questions are open that others have to answer. */
export async function openIn(found: FoundTask): Promise<{ offered: TaskQuestion[]; isHeld: boolean }> {
  const open = await questionsOf(found, found.caller, found.run.id)
  const offered = open.filter(({ refusal }) => refusal === null)
  return { offered, isHeld: open.length > offered.length }
}

export const HELD = 'It waits for people other than you to answer or to approve a call.'

/** Checks for a run that a caller may know of: one of its own, or of its tenant, if it has one. */
const isOfTenant = (run: Run<unknown> | undefined, { id, tenant }: Caller): boolean =>
  tenant === undefined || run?.tenant === tenant || callerIn(run?.metadata) === id

export function problemIn(error: DramatisError, instance: string): Problem {
  const { code, message, details } = error.toJSON()
  return problemOf(new HttpError(code, message, { details: { ...details } }), instance)
}
