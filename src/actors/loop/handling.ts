/** Selects the handler for a message, calls it, and classifies its result. */
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import type { ReceivedMessage } from '../../mailbox/codec.ts'
import type { AgentMessage, TypedMessage } from '../../mailbox/message.ts'
import type { AgentContext } from '../definition/context/context.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { Turn } from '../turn/turn.ts'
import { inputOf } from './input.ts'

/** Calls the handler for the message and returns the handler's result. */
export function handle(handlers: AgentHandlers, turn: Turn, context: AgentContext, message: ReceivedMessage): unknown {
  const { receive, observe, input } = handlers
  const { type } = turn.start
  const typed = message as AgentMessage as TypedMessage
  if (type === 'publish') turn.start.view.listeners?.deliver(message.structuredData as BlackboardEntry)
  if (type === 'broadcast' || type === 'report' || type === 'publish') return observe?.(typed, context)
  if (input && (type === 'request' || type === 'delegate')) return checked(handlers, turn, context, message)
  return receive(typed, context)
}

/** Calls the handler with the data that the agent's input schema returns. */
async function checked(
  handlers: AgentHandlers,
  turn: Turn,
  context: AgentContext,
  message: ReceivedMessage,
): Promise<unknown> {
  const structuredData = await inputOf(handlers.input!, turn, message)
  return turn.reason ? undefined : handlers.receive({ ...message.toJSON(), structuredData }, context)
}

export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'

/** Returns the thrown value, or an error if the handler threw null or undefined. */
export const thrownBy = (error: unknown) => error ?? new Error(`a handler threw ${error}`)
