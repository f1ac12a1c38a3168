/** What a delegation says of its task. Anybody can have written it: what is not of its kind is as if it were not there. */
import type { AgentTask } from '../actors/task.ts'

type Offered = Pick<AgentTask, 'requiredCapabilities' | 'deadline' | 'dependencies' | 'parentTask'>

export function offered(data: unknown): Offered {
  const { requiredCapabilities, deadline, dependencies, parentTask } = Object(data) as Record<string, unknown>
  return {
    requiredCapabilities: texts(requiredCapabilities),
    deadline: typeof deadline === 'number' ? deadline : null,
    dependencies: texts(dependencies),
    parentTask: typeof parentTask === 'string' ? parentTask : null,
  }
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((text) => typeof text === 'string') : []
