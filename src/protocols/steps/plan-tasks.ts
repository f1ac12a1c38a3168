/** Has an agent plan who is to do what. Source: document 001, planning; document 004, task decomposition by function calling. */
import type { OrchestratorContext } from '../../actors/context.ts'
import { askFor } from './ask-for.ts'
import type { PlannedTask } from './task-plan.ts'

/** What the planner answers: `{ tasks: [{ agent, task, tool?, input?, dependsOn? }], reasoning }`. */
export interface Plan {
  tasks: PlannedTask[]
  reasoning: string
}

type Planning = Pick<OrchestratorContext, 'agents' | 'decide' | 'request'>

/**
 * A plan for those roles, as the planner gives it. One that misses the schema, or goes in a circle, is sent back once.
 *
 * @throws {ReplyInvalidError} when it does so again; what the planner fails with.
 */
export async function planTasks(
  orchestrator: Planning,
  planner: string,
  content: string,
  roles: readonly string[],
  most?: number,
): Promise<Plan> {
  const { planSchema } = await import('./schemas.ts')
  const { value } = await askFor(orchestrator, planner, content, planSchema(roles, most))
  const tasks = value.tasks.map(({ agent, task, tool, input, dependsOn }, at): PlannedTask => {
    const needs = dependsOn.filter((number) => number <= value.tasks.length)
    const others = dependsOn.filter((number) => number > value.tasks.length)
    if (others.length > 0)
      orchestrator.decide(`What does sub-task ${at + 1} wait for?`, needs.join() || 'nothing', `There is no ${others}.`)
    return { number: at + 1, description: task, needs, after: 0, agent, ...(tool && { tool }), ...(input && { input }) }
  })
  return { tasks, reasoning: value.reasoning || `"${planner}" gave no reason.` }
}
