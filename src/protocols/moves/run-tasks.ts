/** Runs the tasks of a plan: in parallel, except those that have to wait. A failed task does not stop the others. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { failedSubTask, type SubTask } from '../../mailbox/sub-task.ts'
import { resultsAsText } from './synthesize.ts'
import { type Finished, type PlannedTask, runInOrder } from './task-plan.ts'

/**
 * Runs a task by some agent. A failure of the task is in the result and does not reject. `context`: results of the
 * tasks that it builds on.
 */
export type Perform = (task: PlannedTask, context: string | undefined) => Promise<Finished>

/**
 * Returns the result of each task in the order of the plan, which must have no cycle. A task that builds on a failed
 * one is not run, and counts as failed; others go on. It rejects only if the run ends.
 */
export async function runTasks(
  orchestrator: Pick<OrchestratorContext, 'decide' | 'runId' | 'signal'>,
  tasks: readonly PlannedTask[],
  perform: Perform,
): Promise<Finished[]> {
  return runInOrder(tasks, async (task, needed: Finished[]) => {
    orchestrator.signal.throwIfAborted()
    const missing = needed.filter(({ result }) => result.status === 'FAILED').map((each) => each.task.number)
    if (missing.length === 0) return perform(task, needed.length > 0 ? resultsAsText(needed) : undefined)
    const reason = `It builds on what failed: sub-task ${missing.join(', ')}.`
    orchestrator.decide(`Is ${titleOf(task)} run?`, 'no', reason)
    return undone(orchestrator, task, `It was not run. ${reason}`)
  })
}

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
