/**
 * Plays the roles of the desk without a model: it goes by keywords and by what the tools answer, so that a try without a key
 * goes the same way through plan, experts, tools and answer as with one. It says of itself that it is no model.
 */
import type { ModelClient, ModelMessage } from 'dramatis'
import { textOf } from '../../src/models.ts'

type Request = Parameters<ModelClient['complete']>[0]
type Call = { name: string; input: object }

const KEYWORDS: readonly (readonly [agent: string, words: RegExp])[] = [
  ['finance', /股價|股票|匯率|share|stock|exchange rate|currency/iu],
  ['weather', /天氣|下雨|雨傘|weather|rain|umbrella/iu],
  ['travel', /旅遊|行程|景點|travel|trip|visit/iu],
]

/** What a question is cut at. */
const BETWEEN = /[,，、;；?？]|和|以及|\band\b/u

export const keywordModel: ModelClient = {
  rehearsal: true,
  async *complete({ agent, messages, jsonSchema, tools }) {
    const said = jsonSchema ? JSON.stringify(plan(questionIn(messages))) : wordsOf({ agent, messages, tools })
    if (typeof said === 'string') yield { text: said }
    else yield { toolCall: { id: `call-${messages.length}`, name: said.name, input: JSON.stringify(said.input) } }
    const finishReason = typeof said === 'string' ? ('stop' as const) : ('tool_calls' as const)
    yield { finishReason, usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 1 } }
  },
}

/** What the supervisor is to take apart. */
const questionIn = (messages: readonly ModelMessage[]) =>
  /# Question\n\n(.*?)\n\n# /s.exec(lastUser(messages))?.[1] ?? lastUser(messages)

function plan(question: string): object {
  const parts = question.split(BETWEEN).map((part) => part.trim())
  const tasks = parts.filter((part) => part !== '').map((part) => ({ agent: agentFor(part), task: part }))
  return { tasks, reasoning: 'by keywords' }
}

const agentFor = (part: string) => KEYWORDS.find(([, words]) => words.test(part))?.[0] ?? 'general'

function wordsOf({ agent = '', messages, tools = [] }: Pick<Request, 'agent' | 'messages' | 'tools'>): string | Call {
  const last = messages.at(-1)
  if (agent === 'supervisor') return combined(textOf(last?.content ?? ''))
  if (last?.role === 'tool') return textOf(last.content)
  const task = lastUser(messages)
  const call = callFor(agent === 'general' ? agentFor(task) : agent, task)
  return call && tools.some(({ name }) => name === call.name) ? call : 'I am no model, and have no opinion.'
}

function callFor(agent: string, task: string): Call | undefined {
  const city = /東京|tokyo/iu.test(task) ? '東京' : '台北市'
  if (agent === 'travel' && /景點|visit/iu.test(task)) return { name: 'sights', input: { city } }
  if (agent === 'weather' || agent === 'travel') return { name: 'weather', input: { place: city } }
  if (agent !== 'finance') return undefined
  if (/股|share|stock/iu.test(task)) return { name: 'stock_price', input: { symbol: 'TSM.US' } }
  return { name: 'exchange_rate', input: { from: /日|yen|jpy/iu.test(task) ? 'JPY' : 'USD', to: 'TWD' } }
}

const RESULT = /^## \d+\. (.*) \(by \S+\)$/m
const FAILED = /^\(sub-task \d+ (?:failed|was late): (.*)\)$/s
const NOBODY_COULD = /^# What was tried$/m

/** The results stand under headings at the end of what the supervisor is told. */
function combined(told: string): string {
  if (NOBODY_COULD.test(told)) return '' // the strategy has a sentence for that
  const [, ...parts] = told.split(RESULT) // task, result, task, result
  const lines = parts.flatMap((task, at) => {
    const result = parts[at + 1]?.trim() ?? ''
    const why = FAILED.exec(result)?.[1]
    return at % 2 === 0 ? [`${task}: ${why === undefined ? result : `not found out: ${why}`}`] : []
  })
  return ['[by keywords, not by a model]', ...lines].join('\n')
}

const lastUser = (messages: readonly ModelMessage[]) =>
  textOf(messages.findLast(({ role }) => role === 'user')?.content ?? '')
