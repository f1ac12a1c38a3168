/** Runs the tasks of a plan: side by side, but for those that have to wait. Each failure is that task's alone. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import type { SubTask } from './sub-task.ts'
import { resultsAsText } from './synthesize.ts'
import { type Finished, type PlannedTask, runInOrder } from './task-plan.ts'
import { failed } from './worker-result.ts'

/** Has somebody do a task, and never rejects for what becomes of it. `context`: what came of those that it builds on. */
export type Perform = (task: PlannedTask, context: string | undefined) => Promise<Finished>

/**
 * What came of each, in the order of the plan, which must have no circle. What builds on a task that failed is not run, and
 * has failed, too; others go on. Rejects for the end of the run alone.
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

/** A task that nobody has done, and why. */
export function undone(
  orchestrator: Pick<OrchestratorContext, 'runId'>,
  task: PlannedTask,
  why: string,
  type?: string,
): Finished {
  return { task, result: failed(subTaskOf(orchestrator, task, task.agent ?? 'nobody'), why, type), words: '' }
}

/** The task as the message that its worker gets. */
export function subTaskOf(
  { runId }: Pick<OrchestratorContext, 'runId'>,
  { number, description, tool, input }: PlannedTask,
  agent: string,
  context?: string,
): SubTask {
  return {
    subTaskId: `${runId}.${number}`,
    parentTaskId: runId,
    assignedAgentRole: agent,
    ...(tool !== undefined && { toolName: tool }),
    subTaskInput: input ?? { task: description },
    ...(context !== undefined && { contextSummary: context }),
  }
}

const LONGEST_TITLE = 100

/** A task in a decision of the trace. */
export function titleOf({ number, description }: PlannedTask): string {
  const short = description.length > LONGEST_TITLE ? `${description.slice(0, LONGEST_TITLE)}...` : description
  return `sub-task ${number} (${short})`
}
