/**
 * The conversation between an agent and its model. It belongs to the agent and to one run (or, with a `threadId`, to
 * one thread). A turn works on a copy, which is kept when the turn commits: a failed turn adds nothing.
 */

import type { Patch } from 'immer'
import type { AgentMessage } from '../../mailbox/message.ts'
import { own } from '../../shared/values.ts'
import { contentFault, lengthOf, textOf, transcriptOf, withoutReasoning } from '../definition/content.ts'
import type { ModelMessage, ToolCall } from '../definition/model.ts'
import type { ContextStrategy, FloorHistory } from '../definition/role.ts'
import { counted, type Summary, spoken, summaryMessage } from './summary.ts'

/*
 * Splits a conversation into the pieces at which it may be cut. Every provider refuses a tool result without its call,
 * and a call without its result, so these always stay together.
 */

/** Messages that stay together: a single message, or a model's tool calls with all their results. */
export type Piece = readonly ModelMessage[]

/** Returns the smallest pieces in order; together they are the whole of `messages`. */
export function piecesOf(messages: readonly ModelMessage[]): Piece[] {
  const pieces: ModelMessage[][] = []
  for (const message of messages) {
    const last = pieces.at(-1)
    if (last && message.role === 'tool') last.push(message)
    else pieces.push([message])
  }
  return pieces
}

/**
 * Returns the exchanges. An exchange is the messages to the model, its answer, and the results of the tools that it
 * called.
 */
export function exchangesOf(messages: readonly ModelMessage[]): Piece[] {
  const exchanges: ModelMessage[][] = []
  for (const piece of piecesOf(messages)) {
    const last = exchanges.at(-1)
    if (last && !isAnswered(last)) last.push(...piece)
    else exchanges.push([...piece])
  }
  return exchanges
}

export const isAnswered = (piece: Piece): boolean => piece.some(({ role }) => role === 'assistant')

/** Content of the result for a tool call that has none. */
const NO_RESULT = 'There is no result: the turn ended before this call had one.'

/** Returns the messages with a result for each call, also if a turn ended between a call and its result. */
function withResults(messages: readonly ModelMessage[]): ModelMessage[] {
  const all: ModelMessage[] = []
  const open = new Set<string>()
  const close = () => {
    for (const toolCallId of open) all.push({ role: 'tool', content: NO_RESULT, toolCallId })
    open.clear()
  }
  for (const message of messages) {
    if (message.role !== 'tool') close()
    else open.delete(message.toolCallId!)
    all.push(message)
    for (const { id } of message.toolCalls ?? []) open.add(id)
  }
  close()
  return all
}

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
  /** Agent that alone sees the turn, in a conversation that several share. */
  readonly for?: string
  /** Set if that agent sees nothing of what stands before. Turns in whose place it stands, also if they come later. */
  readonly instead?: readonly string[]
}

export const NO_CONVERSATION: Conversation = Object.freeze({ turns: [] })

/** Returns all messages that were not dropped, oldest first. */
export const historyOf = ({ turns }: Conversation): ModelMessage[] => turns.flatMap(({ messages }) => messages)

