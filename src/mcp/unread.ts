/** Answers to what a server asks, which it has not read yet. Calls are not counted: who makes them has bounds. */
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'

export const MOST_UNREAD = 1_000
export const notRead = `does not read the ${MOST_UNREAD} answers sent to it`
export const isAnswer = (message: JSONRPCMessage): boolean => !('method' in message)
