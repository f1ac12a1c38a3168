/**
 * Decides which part of its conversation a model agent passes on to other agents. By default another agent gets only
 * the messages that are sent to it; a role that is to inherit more sets `contextStrategy.inherit`. An agent that takes
 * a task over, or is to help with it, gets a summary.
 */

import type { AgentMessage } from '../../../mailbox/message.ts'
import { own } from '../../../own.ts'
import type { ModelMessage } from '../../definition/model.ts'
import type { ContextStrategy } from '../../definition/role.ts'
import type { Conversation, SpokenTurn } from './conversation.ts'
import { piecesOf } from './exchanges.ts'
import { handedOver } from './handed-over.ts'
import { counted, spoken } from './summary.ts'

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
}

export class PassingOn {
  readonly #heirs: Heirs
  readonly #said: () => readonly ModelMessage[]
  readonly #summarized: (messages: readonly ModelMessage[]) => Promise<string>
  readonly #floor: Floor | undefined
  /** The last summary, and the number of messages that it is of. */
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

  /** Returns the conversation for an agent that answers from now on; undefined if it is no model, or code asks. */
  saidTo(to: string): readonly SpokenTurn[] | undefined {
    if (!this.#floor?.readers.has(to)) return undefined
    const { before, id, agent, from } = this.#floor
    return handedOver(before, { id, messages: this.#said().slice(from) }, agent)
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

/** Limit of a whole conversation, in characters: it is sent with each message. */
const LONGEST = 2 ** 15

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
