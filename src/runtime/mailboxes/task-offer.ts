/** Task fields of a delegation. Any code can have written them, so fields of a wrong type count as missing. */
import type { AgentTask } from '../../actors/definition/task.ts'
import { jsonIn } from '../../mailbox/codec.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'

export type Offered = Pick<AgentTask, 'requiredCapabilities' | 'deadline' | 'dependencies' | 'parentTask'>

export function offered(data: unknown): Offered {
  const { requiredCapabilities, deadline, dependencies, parentTask } = Object(data) as Record<string, unknown>
  return {
    requiredCapabilities: texts(requiredCapabilities),
    deadline: typeof deadline === 'number' ? deadline : null,
    dependencies: texts(dependencies),
    parentTask: typeof parentTask === 'string' ? parentTask : null,
  }
}

/** Returns the task fields of the delegation at `at`. */
export const offeredIn = (memory: Memory, at: number): Offered => offered(jsonIn(readBody(memory, at).data))

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((text) => typeof text === 'string') : []
