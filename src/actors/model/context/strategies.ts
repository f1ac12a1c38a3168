/**
 * Chooses the part of a conversation that a model sees with the next call. The functions depend on their arguments
 * only, so a redelivered turn asks its model the same. Source: document 003, context management strategies.
 */
import { ConfigurationError } from '../../../errors.ts'
import type { ModelMessage } from '../../definition/model.ts'
import type { ContextStrategy } from '../../definition/role.ts'
import { exchangesOf, isAnswered, type Piece, piecesOf } from './exchanges.ts'
import { type Levels, levelsMessage } from './levels.ts'
import { shortened } from './shorten.ts'
import { type Summarize, type Summary, summaryLimit, summaryMessage, summaryOf } from './summary.ts'
import { fits, roomOf, type TokenWindow, tokensOf } from './token-window.ts'

/** Input of a strategy. */
export interface ContextSource {
  /** The role's system prompt: it comes first, and is never shortened. */
  systemPrompt: string | undefined
  /** Summary of the messages that were dropped already. */
  summary: Summary | undefined
  /** Messages since then, oldest first, without the system prompt. */
  history: readonly ModelMessage[]
  levels: Levels
  /** All messages since the task of `levels` was given, including those that are no longer in `history`. */
  turn: readonly ModelMessage[]
}

/** The messages for the model, and the part of the history that is no longer needed. */
export interface BuiltContext {
  messages: ModelMessage[]
  /** Number of messages, oldest first, that are dropped for good: `summary` stands for them from now on. */
  dropped: number
  summary: Summary | undefined
}

const THRESHOLD = 0.8
const KEEP_RECENT = 20
const HISTORY_KEEP = 12

/** Returns the share of the window above which a conversation is cut. */
/** Returns the strategy with all numbers that it goes by. */
export function withDefaults(strategy: ContextStrategy): ContextStrategy {
  if (strategy.strategy === 'append_until_full') return { threshold: THRESHOLD, keepRecent: KEEP_RECENT, ...strategy }
  return strategy.strategy === 'hierarchical' ? { historyKeep: HISTORY_KEEP, ...strategy } : strategy
}

export const thresholdOf = (strategy: ContextStrategy): number =>
  strategy.strategy === 'append_until_full' ? (strategy.threshold ?? THRESHOLD) : 1

/**
 * Returns the next call's messages by a built-in strategy. They fit into the window: the messages that the strategy
 * keeps are dropped from the oldest on, and then the longest results of tools are shortened, with a note.
 *
 * @throws ConfigurationError if not even the newest message fits.
 */
export async function nextContext(
  strategy: Exclude<ContextStrategy, { strategy: 'custom' }>,
  source: ContextSource,
  window: TokenWindow,
  summarize: Summarize,
): Promise<BuiltContext> {
  if (strategy.strategy === 'append_until_full') return appendUntilFull(strategy, source, window, summarize)
  return hierarchical(strategy, source, window)
}

/**
 * Returns all messages until they take `threshold` of the window; then the last `keepRecent`, and one summary of the
 * others.
 */
async function appendUntilFull(
  strategy: Extract<ContextStrategy, { strategy: 'append_until_full' }>,
  source: ContextSource,
  window: TokenWindow,
  summarize: Summarize,
): Promise<BuiltContext> {
  const { history, summary } = source
  const room = roomOf(window)
  const all = [...headOf(source), ...opening(summary), ...history]
  const full = Math.min(room, thresholdOf(strategy) * window.maxTokens - window.overhead)
  if (fits(window, all, full)) return { messages: all, dropped: 0, summary }
  const dropped = cutOf(source, history.length - (strategy.keepRecent ?? KEEP_RECENT), room, window)
  if (dropped === 0) return { messages: fitted(all, room, window), dropped, summary }
  const recent = history.slice(dropped)
  const kept = fitted([...headOf(source), ...recent], room - summaryRoom(window), window) // throws before any payment
  const now = await summaryOf(history.slice(0, dropped), summary, window, summarize)
  const head = kept.length - recent.length
  return { messages: [...kept.slice(0, head), ...opening(now), ...kept.slice(head)], dropped, summary: now }
}

