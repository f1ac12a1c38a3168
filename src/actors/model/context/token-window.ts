/** The token window of one model call, and the space in it that messages take. */
import type { ModelMessage } from '../../definition/model.ts'

/**
 * Tokens of the messages together, by that model's tokenizer: a constant for the call, plus the tokens of each message.
 */
export type TokenCount = (messages: readonly ModelMessage[], model: string) => number

export interface TokenWindow {
  /** Name of the agent that the window belongs to, for errors. */
  readonly agent: string
  readonly model: string
  /** `maxTokens` of the role. */
  readonly maxTokens: number
  /** Tokens of the call besides its messages: the specifications of tools, a schema for the answer. */
  readonly overhead: number
  /** Tokens kept free for the answer. */
  readonly answer: number
  readonly count: TokenCount
  /** Cheap upper bound of `count`: a conversation that is short enough by it is not counted. */
  readonly bound?: (messages: readonly ModelMessage[]) => number
}

/** Returns the number of tokens that the messages may take. */
export const roomOf = ({ maxTokens, overhead, answer }: TokenWindow): number => maxTokens - overhead - answer

export const tokensOf = ({ count, model }: TokenWindow, messages: readonly ModelMessage[]): number =>
  count(messages, model)

/** Checks whether the messages take at most that many tokens. */
export function fits(window: TokenWindow, messages: readonly ModelMessage[], room: number): boolean {
  const bound = window.bound?.(messages) ?? Number.POSITIVE_INFINITY
  return bound <= room || tokensOf(window, messages) <= room
}

/** Returns the tokens of each message, without the call's constant. */
export function sizesOf(window: TokenWindow, messages: readonly ModelMessage[]): number[] {
  const constant = tokensOf(window, [])
  return messages.map((message) => tokensOf(window, [message]) - constant)
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)
