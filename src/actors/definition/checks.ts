/** Checks of the arguments of verbs. Each refusal names the argument, the given value and the needed one. */

import { jsonFormOf } from '../../mailbox/json.ts'
import { jsonIssue, MOST_RETRIES } from '../../mailbox/message.ts'
import { PARTS } from '../../mailbox/parts.ts'
import { CancelledError, DramatisError, describe, MessageRejectedError, shown } from '../../shared/errors.ts'
import { partsFault } from './content.ts'
import type { RequestOptions } from './context.ts'

/** Returns the error for one wrong argument. It does not contain the value's content, which can be a prompt. */
export function wrongArgument(path: string, value: unknown, needed: string): MessageRejectedError {
  return new MessageRejectedError(`${path} is ${shown(value)}; ${needed}.`, { path, got: shown(value) })
}

/** Returns the error for an argument that throws when it is read (a getter, a proxy). A refusal stays as it is. */
function unreadable(path: string, error: unknown): unknown {
  if (error instanceof DramatisError) return error
  const got = `what throws when it is read (${describe(error)})`
  return new MessageRejectedError(`${path} is ${got}; plain values are needed.`, { path, got }, error)
}

/** Returns the result of `look`. Refuses the argument at `path` if reading it throws. */
export function reading<T>(path: string, look: () => T): T {
  try {
    return look()
  } catch (error) {
    throw unreadable(path, error)
  }
}

/** Refuses an object with a field that throws when it is read. */
export function checkReadable(value: object, path: string): void {
  try {
    Object.values(value)
  } catch (error) {
    throw unreadable(path, error)
  }
}

export function checkText(value: unknown, path: string, advice = ''): void {
  if (typeof value !== 'string') throw wrongArgument(path, value, `a string is needed${advice}`)
}

export function checkName(value: unknown, path: string): void {
  if (typeof value !== 'string' || value === '') throw wrongArgument(path, value, 'the name of an agent is needed')
}

export function checkFunction(value: unknown, path: string): void {
  if (typeof value !== 'function') throw wrongArgument(path, value, 'a function is needed')
}

export function checkObject(value: unknown, path: string): void {
  try {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return
  } catch (error) {
    throw unreadable(path, error)
  }
  throw wrongArgument(path, value, 'an object is needed')
}

const REQUEST_OPTIONS: ReadonlySet<string> = new Set([
  'structuredData',
  'priority',
  'timeoutMs',
  'wallClock',
  'retries',
  'idempotent',
  'threadId',
  'metadata',
  'signal',
  'polling',
  'parts',
  'key',
])

/** Refuses a value that is not an object, and an unknown field, which would otherwise be ignored silently. */
export function checkKnown(given: unknown, known: ReadonlySet<string>): void {
  checkObject(given, 'options')
  reading('options', () => {
    for (const key in given as object) {
      if (!known.has(key))
        throw new MessageRejectedError(`options.${key}: there is no such option; there are ${[...known].join(', ')}.`, {
          path: `options.${key}`,
        })
      reading(key, () => Reflect.get(given as object, key))
    }
  })
}

const STEP_OPTIONS: ReadonlySet<string> = new Set(['idempotent'])

export function checkStepOptions(given: { idempotent?: unknown }): void {
  checkKnown(given, STEP_OPTIONS)
  const idempotent = reading('options', () => given.idempotent)
  if (idempotent !== undefined && typeof idempotent !== 'boolean')
    throw wrongArgument('idempotent', idempotent, 'true or false is needed')
}

/** Checks the options of a message, except those that its frame checks: data, metadata, priority, time limit. */
export function checkRequestOptions(given: unknown): void {
  checkKnown(given, REQUEST_OPTIONS)
  reading('options', () => checkRequestFields(given))
}

function checkRequestFields(given: unknown): void {
  const options = given as Record<string, unknown>
  const { signal, threadId, metadata, retries, idempotent, polling, parts, wallClock } = options
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw wrongArgument('signal', signal, 'an AbortSignal is needed')
  if (options.key !== undefined)
    throw wrongArgument('key', options.key, 'context.request alone takes one; leave it out here')
  if (threadId !== undefined && (typeof threadId !== 'string' || threadId === ''))
    throw wrongArgument('threadId', threadId, 'a text that is not empty is needed')
  if (metadata !== undefined) checkObject(metadata, 'metadata')
  if (metadata !== undefined && reading('metadata', () => PARTS in (metadata as object)))
    throw wrongArgument(`metadata.${PARTS}`, 'a value', "that name is the runtime's own; give parts as parts")
  if (parts !== undefined) checkParts(parts)
  if (retries !== undefined && !(Number.isInteger(retries) && Number(retries) >= 0 && Number(retries) <= MOST_RETRIES))
    throw wrongArgument('retries', retries, `an integer from 0 to ${MOST_RETRIES} is needed`)
  if (idempotent !== undefined && typeof idempotent !== 'boolean')
    throw wrongArgument('idempotent', idempotent, 'true or false is needed')
  if (polling !== undefined && typeof polling !== 'boolean')
    throw wrongArgument('polling', polling, 'true or false is needed')
  if (wallClock !== undefined && typeof wallClock !== 'boolean')
    throw wrongArgument('wallClock', wallClock, 'true or false is needed')
  if (wallClock && options.timeoutMs === undefined)
    throw wrongArgument('wallClock', wallClock, 'timeoutMs is needed, which is the limit')
}

