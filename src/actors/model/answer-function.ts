/**
 * An answer that is wanted as the arguments of one function: what the model is offered for it, and how its call is read. Who asked
 * gets the arguments as the answer's text, so that they are checked, corrected and logged as any other answer is.
 * Source: document 004, task decomposition by function calling.
 */
import type { AnswerFunction, FinishReason, ModelRequest, ToolCall, ToolSpec } from '../definition/model.ts'

type Wanted = Pick<ModelRequest, 'jsonSchema' | 'answerFunction'> & { readonly tools?: readonly ToolSpec[] }

/** What a prompt has beside its messages: the function is a tool like any other, and its parameters are the schema. */
export function offeredIn({ tools = [], jsonSchema, answerFunction }: Wanted): {
  tools: readonly ToolSpec[]
  jsonSchema: object | undefined
  mustCall: boolean
} {
  if (!answerFunction || !jsonSchema) return { tools, jsonSchema, mustCall: false }
  const { name, description } = answerFunction
  return { tools: [...tools, { name, description, inputSchema: jsonSchema }], jsonSchema: undefined, mustCall: true }
}

interface Said {
  text: string
  toolCalls: ToolCall[]
  finishReason: FinishReason | undefined
}

/**
 * What the model said, with the arguments of that function in the place of its words, and without the call. Several calls become
 * a list, so that none is lost: it misses a schema of one answer, and the model is told so.
 */
export function readAsAnswer<T extends Said>(said: T, wanted: AnswerFunction | undefined): T {
  const inputs = said.toolCalls.filter(({ name }) => name === wanted?.name).map(({ input }) => input)
  const [first] = inputs
  if (first === undefined) return said
  const toolCalls = said.toolCalls.filter(({ name }) => name !== wanted?.name)
  const isOver = toolCalls.length === 0 && said.finishReason === 'tool_calls'
  return {
    ...said,
    text: inputs.length === 1 ? first : `[${inputs.join()}]`,
    toolCalls,
    finishReason: isOver ? 'stop' : said.finishReason,
  }
}
