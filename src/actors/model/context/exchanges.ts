/**
 * Splits a conversation into the pieces at which it may be cut. Every provider refuses a tool result without its call,
 * and a call without its result, so these always stay together.
 */
import type { ModelMessage } from '../../definition/model.ts'

/** Messages that stay together: a single message, or a model's tool calls with all their results. */
export type Piece = readonly ModelMessage[]

/** Returns the smallest pieces in order; together they are the whole of `messages`. */
export function piecesOf(messages: readonly ModelMessage[]): Piece[] {
  const pieces: ModelMessage[][] = []
  for (const message of messages) {
    const last = pieces.at(-1)
    if (last && message.role === 'tool') last.push(message)
    else pieces.push([message])
  }
  return pieces
}

/**
 * Returns the exchanges. An exchange is the messages to the model, its answer, and the results of the tools that it
 * called.
 */
export function exchangesOf(messages: readonly ModelMessage[]): Piece[] {
  const exchanges: ModelMessage[][] = []
  for (const piece of piecesOf(messages)) {
    const last = exchanges.at(-1)
    if (last && !isAnswered(last)) last.push(...piece)
    else exchanges.push([...piece])
  }
  return exchanges
}

/** Checks whether the piece contains an answer of the model. */
export const isAnswered = (piece: Piece): boolean => piece.some(({ role }) => role === 'assistant')

/** Content of the result for a tool call that has none. */
const NO_RESULT = 'There is no result: the turn ended before this call had one.'

/** Returns the messages with a result for each call, also if a turn ended between a call and its result. */
export function withResults(messages: readonly ModelMessage[]): ModelMessage[] {
  const all: ModelMessage[] = []
  const open = new Set<string>()
  const close = () => {
    for (const toolCallId of open) all.push({ role: 'tool', content: NO_RESULT, toolCallId })
    open.clear()
  }
  for (const message of messages) {
    if (message.role !== 'tool') close()
    else open.delete(message.toolCallId!)
    all.push(message)
    for (const { id } of message.toolCalls ?? []) open.add(id)
  }
  close()
  return all
}
