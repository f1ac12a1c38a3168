/** What the context of an agent that a model plays holds, in words. */

import { thresholdOf } from '../actors/context-strategy.ts'
import type { Conversation } from '../actors/conversation.ts'
import { historyOf, NO_CONVERSATION } from '../actors/conversation.ts'
import { counted, summaryMessage } from '../actors/conversation-summary.ts'
import type { ModelMessage } from '../actors/model.ts'
import { cutShort } from '../actors/shorten.ts'
import { BY_DEFAULT, MAX_TOKENS } from '../actors/thinking-context.ts'
import { countMessages } from '../actors/tokens.ts'
import type { Cell } from './cell.ts'
import type { RunState } from './run-state.ts'

const SHOWN_SUMMARY = 200 // characters

/** Clauses of a sentence, of the run that it heard of last, as its last turn has left it. */
export function contextSummary({ index, settings }: Cell, runs: Iterable<RunState>): string {
  if (!settings.playedByModel) return 'its code keeps its own context'
  const [conversation = NO_CONVERSATION] = [...runs]
    .flatMap(({ states }) => states.get(index) ?? [])
    .slice(-1) as Conversation[]
  const { info, contextStrategy: strategy = BY_DEFAULT } = settings
  const { summary } = conversation
  const history = historyOf(conversation)
  const system: ModelMessage[] = info.systemPrompt ? [{ role: 'system', content: info.systemPrompt }] : []
  const tokens = countMessages([...system, ...(summary ? [summaryMessage(summary)] : []), ...history], info.model)
  const { maxTokens = MAX_TOKENS } = info
  const parts = [
    `its context holds ${history.length === 1 ? '1 message' : `${history.length} messages`}, ${tokens} of ${maxTokens} tokens (${Math.round((100 * tokens) / maxTokens)} %)`,
    strategy.strategy === 'append_until_full' &&
      `it is summarized beyond ${Math.floor(thresholdOf(strategy) * maxTokens)} tokens`,
    summary && `${counted(summary.messages)} left out${lastWords(summary.text)}`,
  ]
  return parts.filter(Boolean).join('; ')
}

const lastWords = (text: string): string =>
  text === '' ? '' : `, and the last summary is: ${JSON.stringify(cutShort(text, SHOWN_SUMMARY))}`
