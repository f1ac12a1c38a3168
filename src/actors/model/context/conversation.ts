/**
 * What an agent and its model have said to each other. It is the agent's own, and one run's (or, with a `threadId`, one
 * thread's). A turn works on a copy, which counts when the turn commits: one that fails has said nothing.
 */
import type { ModelMessage } from '../../definition/model.ts'
import { piecesOf, withResults } from './exchanges.ts'
import type { Summary } from './summary.ts'

/** JSON: it goes to the host with the commit of a turn, and comes back with the agent's next life. */
export interface Conversation {
  /** What stands for what is gone. */
  readonly summary?: Summary
  /** What the agent was given to do: its task, or what it was asked first. */
  readonly goal?: string
  readonly turns: readonly SpokenTurn[]
}

/** What was said in one turn, less what is gone of it from the front. */
export interface SpokenTurn {
  /** Of the message that the turn handled. */
  readonly id: string
  readonly messages: readonly ModelMessage[]
}

export const NO_CONVERSATION: Conversation = Object.freeze({ turns: [] })

/** All that was said and is not gone, oldest first. */
export const historyOf = ({ turns }: Conversation): ModelMessage[] => turns.flatMap(({ messages }) => messages)

/** That, and what was said now in the turn of that id. */
export function withTurn(conversation: Conversation, id: string, said: readonly ModelMessage[]): Conversation {
  const { turns } = conversation
  const messages = withResults(said)
  const before = turns.find((turn) => turn.id === id)
  if (!before) return { ...conversation, turns: [...turns, { id, messages }] }
  const together = { id, messages: [...before.messages, ...messages] }
  return { ...conversation, turns: turns.map((turn) => (turn === before ? together : turn)) }
}

/** Without its first `count` messages; `summary` stands for them. */
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

/** Of one conversation: what a model is never shown again need not be kept. */
const MOST_MESSAGES = 2_000
const MOST_CHARACTERS = 2 ** 22

export const charactersOf = (messages: readonly ModelMessage[]): number =>
  messages.reduce(
    (sum, { content, toolCalls }) => sum + content.length + (toolCalls ? JSON.stringify(toolCalls).length : 0),
    0,
  )

/** The conversation within those bounds: of one that nobody cuts to a window, since it is only heard, the oldest goes. */
export function bounded(conversation: Conversation): Conversation {
  const history = historyOf(conversation)
  let messages = history.length
  let characters = charactersOf(history)
  if (messages <= MOST_MESSAGES && characters <= MOST_CHARACTERS) return conversation
  for (const piece of piecesOf(history)) {
    if (messages <= MOST_MESSAGES && characters <= MOST_CHARACTERS) break
    messages -= piece.length
    characters -= charactersOf(piece)
  }
  const dropped = history.length - messages
  const { summary = { text: '', messages: 0 } } = conversation
  return withoutFirst(conversation, dropped, { ...summary, messages: summary.messages + dropped })
}

/**
 * What `current` becomes when somebody who began with `before` has come to `after`, and others may have changed it meanwhile:
 * a turn that ran within this one, another run of the same thread. Turns stand in the order in which they ended. What either
 * has summarized is gone, and its summary stays.
 */
export function merged(current: Conversation, before: Conversation, after: Conversation): Conversation {
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

/** Makes `next` of a draft of `now`, and touches nothing that is the same in both: a commit is as long as what is new. */
export function change(draft: Conversation, now: Conversation, next: Conversation): void {
  const open = draft as { -readonly [Field in keyof Conversation]: Conversation[Field] }
  const turns = draft.turns as SpokenTurn[]
  for (const [i, turn] of next.turns.entries()) if (now.turns[i] !== turn) turns[i] = turn
  turns.length = next.turns.length
  if (next.summary && !isSame(now.summary, next.summary)) open.summary = next.summary
  if (next.goal !== undefined && now.goal !== next.goal) open.goal = next.goal
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
