/**
 * Chooses the messages that a model sees in one loop of calls and tools, by the strategy of its role, and the part that
 * it passes on to other agents.
 */
import { ConfigurationError, shown } from '../../shared/errors.ts'
import type { Assignment } from '../definition/assignment.ts'
import { contentFault, textOf } from '../definition/content.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { ModelAnswer, ModelCall, ModelMessage, ToolSpec } from '../definition/model.ts'
import type { ContextStrategy } from '../definition/role.ts'
import { exchangesOf, isAnswered, type Piece, piecesOf } from './conversation.ts'
import { fits, roomOf, shortened, type TokenWindow, tokensOf } from './shorten.ts'
import {
  type Levels,
  levelsMessage,
  passedOn,
  type Summarize,
  type Summary,
  summaryLimit,
  summaryMessage,
  summaryOf,
  summaryRequest,
} from './summary.ts'
import { countMessages, countPrompt, mostOfMessages, mostTokens } from './tokens.ts'
import type { ThinkingTurn } from './verb-tools.ts'

const ROLES: readonly unknown[] = ['system', 'user', 'assistant', 'tool'] satisfies ModelMessage['role'][]

/**
 * Returns the messages for the next call. The role's system prompt comes before them, unless they have a system message
 * of their own.
 *
 * @throws ConfigurationError for messages that no model can be asked with; it has the path of the fault.
 */
export function customContext(built: unknown, systemPrompt: string | undefined, window: TokenWindow): ModelMessage[] {
  const messages = checked(built, window.agent)
  const hasSystem = messages.some(({ role }) => role === 'system')
  const all: ModelMessage[] =
    hasSystem || !systemPrompt ? messages : [{ role: 'system', content: systemPrompt }, ...messages]
  if (fits(window, all, roomOf(window))) return all
  const tokens = tokensOf(window, all)
  throw wrong(window.agent, '', `${tokens} tokens`, `at most ${roomOf(window)} fit (maxTokens ${window.maxTokens})`, {
    tokens,
    maxTokens: window.maxTokens,
  })
}

function checked(built: unknown, agent: string): ModelMessage[] {
  if (!Array.isArray(built) || built.length === 0) throw wrong(agent, '', shown(built), 'a list of messages is needed')
  for (const [i, message] of built.entries()) checkMessage(message, `[${i}]`, agent)
  const messages = built as ModelMessage[]
  const open = new Set<string>()
  for (const [i, { role, toolCallId, toolCalls = [] }] of messages.entries()) {
    if (role === 'tool' && !open.delete(toolCallId!))
      throw wrong(agent, `[${i}]`, 'the result of a tool', 'the call that it answers has to stand before it')
    if (role !== 'tool' && open.size > 0) throw wrong(agent, `[${i - 1}]`, ...UNANSWERED)
    for (const { id } of toolCalls) open.add(id)
  }
  if (open.size > 0) throw wrong(agent, `[${messages.length - 1}]`, ...UNANSWERED)
  return messages
}

const UNANSWERED = ['where a call of a tool has no result', 'results stand right behind their calls'] as const

function checkMessage(message: unknown, at: string, agent: string): void {
  if (typeof message !== 'object' || message === null) throw wrong(agent, at, shown(message), 'a message is needed')
  const { role, content, toolCallId, toolCalls = [] } = message as Record<string, unknown>
  if (!ROLES.includes(role)) throw wrong(agent, `${at}.role`, shown(role), `one of ${ROLES.join(', ')} is needed`)
  const fault = contentFault(content, `${at}.content`)
  if (fault) throw wrong(agent, fault.path, shown(fault.value), fault.needed)
  if ((role === 'tool') !== (typeof toolCallId === 'string'))
    throw wrong(agent, `${at}.toolCallId`, shown(toolCallId), 'a tool has it, as a string, and nobody else')
  if (!Array.isArray(toolCalls) || (toolCalls.length > 0 && role !== 'assistant') || !toolCalls.every(isCall))
    throw wrong(agent, `${at}.toolCalls`, shown(toolCalls), 'of an assistant alone: a list of { id, name, input }')
}

const isCall = (call: unknown): boolean => {
  const { id, name, input } = Object(call) as Record<string, unknown>
  return [id, name, input].every((field) => typeof field === 'string')
}

function wrong(agent: string, at: string, got: string, needed: string, details: object = {}): ConfigurationError {
  const path = `buildContext()${at}`
  return new ConfigurationError(`${path} of agent "${agent}" is ${got}; ${needed}.`, { path, agent, got, ...details })
}

/*
 * Chooses the part of a conversation that a model sees with the next call. The functions depend on their arguments
 * only, so a redelivered turn asks its model the same.
 */

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

/** Returns the strategy with all numbers that it goes by. */
export function withDefaults(strategy: ContextStrategy): ContextStrategy {
  if (strategy.strategy === 'append_until_full') return { threshold: THRESHOLD, keepRecent: KEEP_RECENT, ...strategy }
  return strategy.strategy === 'hierarchical' ? { historyKeep: HISTORY_KEEP, ...strategy } : strategy
}

/** Returns the share of the window above which a conversation is cut. */
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

/**
 * Returns 'custom' for a definition with a `buildContext`, otherwise the role's strategy.
 *
 * @throws ConfigurationError if the role's strategy or `buildContext` would have no effect.
 */