/**
 * Returns the start of the kept part: at most `latest`, unless the window is too small for that, and never within a
 * piece.
 */
function cutOf(source: ContextSource, latest: number, room: number, window: TokenWindow): number {
  const { history, summary } = source
  const cuts = placesOf(piecesOf(history))
  const wanted = cuts.findLastIndex((cut) => cut <= Math.max(0, latest))
  const free = room - summaryRoom(window)
  const isEnough = (cut: number) =>
    cut === 0
      ? fits(window, [...headOf(source), ...opening(summary), ...history], room)
      : fits(window, [...headOf(source), ...history.slice(cut)], free)
  return cuts.slice(wanted).find(isEnough) ?? cuts.at(-1) ?? 0
}

/** Returns the most tokens that a summary takes, with its introduction. */
const summaryRoom = (window: TokenWindow): number =>
  summaryLimit(window) + tokensOf(window, [summaryMessage({ text: '.', messages: 0, isExcerpt: true })]) + SEAM

/** Tokens by which two texts together can exceed the sum of both. */
const SEAM = 16

/** Returns the levels of the work, and the last `historyKeep` exchanges. */
function hierarchical(
  { historyKeep = HISTORY_KEEP }: { historyKeep?: number },
  source: ContextSource,
  window: TokenWindow,
): BuiltContext {
  const { history, summary, levels, turn } = source
  const exchanges = exchangesOf(history)
  const room = roomOf(window)
  const last = exchanges.at(-1) ?? []
  const keep = historyKeep + (isAnswered(last) ? 0 : 1)
  const told = summary?.text ? opening(summary) : []
  // Whole exchanges are dropped while there is more than one, then pieces of the last one.
  const begins = [...placesOf(exchanges).slice(-keep), ...placesOf(piecesOf(last), history.length - last.length)]
  for (const [i, from] of begins.entries()) {
    const kept = history.slice(from)
    const left = from + (summary?.messages ?? 0)
    const place = levelsMessage(levels, turn, kept, left, Math.floor(window.maxTokens / LEVEL_SHARE))
    const messages = [...headOf(source), ...told, ...(place ? [place] : []), ...kept]
    if (i < begins.length - 1 && !fits(window, messages, room)) continue
    const gone = left === 0 ? undefined : { ...summary, text: summary?.text ?? '', messages: left }
    return { messages: fitted(messages, room, window, place), dropped: from, summary: gone }
  }
  return { messages: headOf(source), dropped: 0, summary } // nothing was said yet
}

/** Returns the index at which each piece begins. */
function placesOf(pieces: readonly Piece[], first = 0): number[] {
  const places: number[] = []
  for (const piece of pieces) places.push((places.at(-1) ?? first) + piece.length)
  return [first, ...places].slice(0, -1)
}

/** Divisor of the window for the limit of a level: at most `maxTokens` / 4 characters. */
const LEVEL_SHARE = 4

const headOf = ({ systemPrompt }: ContextSource): ModelMessage[] =>
  systemPrompt === undefined || systemPrompt === '' ? [] : [{ role: 'system', content: systemPrompt }]

/** Returns the messages that replace a dropped beginning of the conversation. */
const opening = (summary: Summary | undefined): ModelMessage[] => (summary ? [summaryMessage(summary)] : [])

/** Fits the messages into the window: results of tools, and the levels message, are cut short if necessary. */
function fitted(
  messages: readonly ModelMessage[],
  room: number,
  window: TokenWindow,
  place?: ModelMessage,
): ModelMessage[] {
  const cut = shortened(messages, room, window, (message) => message.role === 'tool' || message === place)
  if (cut) return cut
  const { agent, maxTokens, overhead, answer } = window
  const tokens = tokensOf(window, messages)
  const others = overhead + answer > 0 ? `; its tools and the answer need ${overhead + answer} more` : ''
  throw new ConfigurationError(
    `Agent "${agent}": its system prompt and its newest message take ${tokens} tokens${others}. maxTokens is ${maxTokens}: raise it, or ask for less.`,
    { path: 'maxTokens', agent, maxTokens, tokens, overhead, answer },
  )
}