function checkParts(parts: unknown): void {
  const fault = reading('parts', () => partsFault(parts, 'parts'))
  if (fault) throw wrongArgument(fault.path, fault.value, fault.needed)
}

/** Refuses the options that concern an answer: a send has no answer to wait for. */
export function checkSendOptions({ timeoutMs, wallClock, retries, idempotent }: RequestOptions): void {
  if (timeoutMs !== undefined) throw notForSends('timeoutMs', timeoutMs)
  if (wallClock) throw notForSends('wallClock', wallClock)
  if (retries) throw notForSends('retries', retries)
  if (idempotent) throw notForSends('idempotent', idempotent)
}

const notForSends = (path: string, value: unknown) =>
  wrongArgument(path, value, 'a send has none, since nobody answers it; use request')

/** Checks the common parts of a message to several agents, before the first of them is sent. */
export function checkRequests(to: unknown, content: unknown, options: { structuredData?: unknown }): void {
  if (!reading('to', () => Array.isArray(to))) throw wrongArgument('to', to, "a list of agents' names is needed")
  for (const [i, name] of reading('to', () => [...(to as unknown[])]).entries()) checkName(name, `to[${i}]`)
  checkContent(content)
  checkRequestOptions(options)
  const { structuredData } = options
  const issue =
    structuredData === undefined
      ? undefined
      : reading('structuredData', () => jsonIssue(structuredData, 'structuredData'))
  if (issue) throw notJson(issue)
}

export function checkContent(content: unknown): void {
  checkText(content, 'content', '. Put other values into structuredData')
}

const HALF = 2 ** 31

export function priorityOf(value: number | undefined, path = 'priority'): number {
  if (value === undefined) return 0
  if (!Number.isInteger(value) || value < -HALF || value >= HALF)
    throw wrongArgument(path, value, 'an integer of 32 bits is needed')
  return value
}

/** Returns a duration in whole milliseconds, limited to the largest value that a timer accepts. */
export function durationOf(value: unknown, path: string): number {
  if (typeof value !== 'number' || Number.isNaN(value) || value < 0)
    throw wrongArgument(path, value, 'milliseconds are needed, 0 or more')
  return Math.min(Math.ceil(value), HALF - 1)
}

export const withdrawn = (to: string, signal: AbortSignal) =>
  new CancelledError(`The wait for "${to}" was withdrawn: its signal was aborted.`, { agent: to }, signal.reason)

/**
 * Returns structured data as JSON, or undefined if there is none. Throws `MessageRejectedError` with the path of the
 * value that is not JSON.
 */
export function encodeData(value: unknown, field: string): string | undefined {
  if (value === undefined) return undefined
  try {
    const issue = jsonIssue(value, field)
    if (issue) throw notJson(issue)
    return JSON.stringify(value)
  } catch (error) {
    throw unreadable(field, error)
  }
}

/**
 * Encodes a value from user code as JSON, and returns it also in the form that its reader gets: dates as texts,
 * instances of classes as their fields. Throws `MessageRejectedError` with the path of a value that JSON cannot
 * represent.
 */
export function encodeForm(given: unknown, field: string): { data: string | undefined; value: unknown } {
  try {
    const { value, issue } = jsonFormOf(given, field)
    if (issue) throw notJson(issue, issue.advice)
    return { data: JSON.stringify(value), value }
  } catch (error) {
    throw unreadable(field, error)
  }
}

export function notJson(issue: { path: string; got: string }, advice = ''): MessageRejectedError {
  return new MessageRejectedError(
    `${issue.path} is ${issue.got}; a JSON value is needed: string, finite number, boolean, null, list or plain object.${advice && ` ${advice}`}`,
    { path: issue.path, got: issue.got, accepted: 'a JSON value' },
  )
}

/** The refusal of a message that has more bytes than its recipient, or any agent, takes. */
export function tooLarge(bytes: number, limit: number, agent?: string): MessageRejectedError {
  const to = agent === undefined ? '' : ` to "${agent}"`
  return new MessageRejectedError(
    `The message${to} is ${bytes} bytes encoded; at most ${limit} are taken (communication.maxMessageBytes). Send it in parts, or a reference to it.`,
    { ...(agent !== undefined && { agent }), bytes, limit },
  )
}
