/** Makes messages fit a window of tokens: counts them, and cuts texts that are too long. */
import { textOf, withText } from '../definition/content.ts'
import type { ModelMessage } from '../definition/model.ts'

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

export const roomOf = ({ maxTokens, overhead, answer }: TokenWindow): number => maxTokens - overhead - answer

export const tokensOf = ({ count, model }: TokenWindow, messages: readonly ModelMessage[]): number =>
  count(messages, model)

export function fits(window: TokenWindow, messages: readonly ModelMessage[], room: number): boolean {
  const bound = window.bound?.(messages) ?? Number.POSITIVE_INFINITY
  return bound <= room || tokensOf(window, messages) <= room
}

/** Returns the tokens of each message, without the call's constant. */
function sizesOf(window: TokenWindow, messages: readonly ModelMessage[]): number[] {
  const constant = tokensOf(window, [])
  return messages.map((message) => tokensOf(window, [message]) - constant)
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)

/** Smallest size of a cut text, in tokens: its note and a few words. */
const LEAST = 48
const NOTE = 16
/** Rounds to find a length that fits: tokens are not spread evenly over a text, so one estimate is not enough. */
const ROUNDS = 24
const TIGHTER = 0.9

/**
 * Returns the messages with at most `room` tokens in all; undefined if that is impossible. The longest of the messages
 * that `may` be shortened are cut to one common length.
 */
export function shortened(
  messages: readonly ModelMessage[],
  room: number,
  window: TokenWindow,
  may: (message: ModelMessage) => boolean,
): ModelMessage[] | undefined {
  if (fits(window, messages, room)) return [...messages]
  const sizes = sizesOf(window, messages)
  const fixed = sum(sizes.filter((_, i) => !may(messages[i]!))) + tokensOf(window, [])
  const most = mostOfEach(
    sizes.filter((_, i) => may(messages[i]!)),
    room - fixed,
  )
  for (let round = 0, share = 1; round < ROUNDS; round++, share *= TIGHTER) {
    const each = Math.max(LEAST, most * share)
    const cut = messages.map((message, i) => {
      if (!may(message) || sizes[i]! <= each) return message
      const text = textOf(message.content)
      const short = cutShort(text, Math.floor((text.length * (each - NOTE)) / sizes[i]!))
      return { ...message, content: withText(message.content, short) }
    })
    if (fits(window, cut, room)) return cut
  }
  return undefined
}

/** Returns the common length to which the longest have to be cut, so that all together fit into `room`. */
function mostOfEach(sizes: readonly number[], room: number): number {
  let left = room
  for (const [i, size] of sizes.toSorted((one, other) => one - other).entries()) {
    const share = left / (sizes.length - i)
    if (size > share) return share
    left -= size
  }
  return left
}

/**
 * Returns the beginning and the end of a text, together `length` characters, with a note between them on how much is
 * left out.
 */
export function cutShort(text: string, length: number): string {
  const kept = Math.max(0, length)
  const begin = whole(text, Math.ceil((kept * 2) / 3))
  const end = whole(text, text.length - Math.floor(kept / 3))
  const cut = `${text.slice(0, begin)} [... ${end - begin} characters left out ...] ${text.slice(end)}`
  return cut.length < text.length ? cut : text
}

/** Returns that place in a text, or the one before it if the place would split a character. */
const whole = (text: string, at: number): number => (/[\uDC00-\uDFFF]/.test(text[at] ?? '') ? at - 1 : at)
