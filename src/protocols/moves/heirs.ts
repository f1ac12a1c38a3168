/**
 * Inheritance of workers: a part of the conversation of the agent that plans for them. Source: document 002, 2.4.3,
 * "configurable context inheritance from parent/manager".
 */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { INHERITED, type Inherited, PASS_ON, PASSED_ON } from '../../actors/model/context/inheritance.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

type Roles = Partial<Pick<OrchestratorContext, 'agents'>>

/**
 * Returns the metadata by which a planner's answer brings what those workers inherit. It is empty if none of them
 * inherits anything, and if the planner is code, which keeps its own conversation.
 */
export function passingOn(
  { agents = [] }: Roles,
  planner: string,
  workers: readonly string[],
): Record<string, unknown> {
  const inherits = new Set(agents.flatMap((agent) => (workers.includes(agent.name) ? (agent.inherits ?? []) : [])))
  const isModel = agents.some(({ name, playedByModel }) => name === planner && playedByModel)
  return isModel && inherits.size > 0 ? { [PASS_ON]: [...inherits] } : {}
}

/** Returns the metadata for a message to that worker with what it inherits, as the planner's answer has brought it. */
export function inheritedBy(
  { agents = [] }: Roles,
  worker: string,
  plan: AgentMessage | undefined,
): Record<string, unknown> | undefined {
  const inherits = agents.find(({ name }) => name === worker)?.inherits
  const text: unknown = inherits && Object(plan?.metadata[PASSED_ON])[inherits]
  if (!plan || typeof text !== 'string') return undefined
  return { [INHERITED]: { text, from: plan.sender } satisfies Inherited }
}
