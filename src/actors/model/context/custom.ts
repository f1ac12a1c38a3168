/** Checks the messages that a definition's `buildContext` returns, before a provider gets them. */
import { ConfigurationError, shown } from '../../../errors.ts'
import { contentFault } from '../../definition/content.ts'
import type { ModelMessage } from '../../definition/model.ts'
import { fits, roomOf, type TokenWindow, tokensOf } from './token-window.ts'

const ROLES: readonly unknown[] = ['system', 'user', 'assistant', 'tool'] satisfies ModelMessage['role'][]

/**
 * Returns the messages for the next call. The role's system prompt comes before them, unless they have a system message
 * of their own.
 *
 * @throws ConfigurationError for messages that no model can be asked with; it has the path of the fault.
 */
export function customContext(built: unknown, systemPrompt: string | undefined, window: TokenWindow): ModelMessage[] {
  const messages = checked(built, window.agent)
  const hasSystem = messages.some(({ role }) => role === 'system')
  const all: ModelMessage[] =
    hasSystem || !systemPrompt ? messages : [{ role: 'system', content: systemPrompt }, ...messages]
  if (fits(window, all, roomOf(window))) return all
  const tokens = tokensOf(window, all)
  throw wrong(window.agent, '', `${tokens} tokens`, `at most ${roomOf(window)} fit (maxTokens ${window.maxTokens})`, {
    tokens,
    maxTokens: window.maxTokens,
  })
}

function checked(built: unknown, agent: string): ModelMessage[] {
  if (!Array.isArray(built) || built.length === 0) throw wrong(agent, '', shown(built), 'a list of messages is needed')
  for (const [i, message] of built.entries()) checkMessage(message, `[${i}]`, agent)
  const messages = built as ModelMessage[]
  const open = new Set<string>()
  for (const [i, { role, toolCallId, toolCalls = [] }] of messages.entries()) {
    if (role === 'tool' && !open.delete(toolCallId!))
      throw wrong(agent, `[${i}]`, 'the result of a tool', 'the call that it answers has to stand before it')
    if (role !== 'tool' && open.size > 0) throw wrong(agent, `[${i - 1}]`, ...UNANSWERED)
    for (const { id } of toolCalls) open.add(id)
  }
  if (open.size > 0) throw wrong(agent, `[${messages.length - 1}]`, ...UNANSWERED)
  return messages
}

const UNANSWERED = ['where a call of a tool has no result', 'results stand right behind their calls'] as const

function checkMessage(message: unknown, at: string, agent: string): void {
  if (typeof message !== 'object' || message === null) throw wrong(agent, at, shown(message), 'a message is needed')
  const { role, content, toolCallId, toolCalls = [] } = message as Record<string, unknown>
  if (!ROLES.includes(role)) throw wrong(agent, `${at}.role`, shown(role), `one of ${ROLES.join(', ')} is needed`)
  const fault = contentFault(content, `${at}.content`)
  if (fault) throw wrong(agent, fault.path, shown(fault.value), fault.needed)
  if ((role === 'tool') !== (typeof toolCallId === 'string'))
    throw wrong(agent, `${at}.toolCallId`, shown(toolCallId), 'a tool has it, as a string, and nobody else')
  if (!Array.isArray(toolCalls) || (toolCalls.length > 0 && role !== 'assistant') || !toolCalls.every(isCall))
    throw wrong(agent, `${at}.toolCalls`, shown(toolCalls), 'of an assistant alone: a list of { id, name, input }')
}

const isCall = (call: unknown): boolean => {
  const { id, name, input } = Object(call) as Record<string, unknown>
  return [id, name, input].every((field) => typeof field === 'string')
}

function wrong(agent: string, at: string, got: string, needed: string, details: object = {}): ConfigurationError {
  const path = `buildContext()${at}`
  return new ConfigurationError(`${path} of agent "${agent}" is ${got}; ${needed}.`, { path, agent, got, ...details })
}
