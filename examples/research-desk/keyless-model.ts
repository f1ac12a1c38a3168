/**
 * Plays the roles of the desk where there is no key, so that a question to the served desk goes the whole way: it goes by what
 * looks like a sum, and says of itself that it is no model. The tools are real; the web is not searched.
 */
import type { ModelClient } from 'dramatis'
import { textOf } from '../../src/models.ts'

const NO_WEB = 'Without a key nothing is looked up on the web.'
const SUM = /[\d(][\d\s.()]*(?:[-+*/^][\d\s.()]+)+/u
/** What a question is cut at. */
const BETWEEN = /[;?，、；？]|,(?=\s)|\band\b/u

export const keylessModel: ModelClient = {
  rehearsal: true,
  async *complete({ agent, messages, jsonSchema }) {
    const asked = textOf(messages.findLast(({ role }) => role === 'user')?.content ?? '')
    yield { text: agent === 'ResearchAgent' ? NO_WEB : jsonSchema ? JSON.stringify(planFor(asked)) : combined(asked) }
    yield { finishReason: 'stop', usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 1 } }
  },
}

/** What the calculator cannot do is looked up, as far as that goes without a key. */
function planFor(asked: string): object {
  const [, failed] = /# The task that failed\n\n(.*?)(?: \(by \S+\))?\n/s.exec(asked) ?? []
  const [, question = asked] = /# Question\n\n(.*?)\n\n# /s.exec(asked) ?? []
  const parts = question.split(BETWEEN).flatMap((part) => part.trim() || [])
  const tasks = (parts.length > 0 ? parts : [question]).slice(0, 100).map(taskFor)
  const replacement = [{ agent: 'ResearchAgent', task: failed }]
  return { tasks: failed === undefined ? tasks : replacement, reasoning: 'by what looks like a sum' }
}

function taskFor(part: string): object {
  const expression = SUM.exec(part)?.[0].trim()
  if (expression === undefined) return { agent: 'ResearchAgent', task: part }
  return { agent: 'UtilityAgent', task: part, tool: 'calculator', input: { expression } }
}

/** The results stand below their headings. */
function combined(told: string): string {
  const results = told.split(/^## \d+\. /m).slice(1)
  return ['[without a model]', ...results.map((result) => result.trim().replace(/ \(by \S+\)\n+/, ': '))].join('\n')
}
