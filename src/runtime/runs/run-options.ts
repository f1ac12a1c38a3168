/** Options of one run, checked at the start. */
import { type Content, messageParts, partsFault, textOf } from '../../actors/definition/content.ts'
import { ConfigurationError, describe } from '../../errors.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import { optionMeant } from '../../nearest.ts'
import { isObject, oneOf } from '../checks/checks.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'
import { tokenLimit } from '../settings/budget-shape.ts'
import { modelNamesShape } from '../settings/models-shape.ts'
import { assertPossible } from '../settings/output-shape.ts'
import type { ResumeOptions, RunOptions } from './run.ts'
import { readMessages } from './run-messages.ts'

const KNOWN = [
  'signal',
  'timeoutMs',
  'priority',
  'runId',
  'threadId',
  'metadata',
  'models',
  'budget',
  'output',
  'stream',
  'messages',
] as const

/** A query: its text, and its parts if it is more than that. */
export interface Query {
  readonly text: string
  readonly parts: readonly MessagePart[] | undefined
}

/**
 * Reads a query: a text, or parts.
 *
 * @throws ConfigurationError that names the part, what came and what is accepted.
 */
export function readQuery(query: unknown): Query {
  if (typeof query === 'string') return { text: query, parts: undefined }
  if (!reading('query', () => Array.isArray(query))) throw refused('query', query, 'a text or a list of parts')
  const fault = reading('query', () => partsFault(query, 'query'))
  if (fault) throw refused(fault.path, fault.value, fault.needed)
  const parts = messageParts(query as Content)
  const text = textOf(parts)
  return { text, parts: parts.every(({ type }) => type === 'text') ? undefined : parts }
}

/**
 * Returns a copy of the options as they are now: a later read could return something else, or throw.
 *
 * @throws ConfigurationError that names the option, what came and what is accepted.
 */
export function readRunOptions<T>(given: RunOptions<T>): RunOptions<T> {
  if (!isObject(given)) throw refused('options', given, 'an object')
  const options = copied('options', given)
  if (isObject(options.metadata)) options.metadata = copied('metadata', options.metadata)
  if (isObject(options.models)) options.models = copied('models', options.models)
  if (isObject(options.budget)) options.budget = copied('budget', options.budget)
  reading('options', () => check(options, KNOWN, 'a run'))
  const { messages } = options
  if (messages !== undefined) options.messages = reading('messages', () => readMessages(messages))
  if (messages !== undefined && options.threadId !== undefined)
    throw refusedAs(
      'messages',
      'messages beside a threadId',
      'one of the two',
      'A thread has its conversation already.',
    )
  return options
}

const RESUME = ['output', 'signal', 'timeoutMs', 'onMismatch'] as const
const mismatchMode = oneOf('refuse', 'continue')

/**
 * Returns a copy of the options of `team.resume`.
 *
 * @throws ConfigurationError that names the option, what came and what is accepted.
 */
export function readResumeOptions<T>(runId: unknown, given: ResumeOptions<T>): ResumeOptions<T> {
  if (typeof runId !== 'string' || runId === '') throw refused('runId', runId, 'the id of a run')
  if (!isObject(given)) throw refused('options', given, 'an object')
  const options = copied('options', given)
  reading('options', () => {
    check(options, RESUME, 'team.resume')
    if (options.onMismatch !== undefined) mismatchMode(options.onMismatch, 'onMismatch')
  })
  return options
}

const copied = <T extends object>(path: string, given: T): T => reading(path, () => ({ ...given }))

function check(options: RunOptions<never> | RunOptions<unknown>, known: readonly string[], of: string): void {
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      const near = optionMeant(key, known)
      throw new ConfigurationError(
        `${key}: no such option of ${of}${near ? `; did you mean "${near}"?` : `; there are ${known.join(', ')}.`}`,
        { path: key },
      )
    }
  }
  const { signal, timeoutMs, priority, runId, threadId, metadata, models, budget, output, stream } = options
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw refused('signal', signal, 'an AbortSignal')
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs > 0 && timeoutMs < 2 ** 31))
    throw refused('timeoutMs', timeoutMs, 'milliseconds above 0, below 2^31')
  if (priority !== undefined && !Number.isFinite(priority)) throw refused('priority', priority, 'a finite number')
  if (runId !== undefined && (typeof runId !== 'string' || runId === ''))
    throw refused('runId', runId, 'a text that is not empty')
  if (threadId !== undefined && (typeof threadId !== 'string' || threadId === ''))
    throw refused('threadId', threadId, 'a text that is not empty')
  if (metadata !== undefined && !isObject(metadata)) throw refused('metadata', metadata, 'an object of texts')
  if (metadata !== undefined)
    for (const [key, value] of Object.entries(metadata))
      if (typeof value !== 'string') throw refused(`metadata.${key}`, value, 'a text')
  if (models !== undefined) modelNamesShape(models, 'models')
  if (budget !== undefined) tokenLimit(budget, 'budget')
  if (output !== undefined && typeof output?.['~standard']?.validate !== 'function')
    throw refused('output', output, 'a Standard Schema (zod, arktype, ...)')
  if (output) assertPossible(output, 'output')
  if (stream !== undefined && typeof stream !== 'boolean') throw refused('stream', stream, 'true or false')
}

/** Returns why a signal has aborted, in words. */
export const reasonOf = (signal: AbortSignal): string =>
  signal.reason instanceof Error ? signal.reason.message : describe(signal.reason)
