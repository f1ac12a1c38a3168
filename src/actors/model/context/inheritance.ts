/**
 * What a model's agent gives others of its conversation. By default nothing but what it says to them: who is to inherit more
 * says so itself (`contextStrategy.inherit`). Who takes its task over, or is to help with it, gets a summary.
 */
import type { AgentMessage } from '../../../mailbox/message.ts'
import type { ModelMessage } from '../../definition/model.ts'
import type { ContextStrategy } from '../../definition/role.ts'
import { piecesOf } from './exchanges.ts'
import { counted, spoken } from './summary.ts'

export type Inheritance = NonNullable<ContextStrategy['inherit']>

/** Those who inherit something, by their names. */
export type Heirs = Readonly<Record<string, Inheritance>>

/** Stands in the metadata of a message. */
interface Inherited {
  text: string
}

const KEY = 'inherited'

export class PassingOn {
  readonly #heirs: Heirs
  readonly #said: () => readonly ModelMessage[]
  readonly #summarized: (messages: readonly ModelMessage[]) => Promise<string>
  #summary: { of: number; text: Promise<string> } | undefined

  /** `said`: the conversation up to now. `summarized`: a summary of it, which may be paid for. */
  constructor(
    heirs: Heirs,
    said: () => readonly ModelMessage[],
    summarized: (messages: readonly ModelMessage[]) => Promise<string>,
  ) {
    this.#heirs = heirs
    this.#said = said
    this.#summarized = summarized
  }

  /** Paid for once, however many get it at a time. */
  summary(): Promise<string> {
    const said = this.#said()
    if (this.#summary?.of !== said.length) this.#summary = { of: said.length, text: this.#summarized(said) }
    return this.#summary.text
  }

  /** The metadata of a message to that agent. */
  async metadataFor(to: string): Promise<object | undefined> {
    const inheritance = Object.hasOwn(this.#heirs, to) ? this.#heirs[to] : 'none'
    if (inheritance === 'none') return undefined
    const text = inheritance === 'full' ? transcriptOf(this.#said()) : await this.summary()
    return { [KEY]: { text } satisfies Inherited }
  }
}

/** Of a whole conversation, in characters: it travels with each message. */
const LONGEST = 2 ** 15

/** The conversation in words, the end of it where it is long. */
function transcriptOf(messages: readonly ModelMessage[]): string {
  const pieces = piecesOf(messages.filter(({ role }) => role !== 'system')).map((piece) => piece.map(spoken))
  let length = 0
  const first = pieces.findLastIndex((piece) => {
    length += piece.join('').length
    return length > LONGEST
  })
  const kept = pieces.slice(first + 1).flat()
  const left = pieces.flat().length - kept.length
  return [...(left === 0 ? [] : [`(${counted(left)} left out here.)`]), ...kept].join('\n\n')
}

/** What came with a message of its sender's conversation, as the model is told; only if the role inherits something. */
export function inheritedWith(
  { sender, metadata }: AgentMessage,
  strategy: ContextStrategy | undefined,
): ModelMessage[] {
  const { text } = Object(metadata[KEY]) as Partial<Inherited>
  if ((strategy?.inherit ?? 'none') === 'none' || typeof text !== 'string' || text === '') return []
  return [{ role: 'user', content: `What "${sender}" has of its own conversation about this:\n${text}` }]
}