export function strategyOf(
  { role, option, contextStrategy }: Assignment,
  { buildContext }: AgentHandlers,
): ContextStrategy | undefined {
  const isCustom = contextStrategy?.strategy === 'custom'
  if (buildContext) {
    if (!contextStrategy || isCustom) return contextStrategy ?? { strategy: 'custom' }
    throw wrongStrategy(
      option,
      `is "${contextStrategy.strategy}", but the definition of "${role.name}" has a buildContext, which would have no effect; say 'custom', or take it out`,
      { agent: role.name, got: contextStrategy.strategy, accepted: "'custom'" },
    )
  }
  if (!isCustom) return contextStrategy
  throw wrongStrategy(
    option,
    `is "custom", but "${role.name}" has no definition with a buildContext; give it a module that has one`,
    {
      agent: role.name,
      got: 'custom',
      accepted: "'append_until_full' or 'hierarchical'",
    },
  )
}

function wrongStrategy(option: string, text: string, details: object): ConfigurationError {
  const path = `${option}.contextStrategy.strategy`
  return new ConfigurationError(`${path} ${text}.`, { path, ...details })
}

/** State that the role remembers besides the messages of the request. */
export interface Remembered {
  summary?: Summary | undefined
  goal?: string | undefined
}

/** Messages that are no longer needed, counted from the oldest, and the summary in their place. */
export interface LeftOut {
  dropped: number
  summary: Summary | undefined
}

/** Default window of a role, in tokens: most current models have at least this. */
export const MAX_TOKENS = 128_000

export const BY_DEFAULT: ContextStrategy = { strategy: 'append_until_full' }

export class ThinkingContext {
  readonly #turn: ThinkingTurn
  readonly #call: ModelCall
  readonly #strategy: ContextStrategy
  readonly #levels: Levels
  /** Number of messages before the task. */
  readonly #earlier: number
  readonly #ask: (call: ModelCall) => Promise<ModelAnswer>
  #left: LeftOut

  /** `ask`: makes one model call that is paid for, a step. */
  constructor(
    turn: ThinkingTurn,
    call: ModelCall,
    { summary, goal }: Remembered,
    ask: (call: ModelCall) => Promise<ModelAnswer>,
  ) {
    const { history } = parted(call.messages)
    const at = history.findLastIndex(({ role }) => role === 'user')
    const task = textOf(history[at]?.content ?? '')
    this.#turn = turn
    this.#call = call
    this.#strategy = turn.strategy ?? BY_DEFAULT
    this.#levels = { goal: goal ?? task, task }
    this.#earlier = Math.max(0, at)
    this.#ask = ask
    this.#left = { dropped: 0, summary }
  }

  get left(): LeftOut {
    return this.#left
  }

  /** Returns the messages for the next call, chosen from `messages`, the whole conversation. */
  async shown(messages: readonly ModelMessage[], tools: readonly ToolSpec[]): Promise<readonly ModelMessage[]> {
    const { systemPrompt, history } = parted(messages)
    const window = this.#window(messages, tools)
    if (this.#strategy.strategy === 'custom')
      return customContext(await this.#turn.buildContext?.(history), systemPrompt, window)
    const { dropped, summary } = this.#left
    const source = {
      systemPrompt,
      summary,
      history: history.slice(dropped),
      levels: this.#levels,
      turn: history.slice(this.#earlier),
    }
    const built = await nextContext(this.#strategy, source, window, this.#summarize)
    this.#left = { dropped: dropped + built.dropped, summary: built.summary }
    return built.messages
  }

  /**
   * Returns the text that another agent gets of `messages`, the whole conversation: the messages, or a summary if they
   * are long.
   */
  passedOn(messages: readonly ModelMessage[]): Promise<string> {
    const { history } = parted(messages)
    const { dropped, summary } = this.#left
    return passedOn(history.slice(dropped), summary, this.#window(messages, []), this.#summarize)
  }

  readonly #summarize = async (messages: readonly ModelMessage[], maxOutputTokens: number): Promise<string> => {
    const { model } = this.#call
    const request = summaryRequest(messages, maxOutputTokens, this.#window(messages, []))
    const answer = await this.#ask({ messages: request, maxOutputTokens, ...(model !== undefined && { model }) })
    return answer.text
  }

  #window(messages: readonly ModelMessage[], tools: readonly ToolSpec[]): TokenWindow {
    const { role } = this.#turn
    const { model = '', jsonSchema, answerFunction, maxOutputTokens: answer = 0 } = this.#call
    const maxTokens = role.maxTokens ?? MAX_TOKENS
    const overhead = mostTokens(JSON.stringify([tools, jsonSchema, answerFunction]))
    const isShort =
      overhead + mostOfMessages(messages) <= Math.min(maxTokens - answer, maxTokens * thresholdOf(this.#strategy))
    const prompt = { messages: [], tools, model, jsonSchema, answerFunction }
    const counted = () => countPrompt(prompt) - countMessages([], model)
    return {
      agent: role.name,
      model,
      maxTokens,
      overhead: isShort ? overhead : counted(),
      answer,
      count: countMessages,
      bound: mostOfMessages,
    }
  }
}

function parted(messages: readonly ModelMessage[]): {
  systemPrompt: string | undefined
  history: readonly ModelMessage[]
} {
  const [first] = messages
  if (first?.role !== 'system') return { systemPrompt: undefined, history: messages }
  return { systemPrompt: textOf(first.content), history: messages.slice(1) }
}
