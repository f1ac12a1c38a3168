/**
 * Decisions of a model agent on an escalation, as tools. Without one of them its answer is guidance, as that of any
 * manager. The agent that has escalated carries the decision out (`turn/escalate.ts`). Source: document 002, 2.6.2.
 */
import { ToolInputError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import type { RoleInfo } from '../definition/role.ts'
import type { Colleague } from './prompt.ts'
import { AGENT, ALONE, tool, type VerbTool } from './verb-tool.ts'

const NOTE = { type: 'string' } as const
const DONE = 'You are done then. To give advice, answer in words and call none of these.'

/** Checks for an escalation: a message on which a manager decides. */
export const isEscalation = ({ metadata: { escalation } }: AgentMessage): boolean =>
  typeof escalation === 'object' && escalation !== null

/** Returns the decisions that the model has in a turn for that message: none unless it is an escalation. */
export function decisionsOn(
  message: AgentMessage,
  { escalateTo }: RoleInfo,
  colleagues: readonly Colleague[],
): VerbTool[] {
  if (!isEscalation(message)) return []
  const { from } = message.metadata.escalation as { from?: unknown }
  const others = colleagues.map(({ name }) => name).filter((name) => name !== from)
  return [
    ...(others.length > 0 ? [reassign(others)] : []),
    takeOver,
    ...(escalateTo === undefined ? [] : [escalateFurther]),
  ]
}

const reassign = (others: readonly string[]): VerbTool =>
  tool(
    'reassign',
    `Decides on the escalation: gives the task, as it is, to another agent, whose answer is its result. ${DONE}`,
    { to: AGENT, guidance: { ...NOTE, description: 'Advice for that agent.' } },
    ['to'],
    async (_turn, { to, guidance = '' }) => {
      if (others.includes(String(to))) return { ends: String(guidance), data: { decision: 'reassign', to } }
      throw new ToolInputError(`"to" is ${JSON.stringify(to)}; you may give the task to: ${others.join(', ')}.`, { to })
    },
    ALONE,
  )

const takeOver = tool(
  'take_over',
  `Decides on the escalation: you have done the task yourself, and this is its result. ${DONE}`,
  { result: { ...NOTE, description: 'The answer to the task.' } },
  ['result'],
  async (_turn, { result }) => ({ ends: String(result), data: { decision: 'take_over' } }),
  ALONE,
)

const escalateFurther = tool(
  'escalate',
  `Decides on the escalation: passes it on to your own manager, who decides in your place. ${DONE}`,
  { reason: { ...NOTE, description: 'Why you cannot decide.' } },
  [],
  async (_turn, { reason = '' }) => ({ ends: String(reason), data: { decision: 'escalate' } }),
  ALONE,
)