/** `alone`: agent that alone sees the turn. */
export function withTurn(
  conversation: Conversation,
  id: string,
  said: readonly ModelMessage[],
  alone?: string,
): Conversation {
  const { turns } = conversation
  const messages = withResults(said).map(kept)
  const before = turns.find((turn) => turn.id === id)
  if (!before)
    return { ...conversation, turns: [...turns, { id, messages, ...(alone !== undefined && { for: alone }) }] }
  const together = { ...before, messages: [...before.messages, ...messages] }
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
    if (messages.length > 0 || turn.messages.length === 0)
      turns.push(messages.length === turn.messages.length ? turn : { ...turn, messages })
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

/*
 * A conversation that several agents share, of whom one speaks at a time (strategy handoff). Each sees what was said by
 * all who spoke for a run, and besides what is for it alone: what others than the user have asked it, and what a
 * handoff has shown it in the place of the conversation.
 */

/** Returns what an agent sees of a conversation. */
export function seenBy(conversation: Conversation, agent: string): Conversation {
  const { turns } = conversation
  if (turns.every((turn) => turn.for === undefined)) return conversation
  const seen = turns.filter((turn) => turn.for === undefined || turn.for === agent)
  const from = seen.findLastIndex(({ instead }) => instead !== undefined)
  if (from < 0) return { ...conversation, turns: seen }
  const { summary: _, ...rest } = conversation
  return { ...rest, turns: seen.slice(from).filter(({ id }) => !seen[from]!.instead?.includes(id)) }
}

/**
 * Returns messages for a model that has these tools. Calls of other tools are told in words, message by message, since
 * providers refuse calls of tools that they are not offered.
 */
export function withCallsOf(tools: ReadonlySet<string>, messages: readonly ModelMessage[]): ModelMessage[] {
  const open = new Set<string>()
  const told = new Map<string, ToolCall>()
  return messages.map((message) => {
    const { content, toolCalls = [], toolCallId = '', ...rest } = message
    if (message.role === 'tool') {
      if (open.delete(toolCallId)) return message
      const { name = 'of another agent', input = '' } = told.get(toolCallId) ?? {}
      return {
        role: 'user',
        content: `The tool ${name} was called with ${input}. Its result:\n${transcriptOf(content)}`,
      }
    }
    const isOffered = toolCalls.every(({ name }) => tools.has(name))
    for (const call of toolCalls) {
      if (isOffered) open.add(call.id)
      else told.set(call.id, call)
    }
    return isOffered ? message : { ...rest, content: transcriptOf(content) }
  })
}

/** Returns what the next speaker gets of the conversation that both share: all of it, or what `history` says. */
function shared(history: FloorHistory, before: Conversation, current: SpokenTurn, to: string): readonly SpokenTurn[] {
  const { summary, turns } = before
  if (history === 'summary' || history === 'task') return [onlyFor(to, [...turns, current], [])]
  const opening = summary && { id: `${current.id}-before`, for: to, messages: [summaryMessage(summary)] }
  return [...(opening ? [opening] : []), ...turns, { ...current, messages: current.messages.map(kept) }]
}

/** Returns the turn in which a handoff shows an agent messages in the place of those turns. */
export function onlyFor(to: string, turns: readonly SpokenTurn[], messages: readonly ModelMessage[]): SpokenTurn {
  const last = turns.at(-1)?.id ?? ''
  return {
    id: `${last}-for-${to}`,
    for: to,
    instead: turns.flatMap(({ id, instead = [] }) => [id, ...instead]),
    messages,
  }
}

/*
 * The conversation that an agent hands over with its task. A model that answers in the place of another one reads what
 * was said until then, turn by turn, as a part of its own conversation. A turn that it knows does not come twice.
 */

/** Value of `metadata.handoff`. `said`: the conversation, if a model is to go on with it. */
export interface HandedOver {
  from: string
  task: { description: string }
  summary?: string
  said?: readonly SpokenTurn[]
  /** Agents that have handed it on one after the other with no word, tool or question in between. */
  silent?: readonly string[]
  /** True if nobody may hand it on again. */
  last?: true
}

/** Conversation as a turn hands it over. `isSilent`: the turn has neither said nor done anything. */
export interface Heard {
  readonly said: readonly SpokenTurn[]
  readonly isSilent: boolean
}

/** Limit of the earlier turns, in characters: they are sent with the message. */
const LONGEST = 2 ** 15

/**
 * Returns what is handed over: the words of earlier turns, and the turn of that id with what its tools have answered.
 * Calls of tools are told in words, because the next agent may not have these tools, and providers refuse calls of
 * tools that they do not know. Of a long conversation the oldest turns are left out, and a message says so.
 */
function handedOver(before: Conversation, current: SpokenTurn, agent: string): readonly SpokenTurn[] {
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
export function withHandedOver(conversation: Conversation, handed: HandedOver | undefined): Conversation {
  if (!handed?.said) return conversation
  const known = new Set(conversation.turns.map(({ id }) => id))
  const turns = handed.said.filter(({ id }) => !known.has(id))
  return turns.length === 0 ? conversation : { ...conversation, turns: [...conversation.turns, ...turns] }
}

/** Tells a model that it answers now, and what it is to do if that was not said already. */
export function handoffText({ from, task, summary, said = [], last }: HandedOver): string {
  const asked = historyOf({ turns: said }).findLast(({ role }) => role === 'user')
  const isSaid = asked !== undefined && textOf(asked.content) === task.description
  const about = isSaid ? '.' : `: ${sentence(task.description)}`
  return [
    `${from} has handed this conversation to you${about}`,
    ...(summary ? [sentence(summary)] : []),
    ...(last ? ['It cannot be handed on again: answer it yourself.'] : []),
  ].join(' ')
}

const sentence = (text: string): string => (/[\p{L}\p{N}]$/u.test(text) ? `${text}.` : text)

/**
 * Reads what was handed over with a message; undefined if it is no such message. Its sender may have written anything.
 */
export function handedOverIn({ type, metadata }: Pick<AgentMessage, 'type' | 'metadata'>): HandedOver | undefined {
  const handoff: unknown = type === 'delegate' ? own(metadata, 'handoff') : undefined
  const { from, task, summary, said, silent, last } = Object(handoff) as Partial<Record<keyof HandedOver, unknown>>
  const { description } = Object(task) as { description?: unknown }
  if (typeof from !== 'string' || typeof description !== 'string') return undefined
  return {
    from,
    task: { description },
    ...(typeof summary === 'string' && { summary }),
    ...(Array.isArray(said) && said.every(isTurn) && { said }),
    ...(Array.isArray(silent) && { silent: silent.map(String) }),
    ...(last === true && { last }),
  }
}

function isTurn(turn: unknown): turn is SpokenTurn {
  const { id, messages, for: alone = '', instead = [] } = Object(turn) as Partial<Record<keyof SpokenTurn, unknown>>
  return typeof id === 'string' && typeof alone === 'string' && Array.isArray(instead) && areMessages(messages)
}

/** Checks for messages of a conversation, in which calls of tools may stand. */
export const areMessages = (messages: unknown): messages is ModelMessage[] =>
  Array.isArray(messages) && messages.every(isSaid)

function isSaid(message: unknown): boolean {
  const { role, content, toolCalls = [], toolCallId } = Object(message) as Partial<Record<keyof ModelMessage, unknown>>
  if (contentFault(content, '') || !Array.isArray(toolCalls) || !toolCalls.every(isCall)) return false
  if (role === 'tool') return typeof toolCallId === 'string'
  return role === 'assistant' || (role === 'user' && toolCalls.length === 0)
}

function isCall(call: unknown): boolean {
  const { id, name, input } = Object(call) as Record<string, unknown>
  return [id, name, input].every((field) => typeof field === 'string')
}

/*
 * Decides which part of its conversation a model agent passes on to other agents. By default another agent gets only
 * the messages that are sent to it; a role that is to inherit more sets `contextStrategy.inherit`. An agent that takes
 * a task over, or is to help with it, gets a summary.
 */

export type Inheritance = NonNullable<ContextStrategy['inherit']>
type Part = Exclude<Inheritance, 'none'>

/** Agents that inherit something, by name. */
export type Heirs = Readonly<Record<string, Inheritance>>

/** Value in the metadata of a message. `from`: whose conversation it is, if it is not the sender's. */
export interface Inherited {
  text: string
  from?: string
}

/** Field of the metadata of a message that has what its recipient inherits. */
export const INHERITED = 'inherited'
/** Field of the metadata of a script's question: what is to be passed on with the answer, 'summary' or 'full'. */
export const PASS_ON = 'passOn'
/** Field of the metadata of the answer: the texts by these names. */
export const PASSED_ON = 'passedOn'

/** Returns what the script that has asked wants to pass on of the conversation. */
export const wantedBy = ({ metadata }: AgentMessage): Part[] =>
  (['summary', 'full'] as const).filter((each) => [metadata[PASS_ON]].flat().includes(each))

/** Conversation of a turn, for an agent that answers in its place. */
export interface Floor {
  readonly before: Conversation
  /** Id of the message that the turn handles. */
  readonly id: string
  readonly agent: string
  /** Number of messages before those of the turn. */
  readonly from: number
  /** Agents that models play: they read the conversation. */
  readonly readers: ReadonlySet<string>
  /** Set if the readers share the conversation: what the next of them gets of it. */
  readonly shared: FloorHistory | undefined
}

export class PassingOn {
  readonly #heirs: Heirs
  readonly #said: () => readonly ModelMessage[]
  readonly #summarized: (messages: readonly ModelMessage[]) => Promise<string>
  readonly #floor: Floor | undefined
  #summary: { of: number; text: Promise<string> } | undefined

  /** `said`: the conversation up to now. `summarized`: makes a summary of it, which may cost a model call. */
  constructor(
    heirs: Heirs,
    said: () => readonly ModelMessage[],
    summarized: (messages: readonly ModelMessage[]) => Promise<string>,
    floor?: Floor,
  ) {
    this.#heirs = heirs
    this.#said = said
    this.#summarized = summarized
    this.#floor = floor
  }

  /**
   * Returns the conversation for an agent that answers from now on; undefined if code asks, or for code that shares
   * none: what code answers stands behind it.
   */
  heardBy(to: string): Heard | undefined {
    if (!this.#floor) return undefined
    const { before, id, agent, from, shared: history, readers } = this.#floor
    const current = { id, messages: this.#said().slice(from) }
    if (!readers.has(to)) return history && { said: shared('conversation', before, current, to), isSilent: false }
    const said = history === undefined ? handedOver(before, current, agent) : shared(history, before, current, to)
    return { said, isSilent: this.#isSilent(from) }
  }

  /** Returns the text that goes with a handoff; undefined if the next speaker reads the conversation. */
  async toldWith(to: string, given: string | undefined): Promise<string | undefined> {
    if (this.#floor?.shared === 'summary') return [given, await this.summary()].filter((text) => text).join('\n\n')
    return given === undefined && !this.#floor?.readers.has(to) ? this.summary() : given
  }

  /** True if the turn speaks in a conversation that agents share. */
  get speaks(): boolean {
    return this.#floor?.shared !== undefined
  }

  #isSilent(from: number): boolean {
    return this.#said()
      .slice(from)
      .every(({ role }) => role === 'user')
  }

  /** Returns a summary, which is paid for once, however many agents get it at a time. */
  summary(): Promise<string> {
    return this.#summaryOf(this.#said())
  }

  #summaryOf(said: readonly ModelMessage[]): Promise<string> {
    if (this.#summary?.of !== said.length) this.#summary = { of: said.length, text: this.#summarized(said) }
    return this.#summary.text
  }

  /** Returns the conversation as text; of a long one, a summary and the end. */
  async #transcript(): Promise<string> {
    const said = this.#said()
    const from = beginOfEnd(said)
    const end = said.slice(from).filter(isTold).map(spoken)
    const left = said.slice(0, from).filter(isTold).length
    if (left === 0) return end.join('\n\n')
    return [`(${counted(left)} summed up here.)\n${await this.#summaryOf(said.slice(0, from))}`, ...end].join('\n\n')
  }

  /** Returns the metadata for a message to that agent. */
  async metadataFor(to: string): Promise<object | undefined> {
    const inheritance = own(this.#heirs, to) ?? 'none'
    if (inheritance === 'none') return undefined
    return { [INHERITED]: { text: await this.#text(inheritance) } satisfies Inherited }
  }

  /** Returns the metadata of an answer that brings these to the script. */
  async passedOn(wanted: readonly Part[]): Promise<object> {
    const texts: Partial<Record<Part, string>> = {}
    for (const part of wanted) texts[part] = await this.#text(part)
    return { [PASSED_ON]: texts }
  }

  #text(part: Part): Promise<string> {
    return part === 'full' ? this.#transcript() : this.summary()
  }
}

const isTold = ({ role }: ModelMessage): boolean => role !== 'system'

/** Returns the place from which on a conversation is told word for word. A call stays with its results. */
function beginOfEnd(messages: readonly ModelMessage[]): number {
  const pieces = piecesOf(messages)
  let length = 0
  const first = pieces.findLastIndex((piece) => {
    length += piece.filter(isTold).map(spoken).join('').length
    return length > LONGEST
  })
  return pieces.slice(0, first + 1).flat().length
}

/**
 * Returns the part of its sender's conversation that came with a message, as the model reads it. Empty unless the role
 * inherits something.
 */
export function inheritedWith(
  { sender, metadata }: AgentMessage,
  strategy: ContextStrategy | undefined,
): ModelMessage[] {
  const { text, from = sender } = Object(metadata[INHERITED]) as Partial<Inherited>
  if ((strategy?.inherit ?? 'none') === 'none' || typeof text !== 'string' || text === '') return []
  return [{ role: 'user', content: `What "${from}" has of its own conversation about this:\n${text}` }]
}
