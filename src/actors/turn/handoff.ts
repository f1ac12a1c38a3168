/**
 * The handoff: the duty to answer moves to another agent. The host performs it as one step of the turn; see
 * runtime/tasks/handoffs.ts. Source: document 002, 2.6.1.
 */
import { checkText } from '../definition/checks.ts'
import type { AgentTask, TaskInput } from '../definition/task.ts'
import type { SpokenTurn } from '../model/context/conversation.ts'
import { offerFor, type TaskTurn } from './delegate.ts'

/** Arguments of the host call. */
export interface HandoffRequest {
  to: string
  description: string
  priority: number
  /** The whole task, as `structuredData` of the message that hands it over. */
  offer: object
  /** The task as the source agent gave it. */
  task: object
  summary?: string
  /** The source's conversation, for a model that answers in its place. */
  said?: readonly SpokenTurn[]
}

export async function handoff(
  turn: TaskTurn,
  to: string,
  input: AgentTask | TaskInput,
  summary: string | undefined,
  said?: readonly SpokenTurn[],
): Promise<void> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  if (summary !== undefined) checkText(summary, 'summary')
  const offer = offerFor(turn, to, input)
  const request: HandoffRequest = {
    to,
    description: offer.description,
    priority: offer.priority,
    offer: { ...offer, parentTask: turn.taskId ?? offer.parentTask },
    task: typeof input === 'string' ? { description: input } : input,
    ...(summary !== undefined && { summary }),
    ...(said && { said }),
  }
  await turn.call('handoff', request)
  turn.release()
}
