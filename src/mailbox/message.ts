/**
 * Messages between agents: a union of seven types, each with its own routing. Programs build the plain
 * `AgentMessage`, because their `type` often comes from elsewhere and would not fit the union.
 *
 * The verbs check messages cheaply (`jsonIssue`). Messages from outside go through `parseMessage` (parse-message.ts,
 * which needs zod and is therefore never loaded in a thread).
 */
import { MESSAGE_TYPES, type MessageType } from './message-type.ts'
import type { MessagePart } from './parts.ts'

export { MESSAGE_TYPES, type MessageType }

/** The highest number of retries that a request can carry itself: its frame has 7 bits for them. */
export const MOST_RETRIES = 0x7e

/**
 * A message whose type need not be known: programs build it and pass it in. Messages that the runtime returns are
 * `TypedMessage`.
 */
export interface AgentMessage<Data = unknown> {
  /** A UUID. */
  id: string
  type: MessageType
  /** An agent, '$user' (the caller outside), '$orchestrator' (the protocol script) or '$runtime'. */
  sender: string
  /** null: all agents, or all subscribers. */
  recipient: string | string[] | null
  content: string
  /** A JSON value; null if there is none. -0 arrives as 0. */
  structuredData: Data
  /** Higher priorities overtake lower ones in a mailbox; default 0. */
  priority: number
  requiresResponse: boolean
  /** Time in ms from the start of the recipient's turn; null: the recipient's own limit. */
  responseTimeoutMs: number | null
  /** Conversation of the message; null if there is none. */
  threadId: string | null
  metadata: Record<string, unknown>
  /** Parts beside the content: its text again, in their order, with images, sounds and files. Absent without those. */
  parts?: readonly MessagePart[] | undefined
  runId: string
  /** For a response: the id of the message that it answers. */
  correlationId: string | null
  /** Epoch ms. */
  sentAt: number
}

/** A message of that type, as the runtime returns it. A response always names the message that it answers. */
export interface MessageOf<Type extends MessageType, Data = unknown> extends AgentMessage<Data> {
  type: Type
  correlationId: Type extends 'response' ? string : null
}

/**
 * The union of the seven message types, distinguished by `type`. Handlers, histories and events use it.
 *
 * @example
 * const answered = team.getMessageHistory().map((message) => message.type === 'response' && message.correlationId)
 */
export type TypedMessage<Data = unknown> = { [Type in MessageType]: MessageOf<Type, Data> }[MessageType]

/**
 * A message from outside, before the runtime has given it an id, a time and a run. The fields are those of
 * `AgentMessage`.
 */
export interface MessageInput {
  /** Default 'request'. */
  type?: MessageType
  /** Default '$user'. */
  sender?: string
  recipient: string | readonly string[] | null
  content: string
  structuredData?: unknown
  /** Images, sounds and files beside the content, and texts between them. */
  parts?: readonly MessagePart[]
  priority?: number
  requiresResponse?: boolean
  responseTimeoutMs?: number
  threadId?: string
  metadata?: object
  runId?: string
  correlationId?: string
}

/** Reserved senders and recipients: the runtime itself, the caller outside, and the protocol script. */
export const RUNTIME = '$runtime'
export const USER = '$user'
export const ORCHESTRATOR = '$orchestrator'
/** Field of the metadata of a task with the name of the agent for which the protocol script gives it. */
export const ACTING = '$sender'

/** Names that every team has first, in this order. */
export const FIXED_NAMES = [RUNTIME, USER, ORCHESTRATOR] as const

/**
 * Checks the grammar of names: a letter, then letters, digits, '_' and '-', in any script, at most 64 characters. Most
 * names match the first pattern; V8 takes long to make the second.
 */
export function isName(text: string): boolean {
  return /^[a-z][\w-]{0,63}$/i.test(text) || /^\p{L}[\p{L}\p{M}\p{Nd}_-]{0,63}$/u.test(text)
}

/**
 * Returns the path and the kind of the first part of `value` that is no JSON; undefined if all of it is JSON.
 *
 * A property whose value is undefined counts as absent, as in JSON.stringify. Everything else that JSON would change
 * silently is an issue: NaN, dates, maps, functions, undefined in a list, a class instance, a cycle. So is nesting
 * deeper than `JSON.stringify` can safely handle.
 *
 * The only exception is -0. JSON can write it, `Math.round(-0.4)` returns it unasked, and it is `===` to the 0 that
 * arrives.
 */
export function jsonIssue(value: unknown, path = ''): { path: string; got: string } | undefined {
  return isJson(value, 0) ? undefined : firstIssue(value, path, undefined)
}

const DEEP = 100 // deeper values, including cycles, take the slow path
const TOO_DEEP = 1_000 // JSON is written and read by recursion

/** Gives the quick answer for the data of verbs: computes no path and allocates nothing. */
function isJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return Number.isFinite(value)
    case 'object':
      break
    default:
      return false
  }
  if (value === null) return true
  if (depth > DEEP) return false
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!isJson(value[i], depth + 1)) return false
    return true
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false
  for (const key in value) {
    const field = (value as Record<string, unknown>)[key]
    if (field !== undefined && !isJson(field, depth + 1)) return false
  }
  return true
}

interface Parents {
  value: object
  path: string
  above: Parents | undefined
  depth: number
}

function firstIssue(
  value: unknown,
  path: string,
  parents: Parents | undefined,
): { path: string; got: string } | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined
    case 'number':
      return Number.isFinite(value) ? undefined : { path, got: String(value) }
    case 'object':
      break
    default:
      return { path, got: typeof value }
  }
  if (value === null) return undefined
  for (let above = parents; above; above = above.above) if (above.value === value) return { path, got: 'a cycle' }
  const here: Parents = { value, path, above: parents, depth: (parents?.depth ?? 0) + 1 }
  if (here.depth > TOO_DEEP) return { path: outermost(here).path, got: `nested more than ${TOO_DEEP} levels deep` }
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const issue = firstIssue(value[i], `${path}[${i}]`, here)
      if (issue) return issue
    }
    return undefined
  }
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    return { path, got: `a ${value.constructor?.name || 'class instance'}` }
  }
  for (const key in value) {
    const field = (value as Record<string, unknown>)[key]
    if (field === undefined) continue
    const issue = firstIssue(field, path === '' ? key : `${path}.${key}`, here)
    if (issue) return issue
  }
  return undefined
}

function outermost(parents: Parents): Parents {
  let at = parents
  while (at.above) at = at.above
  return at
}
