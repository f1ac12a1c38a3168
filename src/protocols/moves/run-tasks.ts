/** Runs the tasks of a plan: in parallel, except those that have to wait. A failed task does not stop the others. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { failedSubTask, type SubTask, skippedSubTask } from '../../mailbox/sub-task.ts'
import type { Ended } from './run-if.ts'
import { resultsAsText } from './synthesize.ts'
import { type Finished, type PlannedTask, runInOrder } from './task-plan.ts'

/**
 * Runs a task by some agent. A failure of the task is in the result and does not reject. `context`: results of the
 * tasks that it builds on.
 */
export type Perform = (task: PlannedTask, context: string | undefined) => Promise<Finished>

/**
 * Returns the result of each task in the order of the plan, which must have no cycle. A task that builds on a failed
 * one is not run, and counts as failed, unless it is run because that has failed (`runIf`); others go on. It rejects
 * only if the run ends.
 */
export async function runTasks(
  orchestrator: Pick<OrchestratorContext, 'decide' | 'runId' | 'signal'>,
  tasks: readonly PlannedTask[],
  perform: Perform,
): Promise<Finished[]> {
  const run = async (task: PlannedTask, needed: Finished[]): Promise<Finished> => {
    orchestrator.signal.throwIfAborted()
    const failed = needed.filter(({ result }) => result.status === 'FAILED').map((each) => each.task.number)
    const missing = failed.filter((number) => number !== task.runIf?.task)
    if (missing.length === 0) return perform(task, needed.length > 0 ? resultsAsText(needed) : undefined)
    const reason = `It builds on what failed: sub-task ${missing.join(', ')}.`
    orchestrator.decide(`Is ${titleOf(task)} run?`, 'no', reason)
    return undone(orchestrator, task, `It was not run. ${reason}`)
  }
  const skip = (task: PlannedTask, reason: string): Finished => {
    orchestrator.decide(`Is ${titleOf(task)} run?`, 'skipped', reason)
    return { task, result: skippedSubTask(subTaskOf(orchestrator, task, task.agent ?? 'nobody'), reason), words: '' }
  }
  return runInOrder(tasks, { run, skip, ended })
}

const ended = ({ result, words }: Finished): Ended => ({
  outcome: OUTCOME[result.status],
  result: result.errorDetails?.message ?? result.resultData ?? words,
})

const OUTCOME = { COMPLETED: 'completed', FAILED: 'failed', SKIPPED: 'skipped' } as const

/** Returns the failed result of a task that no agent has done, with the reason. */
export function undone(
  orchestrator: Pick<OrchestratorContext, 'runId'>,
  task: PlannedTask,
  why: string,
  type?: string,
): Finished {
  return { task, result: failedSubTask(subTaskOf(orchestrator, task, task.agent ?? 'nobody'), why, type), words: '' }
}

/** Returns the `SubTask` that the worker of a task gets. */
export function subTaskOf(
  { runId }: Pick<OrchestratorContext, 'runId'>,
  { number, description, tool, input, keys, replans = 0 }: PlannedTask,
  agent: string,
  context?: string,
): SubTask {
  const idOf = (times: number) => (times === 0 ? `${runId}.${number}` : `${runId}.${number}.${times}`)
  return {
    subTaskId: idOf(replans),
    ...(replans > 0 && { replaces: idOf(replans - 1) }),
    parentTaskId: runId,
    assignedAgentRole: agent,
    ...(tool !== undefined && { toolName: tool }),
    subTaskInput: input ?? { task: description },
    ...(context !== undefined && { contextSummary: context }),
    ...(keys !== undefined && { apiKeysConfigRef: keys }),
  }
}

const LONGEST_TITLE = 100

/** Returns the title of a task for decisions in the trace. */
export function titleOf({ number, description }: PlannedTask): string {
  const short = description.length > LONGEST_TITLE ? `${description.slice(0, LONGEST_TITLE)}...` : description
  return `sub-task ${number} (${short})`
}
