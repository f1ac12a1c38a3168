/** What the verbs that ask a model need of their turn. */
import type { DramatisError } from '../../errors.ts'
import type { AgentContext } from '../definition/context/context.ts'
import type { TaskMessageOptions } from '../definition/context/conversation.ts'
import type { RoundBounds } from '../definition/cycles.ts'
import type { Awaitable } from '../definition/definition.ts'
import type { ModelAnswer, ModelCall, ModelMessage } from '../definition/model.ts'
import type { ContextStrategy, RoleInfo } from '../definition/role.ts'
import type { AgentTask, TaskInput } from '../definition/task.ts'
import type { RoleTools } from './role-tools.ts'

export interface ThinkingTurn {
  readonly role: RoleInfo
  readonly context: AgentContext
  /** The verbs that the role has as tools. */
  readonly verbs: readonly string[]
  /** The role's own, beside them. */
  readonly tools: RoleTools
  /** When its rounds are a loop; false: nobody looks. */
  readonly loops: RoundBounds | false
  /** How the role chooses what its model sees. */
  readonly strategy: ContextStrategy | undefined
  /** The definition's own choice, where it has one. */
  readonly buildContext: ((history: readonly ModelMessage[]) => Awaitable<ModelMessage[]>) | undefined
  /** `delegate`, with metadata for who gets the task, and a signal that withdraws it. */
  delegate(to: string, task: TaskInput, options: TaskMessageOptions): Promise<AgentTask>
  /** Why no verb works any more, if none does. */
  refusal(): DramatisError | undefined
  /** Who there is beside the agent itself, and what they do. */
  others(): Promise<unknown>
  /** The host is told of a sign that its model goes round in circles. */
  loopFound(step: 'notice' | 'replan' | 'abort', signs: readonly string[]): Promise<unknown>
  /** One call by the gateway in the host: a step. */
  ask(call: ModelCall, signal: AbortSignal | undefined): Promise<ModelAnswer>
}
