/**
 * The conversation that an agent hands over with its task. A model that answers in the place of another one reads what
 * was said until then, turn by turn, as a part of its own conversation. A turn that it knows does not come twice.
 */
import type { AgentMessage } from '../../../mailbox/message.ts'
import { own } from '../../../own.ts'
import { textOf, transcriptOf } from '../../definition/content.ts'
import type { ModelMessage } from '../../definition/model.ts'
import { type Conversation, charactersOf, historyOf, type SpokenTurn } from './conversation.ts'
import { spoken, summaryMessage } from './summary.ts'

/** Value of `metadata.handoff`. `said`: the conversation, if a model is to go on with it. */
export interface HandedOver {
  from: string
  task: { description: string }
  summary?: string
  said?: readonly SpokenTurn[]
}

/** Limit of the earlier turns, in characters: they are sent with the message. */
const LONGEST = 2 ** 15

/**
 * Returns what is handed over: the words of earlier turns, and the turn of that id with what its tools have answered.
 * Calls of tools are told in words, because the next agent may not have these tools, and providers refuse calls of
 * tools that they do not know. Of a long conversation the oldest turns are left out, and a message says so.
 */
export function handedOver(before: Conversation, current: SpokenTurn, agent: string): readonly SpokenTurn[] {
  const earlier = before.turns.map(({ id, messages }) => ({ id, messages: wordsOf(messages) }))
  let characters = 0
  const first = earlier.findLastIndex(({ messages }) => {
    characters += charactersOf(messages)
    return characters > LONGEST
  })
  const { summary = { text: '', messages: 0 } } = before
  const left = summary.messages + historyOf({ turns: earlier.slice(0, first + 1) }).length
  const stands = summaryMessage({ ...summary, messages: left })
  return [
    ...(left > 0 ? [{ id: `${current.id}-before`, messages: [stands] }] : []),
    ...earlier.slice(first + 1),
    { id: current.id, messages: [...wordsOf(current.messages), ...toolsOf(current.messages, agent)] },
  ]
}

/** Returns what people and the model have said in words. */
const wordsOf = (messages: readonly ModelMessage[]): ModelMessage[] =>
  messages.flatMap(({ role, content }) => {
    const text = transcriptOf(content)
    return role === 'tool' || text === '' ? [] : [{ role, content: text }]
  })

/** Tells what tools were called for, and what they have answered, in one message. */
function toolsOf(messages: readonly ModelMessage[], agent: string): ModelMessage[] {
  const answered = new Set(messages.map(({ toolCallId }) => toolCallId))
  const lines = messages.flatMap((message) => {
    if (message.role === 'tool') return spoken(message)
    const toolCalls = message.toolCalls?.filter(({ id }) => answered.has(id)) ?? []
    return toolCalls.length > 0 ? spoken({ ...message, content: '', toolCalls }) : []
  })
  if (lines.length === 0) return []
  const text = lines.join('\n')
  const end = text.length > LONGEST ? `(The beginning is left out here.)\n${text.slice(-LONGEST)}` : text
  return [{ role: 'user', content: `"${agent}" has used its tools:\n${end}` }]
}

/** Returns the conversation with the turns that came with the message, without those that it has. */
export function withHandedOver(conversation: Conversation, message: AgentMessage): Conversation {
  const known = new Set(conversation.turns.map(({ id }) => id))
  const turns = (handedOverIn(message)?.said ?? []).filter(({ id }) => !known.has(id))
  return turns.length === 0 ? conversation : { ...conversation, turns: [...conversation.turns, ...turns] }
}

/** Tells a model that it answers now, and what it is to do if that was not said already. */
export function handoffText({ from, task, summary, said = [] }: HandedOver): string {
  const asked = historyOf({ turns: said }).findLast(({ role }) => role === 'user')
  const isSaid = asked !== undefined && textOf(asked.content) === task.description
  const about = isSaid ? '.' : `: ${task.description}`
  return [`"${from}" has handed this conversation over to you${about}`, ...(summary ? [summary] : [])].join('\n\n')
}

/**
 * Reads what was handed over with a message; undefined if it is no such message. Its sender may have written anything.
 */
export function handedOverIn({ type, metadata }: Pick<AgentMessage, 'type' | 'metadata'>): HandedOver | undefined {
  const handoff: unknown = type === 'delegate' ? own(metadata, 'handoff') : undefined
  const { from, task, summary, said } = Object(handoff) as Partial<Record<keyof HandedOver, unknown>>
  const { description } = Object(task) as { description?: unknown }
  if (typeof from !== 'string' || typeof description !== 'string') return undefined
  return {
    from,
    task: { description },
    ...(typeof summary === 'string' && { summary }),
    ...(Array.isArray(said) && said.every(isTurn) && { said }),
  }
}

function isTurn(turn: unknown): turn is SpokenTurn {
  const { id, messages } = Object(turn) as Partial<Record<keyof SpokenTurn, unknown>>
  return typeof id === 'string' && Array.isArray(messages) && messages.every(isWord)
}

function isWord(message: unknown): boolean {
  const { role, content } = Object(message) as Partial<Record<keyof ModelMessage, unknown>>
  return (role === 'user' || role === 'assistant') && typeof content === 'string'
}
