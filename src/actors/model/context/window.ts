/**
 * Chooses the messages that a model sees in one loop of calls and tools, by the strategy of its role, and the part that
 * it passes on to other agents.
 */
import { textOf } from '../../definition/content.ts'
import type { ModelAnswer, ModelCall, ModelMessage, ToolSpec } from '../../definition/model.ts'
import type { ContextStrategy } from '../../definition/role.ts'
import type { ThinkingTurn } from '../thinking-turn.ts'
import { customContext } from './custom.ts'
import type { Levels } from './levels.ts'
import { nextContext, thresholdOf } from './strategies.ts'
import { passedOn, type Summary, summaryRequest } from './summary.ts'
import type { TokenWindow } from './token-window.ts'
import { countMessages, countPrompt, mostOfMessages, mostTokens } from './tokens.ts'

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

/** Splits the messages into the system prompt, if the first message is one, and all others. */
function parted(messages: readonly ModelMessage[]): {
  systemPrompt: string | undefined
  history: readonly ModelMessage[]
} {
  const [first] = messages
  if (first?.role !== 'system') return { systemPrompt: undefined, history: messages }
  return { systemPrompt: textOf(first.content), history: messages.slice(1) }
}
