/** What verbs check of what they are given. Each refusal names the argument, what came and what is needed. */
import { CancelledError, MessageRejectedError, shown } from '../../errors.ts'
import { MOST_RETRIES } from '../../mailbox/frame.ts'
import { jsonFormOf } from '../../mailbox/json-form.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import type { RequestOptions } from './context/context.ts'

/** The error for one argument. What is inside of it stays there: it can be a prompt. */
export function wrongArgument(path: string, value: unknown, needed: string): MessageRejectedError {
  return new MessageRejectedError(`${path} is ${shown(value)}; ${needed}.`, { path, got: shown(value) })
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
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrongArgument(path, value, 'an object is needed')
}

const REQUEST_OPTIONS: ReadonlySet<string> = new Set([
  'structuredData',
  'priority',
  'timeoutMs',
  'retries',
  'idempotent',
  'threadId',
  'metadata',
  'signal',
  'polling',
])

/** Refuses what is no object, and a field that would be passed over in silence. */
export function checkKnown(given: unknown, known: ReadonlySet<string>): void {
  checkObject(given, 'options')
  for (const key in given as object)
    if (!known.has(key))
      throw new MessageRejectedError(`options.${key}: there is no such option; there are ${[...known].join(', ')}.`, {
        path: `options.${key}`,
      })
}

const STEP_OPTIONS: ReadonlySet<string> = new Set(['idempotent'])

export function checkStepOptions(given: { idempotent?: unknown }): void {
  checkKnown(given, STEP_OPTIONS)
  const { idempotent } = given
  if (idempotent !== undefined && typeof idempotent !== 'boolean')
    throw wrongArgument('idempotent', idempotent, 'true or false is needed')
}

/** The options of a message, but for those that its frame checks: data, metadata, priority, time limit. */
export function checkRequestOptions(given: unknown): void {
  checkKnown(given, REQUEST_OPTIONS)
  const options = given as Record<string, unknown>
  const { signal, threadId, metadata, retries, idempotent, polling } = options
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw wrongArgument('signal', signal, 'an AbortSignal is needed')
  if (threadId !== undefined) checkText(threadId, 'threadId')
  if (metadata !== undefined) checkObject(metadata, 'metadata')
  if (retries !== undefined && !(Number.isInteger(retries) && Number(retries) >= 0 && Number(retries) <= MOST_RETRIES))
    throw wrongArgument('retries', retries, `an integer from 0 to ${MOST_RETRIES} is needed`)
  if (idempotent !== undefined && typeof idempotent !== 'boolean')
    throw wrongArgument('idempotent', idempotent, 'true or false is needed')
  if (polling !== undefined && typeof polling !== 'boolean')
    throw wrongArgument('polling', polling, 'true or false is needed')
}

/** Nobody waits for an answer to a send: what is about waiting for one has no use there. */
export function checkSendOptions({ timeoutMs, retries, idempotent }: RequestOptions): void {
  if (timeoutMs !== undefined) throw notForSends('timeoutMs', timeoutMs)
  if (retries) throw notForSends('retries', retries)
  if (idempotent) throw notForSends('idempotent', idempotent)
}

const notForSends = (path: string, value: unknown) =>
  wrongArgument(path, value, 'a send has none, since nobody answers it; use request')

/** What a message to many has in common, before the first of them is sent. */
export function checkRequests(to: unknown, content: unknown, options: { structuredData?: unknown }): void {
  if (!Array.isArray(to)) throw wrongArgument('to', to, "a list of agents' names is needed")
  for (const [i, name] of to.entries()) checkName(name, `to[${i}]`)
  checkContent(content)
  checkRequestOptions(options)
  const issue = options.structuredData === undefined ? undefined : jsonIssue(options.structuredData, 'structuredData')
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

/** A duration in whole milliseconds, at most what a timer takes. */
export function durationOf(value: unknown, path: string): number {
  if (typeof value !== 'number' || Number.isNaN(value) || value < 0)
    throw wrongArgument(path, value, 'milliseconds are needed, 0 or more')
  return Math.min(Math.ceil(value), HALF - 1)
}

export const withdrawn = (to: string, signal: AbortSignal) =>
  new CancelledError(`The wait for "${to}" was withdrawn: its signal was aborted.`, { agent: to }, signal.reason)

/** Structured data as JSON, or undefined if there is none. Throws `MessageRejectedError` with the path of what is no JSON. */
export function encodeData(value: unknown, field: string): string | undefined {
  if (value === undefined) return undefined
  const issue = jsonIssue(value, field)
  if (issue) throw notJson(issue)
  return JSON.stringify(value)
}

/**
 * What comes from elsewhere, as JSON and as who reads that gets it: dates are texts, instances of classes their fields. Throws
 * `MessageRejectedError` with the path of what JSON cannot say.
 */
export function encodeForm(given: unknown, field: string): { data: string | undefined; value: unknown } {
  const { value, issue } = jsonFormOf(given, field)
  if (issue) throw notJson(issue, issue.advice)
  return { data: JSON.stringify(value), value }
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
