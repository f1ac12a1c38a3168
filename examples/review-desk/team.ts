/** One reader, who says whether a review praises: played by a model, or in its place by a list of words. */
import type { MultiAgentPatternOptions } from 'dramatis'
import { type ModelClient, textOf } from 'dramatis/models'
import { z } from 'zod'
import { negators, weights } from './reviews.ts'

export const opinionSchema = z.object({ opinion: z.enum(['good', 'bad']) })

const PLAIN: Readonly<Record<string, number>> = {
  good: 1,
  great: 1,
  best: 1,
  love: 1,
  bad: -1,
  worst: -1,
  poor: -1,
  not: -1,
}

/** `model`: undefined for the one of the environment. */
export function reviewTeam(model?: ModelClient): MultiAgentPatternOptions<string> {
  return {
    agents: [
      {
        name: 'reader',
        systemPrompt: 'A customer has written this sentence. Say whether it praises ("good") or complains ("bad").',
        output: opinionSchema,
        temperature: 0,
      },
    ],
    ...(model && { models: { default: model } }),
    orchestration: { strategy: 'sequential' },
  }
}

/** Eight words, for a start. */
export const plainReader = (): ModelClient => reader((words) => sum(words.map((word) => weightIn(PLAIN, word))))

/** The words of AFINN-165, turned round by a "not" before them. */
export const carefulReader = (): ModelClient =>
  reader((words) =>
    sum(
      words.map((word, at) => (at > 0 && Object.hasOwn(negators, words[at - 1]!) ? -1 : 1) * weightIn(weights, word)),
    ),
  )

const weightIn = (list: Readonly<Record<string, number>>, word: string) => (Object.hasOwn(list, word) ? list[word]! : 0)

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0)

/** Says what a list of words makes of the review, as a model would: without a weight it praises. */
function reader(weigh: (words: readonly string[]) => number): ModelClient {
  return {
    offline: true,
    async *complete({ messages }) {
      const text = textOf(messages.findLast(({ role }) => role === 'user')?.content ?? '')
      const words = text.toLowerCase().match(/[a-z']+/g) ?? []
      yield { text: JSON.stringify({ opinion: weigh(words) < 0 ? 'bad' : 'good' }) }
    },
  }
}
