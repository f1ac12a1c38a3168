/**
 * What agents say to each other: a union of seven types, each with the routing of document 002, 2.3.1. Programs build
 * the plain `AgentMessage`, mostly with a `type` that they have from elsewhere, which no union would take.
 * The verbs check what they build cheaply (`jsonIssue`); what comes from outside goes through `parseMessage`
 * (parse-message.ts, which needs zod and is therefore never loaded in a thread).
 */

/**
 * What kind of message it is. request, delegate: to one agent's `receive`. response: back to who asked. broadcast,
 * publish, report: to `observe`. subscribe: to the runtime. Source: document 002, 2.3.1.
 */
export type MessageType = 'request' | 'response' | 'broadcast' | 'publish' | 'subscribe' | 'delegate' | 'report'

export const MESSAGE_TYPES = [
  'request',
  'response',
  'broadcast',
  'publish',
  'subscribe',
  'delegate',
  'report',
] as const satisfies readonly MessageType[]

/**
 * One message, of a type that need not be known: what programs build and hand in. What the runtime gives out is a
 * `TypedMessage`. Source: document 002, 2.3.2.
 */
export interface AgentMessage<Data = unknown> {
  /** A UUID. */
  id: string
  type: MessageType
  /** An agent, '$user' (the caller outside), '$orchestrator' (the protocol script) or '$runtime'. */
  sender: string
  /** null: everybody, or whoever has subscribed. */
  recipient: string | string[] | null
  content: string
  /** A JSON value; null if there is none. -0 arrives as 0. */
  structuredData: Data
  /** Higher overtakes lower in a mailbox; 0. */
  priority: number
  requiresResponse: boolean
  /** From the start of the recipient's turn; null: the recipient's own limit. */
  responseTimeoutMs: number | null
  /** The conversation that it belongs to. */
  threadId: string | null
  metadata: Record<string, unknown>
  runId: string
  /** Of a response: the id of the message that it answers. */
  correlationId: string | null
  /** Epoch ms. */
  sentAt: number
}

/** A message of that type, as the runtime gives it out: a response always names the message that it answers. */
export interface MessageOf<Type extends MessageType, Data = unknown> extends AgentMessage<Data> {
  type: Type
  correlationId: Type extends 'response' ? string : null
}

/**
 * The seven types of messages, told apart by `type`: what handlers, histories and events have.
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
  /** 'request'. */
  type?: MessageType
  /** '$user'. */
  sender?: string
  recipient: string | string[] | null
  content: string
  structuredData?: unknown
  priority?: number
  requiresResponse?: boolean
  responseTimeoutMs?: number
  threadId?: string
  metadata?: object
  runId?: string
  correlationId?: string
}

/** The runtime itself, the caller outside, and the protocol script, as senders and recipients. */
export const RUNTIME = '$runtime'
export const USER = '$user'
export const ORCHESTRATOR = '$orchestrator'

/** Names start with a letter, then letters, digits, '_' and '-', any script, at most 64 characters. */
export const NAME_GRAMMAR = /^\p{L}[\p{L}\p{M}\p{Nd}_-]{0,63}$/u

/**
 * The path of the first thing in `value` that is no JSON value and what it is, or undefined if all of it is JSON.
 * A property whose value is undefined counts as absent, as in JSON.stringify; everything else that JSON would change
 * in silence (NaN, dates, maps, functions, undefined in a list, a class instance, a cycle) is named. So is what is
 * nested more deeply than `JSON.stringify` can be trusted to go. -0 is the one exception: JSON has it, `Math.round(-0.4)`
 * gives it to who never asked for it, and it is `===` to the 0 that arrives.
 */
export function jsonIssue(value: unknown, path = ''): { path: string; got: string } | undefined {
  return isJson(value, 0) ? undefined : firstIssue(value, path, undefined)
}

const DEEP = 100 // deeper values, and cycles with them, take the slow way
const TOO_DEEP = 1_000 // whoever writes and reads it as JSON does so by recursion

/** The quick answer, for what verbs send: no path, nothing allocated. */
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
    return { path, got: `a ${value.constructor?.name ?? 'class instance'}` }
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
