/** Conversation that a caller gives to a run (`messages`), and gets back from it. */
import { type ContentPart, contentFault, lengthToStore, textOf } from '../../actors/definition/content.ts'
import type { ModelMessage, ToolCall } from '../../actors/definition/model.ts'
import { type Conversation, charactersOf } from '../../actors/model/context/conversation.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { isObject } from '../checks/checks.ts'
import { refused, refusedAs } from '../checks/refused.ts'
import { HISTORY_TURN } from '../state/conversations.ts'
import type { RunState } from '../state/run-state.ts'

/** Limits of what a caller gives: it goes to each model agent of the run. */
const MOST_MESSAGES = 2_000
const MOST_CHARACTERS = 2 ** 22

const ROLES: readonly unknown[] = ['user', 'assistant', 'tool'] satisfies ModelMessage['role'][]
const FIELDS = ['role', 'content', 'toolCalls', 'toolCallId']

/**
 * Returns a copy of messages. Their parts are checked, and not copied.
 *
 * @throws ConfigurationError that names the field, what came and what is accepted.
 */
export function readMessages(given: unknown): ModelMessage[] {
  if (!Array.isArray(given)) throw refused('messages', given, 'a list of messages')
  if (given.length > MOST_MESSAGES)
    throw refusedAs(
      'messages',
      `${given.length} messages`,
      `at most ${MOST_MESSAGES}`,
      'Leave the oldest out, or give a summary of them.',
    )
  const messages = given.map((message: unknown, i) => readMessage(message, `messages[${i}]`))
  checkResults(messages)
  const characters = messages.reduce((sum, { content }) => sum - lengthToStore(content), charactersOf(messages))
  if (characters > MOST_CHARACTERS)
    throw refusedAs(
      'messages',
      `${characters} characters, media below 64 KiB included`,
      `at most ${MOST_CHARACTERS}`,
      'Leave the oldest out.',
    )
  return messages
}

/** Every provider refuses a result without its call. */
function checkResults(messages: readonly ModelMessage[]): void {
  const called = new Set<string>()
  for (const [i, { toolCalls = [], toolCallId }] of messages.entries()) {
    if (toolCallId !== undefined && !called.has(toolCallId))
      throw refused(`messages[${i}].toolCallId`, toolCallId, 'the id of a call in an earlier message')
    for (const { id } of toolCalls) called.add(id)
  }
}

function readMessage(message: unknown, path: string): ModelMessage {
  if (!isObject(message)) throw refused(path, message, 'a message: { role, content }')
  const { role, content, toolCalls, toolCallId, ...others } = message as Partial<Record<keyof ModelMessage, unknown>>
  const [other] = Object.keys(others)
  if (other !== undefined)
    throw refusedAs(`${path}.${other}`, 'a field that a message does not have', FIELDS.join(', '))
  if (!ROLES.includes(role))
    throw refused(`${path}.role`, role, ROLES.join(', '), 'System prompts are those of the roles (systemPrompt).')
  const fault = contentFault(content, `${path}.content`)
  if (fault) throw refused(fault.path, fault.value, fault.needed)
  if (toolCalls !== undefined && (role !== 'assistant' || !Array.isArray(toolCalls)))
    throw refused(`${path}.toolCalls`, toolCalls, "a list, in a message of role 'assistant'")
  if ((role === 'tool') !== (typeof toolCallId === 'string'))
    throw refused(`${path}.toolCallId`, toolCallId, "the id of a call in a message of role 'tool', and in no other")
  const calls = (toolCalls as unknown[] | undefined)?.map((call, i) => readCall(call, `${path}.toolCalls[${i}]`))
  return {
    role: role as ModelMessage['role'],
    content: typeof content === 'string' ? content : [...(content as ContentPart[])],
    ...(calls && calls.length > 0 && { toolCalls: calls }),
    ...(typeof toolCallId === 'string' && { toolCallId }),
  }
}

function readCall(call: unknown, path: string): ToolCall {
  const { id, name, input, providerData } = Object(call) as Partial<Record<keyof ToolCall, unknown>>
  for (const [field, value] of Object.entries({ id, name, input }))
    if (typeof value !== 'string') throw refused(`${path}.${field}`, value, 'a text')
  const issue = providerData === undefined ? undefined : jsonIssue(providerData, `${path}.providerData`)
  if (issue) throw refusedAs(issue.path, issue.got, 'JSON')
  return { ...(call as ToolCall) }
}

/**
 * Returns what a run adds to the conversation of its caller: its query and its answer. Where the agent that has spoken
 * last was asked the query itself, the calls of its tools and their results are among them.
 */
export function exchangeOf(run: RunState, answer: string): ModelMessage[] {
  for (const state of run.states.values()) {
    const last = (state as Partial<Conversation>).turns?.at(-1)
    if (!last || last.id === HISTORY_TURN) continue
    const [asked, ...said] = last.messages
    if (asked?.role !== 'user' || textOf(asked.content) !== run.query) continue
    const final = said.at(-1)
    const isAnswer = final?.role === 'assistant' && !final.toolCalls && final.content === answer
    if (isAnswer && said.every(({ role }) => role !== 'user')) return [...last.messages]
  }
  return [
    { role: 'user', content: run.parts ?? run.query },
    { role: 'assistant', content: answer },
  ]
}
