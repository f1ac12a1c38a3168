/**
 * Asks an agent for a plan that assigns tasks to agents. Source: document 001, planning; document 004, task
 * decomposition by function calling.
 */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { askFor } from './ask-for.ts'
import { passingOn } from './heirs.ts'
import type { Worker } from './schemas.ts'
import type { PlannedTask } from './task-plan.ts'

/**
 * Plan made from the planner's answer, `{ tasks: [{ agent, task, tool?, input?, apiKeysConfigRef?, dependsOn?,
 * runIf? }], reasoning }`.
 */
export interface Plan {
  tasks: PlannedTask[]
  reasoning: string
  /** The planner's message with it. */
  message?: AgentMessage
}

const CREATE_PLAN = { name: 'create_plan', description: 'Sets down the tasks, who is to do each, and why.' }

type Planning = Pick<OrchestratorContext, 'agents' | 'decide' | 'request'>

/**
 * Asks the planner for a plan for those agents. A plan that does not match the schema, or has a cycle, is sent back
 * once.
 *
 * @throws {ReplyInvalidError} when the second plan has such a fault too. A failure of the planner rejects as it is.
 */
export async function planTasks(
  orchestrator: Planning,
  planner: string,
  content: string,
  workers: readonly Worker[],
): Promise<Plan> {
  const { planSchema } = await import('./schemas.ts')
  const names = workers.map(({ name }) => name)
  const options = { asFunction: CREATE_PLAN, metadata: passingOn(orchestrator, planner, names) }
  const { value, message } = await askFor(orchestrator, planner, content, planSchema(workers), options)
  const tasks = value.tasks.map(({ dependsOn, runIf, ...task }, at) => {
    const named = [...new Set(dependsOn)]
    const needs = named.filter((number) => number <= value.tasks.length)
    const others = named.filter((number) => number > value.tasks.length)
    if (others.length > 0)
      orchestrator.decide(`What does sub-task ${at + 1} wait for?`, needs.join() || 'nothing', `There is no ${others}.`)
    return { ...planned(task, at + 1, needs), runIf }
  })
  return { tasks, reasoning: reasonOf(value, planner), message }
}

/** Asks for one task, or none, that replaces the given one. Rejects as `planTasks` does. */
export async function planAgain(
  orchestrator: Planning,
  planner: string,
  content: string,
  workers: readonly Worker[],
  { number, needs, replans = 0 }: PlannedTask,
): Promise<Plan> {
  const { replacementSchema } = await import('./schemas.ts')
  const schema = replacementSchema(workers)
  const { value } = await askFor(orchestrator, planner, content, schema, { asFunction: CREATE_PLAN })
  const tasks = value.tasks.map((task) => ({ ...planned(task, number, needs), replans: replans + 1 }))
  return { tasks, reasoning: reasonOf(value, planner) }
}

/** Task in the planner's answer. */
interface NamedTask {
  agent: string
  task: string
  tool?: string | null | undefined
  input?: Record<string, unknown> | null | undefined
  apiKeysConfigRef?: string | undefined
}

const planned = (
  { agent, task, tool, input, apiKeysConfigRef: keys }: NamedTask,
  number: number,
  needs: readonly number[],
): PlannedTask => ({
  number,
  description: task,
  needs,
  after: 0,
  agent,
  ...(tool && { tool }),
  ...(input && (tool || Object.keys(input).length > 0) && { input }), // an empty input counts only with a tool
  ...(keys !== undefined && { keys }),
})

const reasonOf = ({ reasoning }: { reasoning?: string | undefined }, planner: string): string =>
  reasoning || `"${planner}" gave no reason.`
