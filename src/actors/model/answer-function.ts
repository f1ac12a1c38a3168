import type { AnswerFunction, FinishReason, ModelRequest, ToolCall, ToolSpec } from '../definition/model.ts'

type Wanted = Pick<ModelRequest, 'jsonSchema' | 'answerFunction'> & { readonly tools?: readonly ToolSpec[] }

/**
 * Returns the parts of a prompt besides its messages. The function becomes a tool, with the schema as its parameters.
 */
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
 * Returns the model's answer with the arguments of that function in place of its text, and without the call. Several
 * calls become a list, so none is lost: the list misses a schema of one answer, and the model is told so.
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
