import type { ModelClient, ModelMessage, ModelPiece, ModelRequest } from '../../../src/actors/definition/model.ts'

/** An answer, put together. */
export interface Answer extends Pick<ModelPiece, 'usage' | 'finishReason'> {
  texts: string[]
  text: string
  toolCalls: NonNullable<ModelPiece['toolCall']>[]
}

/** What a client answers. A text is a user's question. */
export async function ask(
  client: ModelClient,
  asked: string | ModelMessage[],
  more: Partial<ModelRequest> = {},
): Promise<Answer> {
  const messages: ModelMessage[] = typeof asked === 'string' ? [{ role: 'user', content: asked }] : asked
  const request = { model: 'test', messages, signal: new AbortController().signal, ...more }
  const answer: Answer = { texts: [], text: '', toolCalls: [] }
  for await (const { text, toolCall, ...rest } of client.complete(request)) {
    if (text !== undefined) answer.texts.push(text)
    if (toolCall) answer.toolCalls.push(toolCall)
    Object.assign(answer, rest)
  }
  answer.text = answer.texts.join('')
  return answer
}
