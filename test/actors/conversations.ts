/** Conversations for the tests of context strategies: made by hand, or of any shape by fast-check. */
import fc from 'fast-check'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { piecesOf } from '../../src/actors/model/conversation.ts'
import type { TokenWindow } from '../../src/actors/model/shorten.ts'
import type { ContextSource } from '../../src/actors/model/window.ts'

/** A tokenizer that everybody can follow: four characters a token, four tokens around each message, three around all. */
export const count = (messages: readonly ModelMessage[]): number =>
  messages.reduce((sum, message) => sum + 4 + Math.ceil(charactersOf(message) / 4), 3)

const charactersOf = ({ content, toolCalls = [] }: ModelMessage) =>
  content.length + toolCalls.reduce((sum, { name, input }) => sum + name.length + input.length, 0)

export const windowOf = (maxTokens: number, fields: Partial<TokenWindow> = {}): TokenWindow => ({
  agent: 'writer',
  model: 'm',
  maxTokens,
  overhead: 0,
  answer: 0,
  count,
  ...fields,
})

export const user = (content: string): ModelMessage => ({ role: 'user', content })
export const assistant = (content: string): ModelMessage => ({ role: 'assistant', content })
/** A model's calls of tools, and what each answered. */
export const calls = (id: string, ...results: string[]): ModelMessage[] => [
  {
    role: 'assistant',
    content: '',
    toolCalls: results.map((_, i) => ({ id: `${id}.${i}`, name: 'look', input: '{}' })),
  },
  ...results.map((content, i): ModelMessage => ({ role: 'tool', content, toolCallId: `${id}.${i}` })),
]

/** What was said: `n` questions with an answer each. */
export const talk = (n: number, length = 0): ModelMessage[] =>
  Array.from({ length: n }, (_, i) => [
    user(`question ${i}`.padEnd(length, '.')),
    assistant(`answer ${i}`.padEnd(length, '.')),
  ]).flat()

export const sourceOf = (history: readonly ModelMessage[], fields: Partial<ContextSource> = {}): ContextSource => ({
  systemPrompt: 'You write.',
  summary: undefined,
  history,
  levels: { goal: 'the goal', task: 'the task' },
  turn: history,
  ...fields,
})

/** Whether each result of a tool stands behind its call, and each call has its result. */
export function isPaired(messages: readonly ModelMessage[]): boolean {
  return piecesOf(messages).every((piece) => {
    const asked = piece.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id))
    const answered = piece.flatMap(({ toolCallId }) => toolCallId ?? [])
    return piece.slice(1).every(({ role }) => role === 'tool') && asked.join() === answered.join()
  })
}

const text = fc.integer({ min: 0, max: 400 }).chain((length) => fc.constantFrom(...'abc').map((c) => c.repeat(length)))

const entry = fc.oneof(
  text.map((content) => [user(content)]),
  text.map((content) => [assistant(content)]),
  fc.array(text, { minLength: 1, maxLength: 4 }).map((results) => calls('', ...results)),
)

/** Any conversation that a model may have had: each message knows its place, so that order can be seen. */
export const anyHistory: fc.Arbitrary<ModelMessage[]> = fc
  .array(entry, { minLength: 1, maxLength: 60, size: 'max' })
  .map((entries) => entries.flatMap((messages, i) => messages.map((message, j) => numbered(message, i, j))))

function numbered(message: ModelMessage, i: number, j: number): ModelMessage {
  const { content, toolCalls, toolCallId } = message
  return {
    ...message,
    content: `${i}.${j}:${content}`,
    ...(toolCalls && { toolCalls: toolCalls.map((call) => ({ ...call, id: `${i}${call.id}` })) }),
    ...(toolCallId !== undefined && { toolCallId: `${i}${toolCallId}` }),
  }
}
