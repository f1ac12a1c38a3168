/**
 * The conversation between an agent and its model. It belongs to the agent and to one run (or, with a `threadId`, to
 * one thread). A turn works on a copy, which is kept when the turn commits: a failed turn adds nothing.
 */
import type { Patch } from 'immer'
import { lengthOf, withoutReasoning } from '../../definition/content.ts'
import type { ModelMessage } from '../../definition/model.ts'
import { piecesOf, withResults } from './exchanges.ts'
import type { Summary } from './summary.ts'

/**
 * State of a conversation as JSON: it goes to the host with the commit of a turn, and comes back to the agent's next
 * thread.
 */
export interface Conversation {
  /** Summary of the messages that were dropped. */
  readonly summary?: Summary
  /** Assignment of the agent: its task, or the first request to it. */
  readonly goal?: string
  readonly turns: readonly SpokenTurn[]
}

/** Messages of one turn, without those that were dropped from the front. */
export interface SpokenTurn {
  /** Id of the message that the turn handled. */
  readonly id: string
  readonly messages: readonly ModelMessage[]
}

export const NO_CONVERSATION: Conversation = Object.freeze({ turns: [] })

/** Returns all messages that were not dropped, oldest first. */
export const historyOf = ({ turns }: Conversation): ModelMessage[] => turns.flatMap(({ messages }) => messages)

/** Returns the conversation with these messages added to the turn of that id. */
export function withTurn(conversation: Conversation, id: string, said: readonly ModelMessage[]): Conversation {
  const { turns } = conversation
  const messages = withResults(said).map(kept)
  const before = turns.find((turn) => turn.id === id)
  if (!before) return { ...conversation, turns: [...turns, { id, messages }] }
  const together = { id, messages: [...before.messages, ...messages] }
  return { ...conversation, turns: turns.map((turn) => (turn === before ? together : turn)) }
}

/** Returns a message as later turns need it: reasoning goes back to a provider within its own turn alone. */
function kept(message: ModelMessage): ModelMessage {
  const content = withoutReasoning(message.content)
  return content === message.content ? message : { ...message, content }
}

/** Returns the conversation without its first `count` messages; `summary` stands for them. */
export function withoutFirst(conversation: Conversation, count: number, summary: Summary | undefined): Conversation {
  let left = count
  const turns: SpokenTurn[] = []
  for (const turn of conversation.turns) {
    const messages = turn.messages.slice(left)
    left -= turn.messages.length - messages.length
    if (messages.length > 0) turns.push(messages.length === turn.messages.length ? turn : { ...turn, messages })
  }
  return { ...conversation, turns, ...(summary && { summary }) }
}

/** Returns the conversation with other messages in place of those of each turn. */
export function withMessages(
  conversation: Conversation,
  change: (messages: readonly ModelMessage[]) => ModelMessage[],
): Conversation {
  const turns = conversation.turns.map((turn) => ({ ...turn, messages: change(turn.messages) }))
  return { ...conversation, turns }
}

/** Limits of one conversation: messages that a model is never shown again need not be kept. */
const MOST_MESSAGES = 2_000
const MOST_CHARACTERS = 2 ** 22
/** Share of the limits that stays when one is passed: what stays moves up, and a commit has all of it. */
const SHARE_KEPT = 0.75

export const charactersOf = (messages: readonly ModelMessage[]): number =>
  messages.reduce(
    (sum, { content, toolCalls }) => sum + lengthOf(content) + (toolCalls ? JSON.stringify(toolCalls).length : 0),
    0,
  )

/**
 * Returns the conversation within these limits: beyond them the oldest messages are dropped. This is for an agent that
 * only observes: no model call cuts its conversation to a window.
 */
export function bounded(conversation: Conversation): Conversation {
  const history = historyOf(conversation)
  let messages = history.length
  let characters = charactersOf(history)
  if (messages <= MOST_MESSAGES && characters <= MOST_CHARACTERS) return conversation
  for (const piece of piecesOf(history)) {
    if (messages <= SHARE_KEPT * MOST_MESSAGES && characters <= SHARE_KEPT * MOST_CHARACTERS) break
    messages -= piece.length
    characters -= charactersOf(piece)
  }
  const dropped = history.length - messages
  const { summary = { text: '', messages: 0 } } = conversation
  return withoutFirst(conversation, dropped, { ...summary, messages: summary.messages + dropped })
}

/**
 * Merges a turn's changes, from `before` to `after`, into `current`, which others may have changed meanwhile: a turn
 * that ran within this one, or another run of the same thread. Turns are in the order in which they ended. Messages
 * that either side has summarized are dropped, and its summary stays.
 */
export function merged(current: Conversation, before: Conversation, after: Conversation): Conversation {
  if (current === before) return after // nobody else has changed it
  const begun = byId(before)
  const ended = byId(after)
  const there = byId(current)
  const kept = current.turns.flatMap((turn) => {
    if (!begun.has(turn.id) && !ended.has(turn.id)) return [turn]
    const other = ended.get(turn.id)
    return other ? [begun.has(turn.id) ? shorter(turn, other) : other] : []
  })
  const added = after.turns.filter(({ id }) => !begun.has(id) && !there.has(id))
  const summary = mergedSummary(current.summary, before.summary, after.summary)
  const goal = after.goal ?? current.goal
  return { turns: [...kept, ...added], ...(summary && { summary }), ...(goal !== undefined && { goal }) }
}

/**
 * Returns the patches that make `next` of `now`. Equal parts have none: so a commit is only as long as the new parts.
 */
export function patchesOf(now: Conversation, next: Conversation): Patch[] {
  const patches: Patch[] = []
  for (const [i, value] of next.turns.entries())
    if (now.turns[i] !== value)
      patches.push({ op: i < now.turns.length ? 'replace' : 'add', path: ['turns', i], value })
  const { length } = next.turns
  if (length < now.turns.length) patches.push({ op: 'replace', path: ['turns', 'length'], value: length })
  const { summary, goal } = next
  if (summary && !isSame(now.summary, summary)) patches.push({ op: 'replace', path: ['summary'], value: summary })
  if (goal !== undefined && now.goal !== goal) patches.push({ op: 'replace', path: ['goal'], value: goal })
  return patches
}

const byId = ({ turns }: Conversation) => new Map(turns.map((turn) => [turn.id, turn]))

const shorter = (one: SpokenTurn, other: SpokenTurn) => (other.messages.length < one.messages.length ? other : one)

function mergedSummary(
  current: Summary | undefined,
  before: Summary | undefined,
  after: Summary | undefined,
): Summary | undefined {
  if (isSame(after, before)) return current
  if (isSame(current, before)) return after
  if (!current || !after) return current ?? after
  const texts = [current.text, after.text].filter((text) => text !== '')
  return {
    ...current,
    text: texts.join('\n'),
    messages: current.messages + after.messages - (before?.messages ?? 0),
  }
}

const isSame = (one: Summary | undefined, other: Summary | undefined) =>
  one?.text === other?.text && one?.messages === other?.messages
