/** Describes the context of a model agent in words. */
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

/** Returns clauses about the agent's conversation in its most recent run, as its last turn left it. */
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
