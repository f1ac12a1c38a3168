/**
 * A conversation in the pieces in which it may be cut. A tool's result without its call, or a call without its result, is
 * refused by every provider, so those are never taken apart.
 */
import type { ModelMessage } from '../../definition/model.ts'

/** Messages that stay together: one alone, or a model's calls of tools with all their results. */
export type Piece = readonly ModelMessage[]

/** The smallest pieces, in order; together they are the whole of `messages`. */
export function piecesOf(messages: readonly ModelMessage[]): Piece[] {
  const pieces: ModelMessage[][] = []
  for (const message of messages) {
    const last = pieces.at(-1)
    if (last && message.role === 'tool') last.push(message)
    else pieces.push([message])
  }
  return pieces
}

/** Exchanges: what was said to the model, what it said to that, and the results of the tools that it called. */
export function exchangesOf(messages: readonly ModelMessage[]): Piece[] {
  const exchanges: ModelMessage[][] = []
  for (const piece of piecesOf(messages)) {
    const last = exchanges.at(-1)
    if (last && !isAnswered(last)) last.push(...piece)
    else exchanges.push([...piece])
  }
  return exchanges
}

/** The model has said something in it. */
export const isAnswered = (piece: Piece): boolean => piece.some(({ role }) => role === 'assistant')

/** What a tool answers whose call came to no result. */
const NO_RESULT = 'There is no result: the turn ended before this call had one.'

/** The messages with a result for each call, also where a turn ended between the two. */
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
