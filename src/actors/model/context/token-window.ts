/** The room that a model has for one call, in tokens, and what of it messages take. */
import type { ModelMessage } from '../../definition/model.ts'

/** Tokens of the messages together, by that model's tokenizer: a constant for the call, and for each message what it has. */
export type TokenCount = (messages: readonly ModelMessage[], model: string) => number

export interface TokenWindow {
  /** Whose window it is, for errors. */
  readonly agent: string
  readonly model: string
  /** `maxTokens` of the role. */
  readonly maxTokens: number
  /** What goes with a call beside its messages: the specifications of tools, a schema for the answer. */
  readonly overhead: number
  /** Kept free for the answer. */
  readonly answer: number
  readonly count: TokenCount
  /** No fewer than `count` says, and cheap: a conversation that is short by this is not counted. */
  readonly bound?: (messages: readonly ModelMessage[]) => number
}

/** What messages may take at most. */
export const roomOf = ({ maxTokens, overhead, answer }: TokenWindow): number => maxTokens - overhead - answer

export const tokensOf = ({ count, model }: TokenWindow, messages: readonly ModelMessage[]): number =>
  count(messages, model)

/** Whether the messages take no more than that. */
export function fits(window: TokenWindow, messages: readonly ModelMessage[], room: number): boolean {
  const bound = window.bound?.(messages) ?? Number.POSITIVE_INFINITY
  return bound <= room || tokensOf(window, messages) <= room
}

/** Tokens of each message, without the call's constant. */
export function sizesOf(window: TokenWindow, messages: readonly ModelMessage[]): number[] {
  const constant = tokensOf(window, [])
  return messages.map((message) => tokensOf(window, [message]) - constant)
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)
