/** Describes the context of a model agent: in figures, and in words. */
import type { ModelMessage } from '../../actors/definition/model.ts'
import type { Conversation } from '../../actors/model/context/conversation.ts'
import { historyOf, NO_CONVERSATION } from '../../actors/model/context/conversation.ts'
import { cutShort } from '../../actors/model/context/shorten.ts'
import { thresholdOf } from '../../actors/model/context/strategies.ts'
import { counted, summaryMessage } from '../../actors/model/context/summary.ts'
import { countMessages } from '../../actors/model/context/tokens.ts'
import { BY_DEFAULT, MAX_TOKENS } from '../../actors/model/context/window.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

const SHOWN_SUMMARY = 200 // characters

/** State of a model agent's context: what its model is shown of the conversation. */
export interface ContextInfo {
  /** Number of messages of the conversation that are kept. */
  messages: number
  /** Tokens of these messages, with the system prompt and the summary. */
  tokens: number
  /** Tokens that the window has at most (`maxTokens` of the role). */
  maxTokens: number
  /** Tokens beyond which the conversation is summarized; null if it is not. */
  summarizeAt: number | null
  /** Number of messages that were left out, and the words that stand for them; null if none were. */
  summary: { messages: number; text: string } | null
}

/**
 * Returns the state of the agent's conversation in its most recent run, as its last turn left it; undefined for an
 * agent whose code keeps its own context.
 */
export function contextOf({ index, settings }: Cell, runs: Iterable<RunState>): ContextInfo | undefined {
  if (!settings.playedByModel) return undefined
  const [conversation = NO_CONVERSATION] = [...runs]
    .flatMap(({ states }) => states.get(index) ?? [])
    .slice(-1) as Conversation[]
  const { info, contextStrategy: strategy = BY_DEFAULT } = settings
  const { summary } = conversation
  const history = historyOf(conversation)
  const system: ModelMessage[] = info.systemPrompt ? [{ role: 'system', content: info.systemPrompt }] : []
  const { maxTokens = MAX_TOKENS } = info
  return {
    messages: history.length,
    tokens: countMessages([...system, ...(summary ? [summaryMessage(summary)] : []), ...history], info.model),
    maxTokens,
    summarizeAt: strategy.strategy === 'append_until_full' ? Math.floor(thresholdOf(strategy) * maxTokens) : null,
    summary: summary ? { messages: summary.messages, text: summary.text } : null,
  }
}

/** Returns clauses about that context. */
export function contextSummary(cell: Cell, runs: Iterable<RunState>): string {
  const context = contextOf(cell, runs)
  if (!context) return 'its code keeps its own context'
  const { messages, tokens, maxTokens, summarizeAt, summary } = context
  const parts = [
    `its context holds ${messages === 1 ? '1 message' : `${messages} messages`}, ${tokens} of ${maxTokens} tokens (${Math.round((100 * tokens) / maxTokens)} %)`,
    summarizeAt !== null && `it is summarized beyond ${summarizeAt} tokens`,
    summary && `${counted(summary.messages)} left out${lastWords(summary.text)}`,
  ]
  return parts.filter(Boolean).join('; ')
}

const lastWords = (text: string): string =>
  text === '' ? '' : `, and the last summary is: ${JSON.stringify(cutShort(text, SHOWN_SUMMARY))}`
