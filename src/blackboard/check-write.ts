/** What a write must look like, whoever made it: an agent's code, a model, a person over HTTP. */
import { inspect } from 'node:util'
import { MessageRejectedError } from '../errors.ts'
import type { QueryFilter, WriteOptions } from './entry.ts'
import { LONGEST_KEY } from './pattern.ts'

/**
 * Refuses a key that no entry can have.
 *
 * @throws MessageRejectedError unless it is a string of 1 to 256 characters.
 */
export function checkKey(key: unknown): void {
  if (typeof key === 'string' && key !== '' && key.length <= LONGEST_KEY) return
  refuse('key', `a string of 1 to ${LONGEST_KEY} characters`, key)
}

/**
 * Refuses what the types already forbid, for callers that have none. Whether the value is JSON is the caller's check.
 *
 * @throws MessageRejectedError whose `details.path` names the part: `key`, `entryType`, `references[1]`.
 */
export function checkWrite(key: string, entryType: string, options: WriteOptions): void {
  checkKey(key)
  if (typeof entryType !== 'string' || entryType === '') refuse('entryType', 'a non-empty string', entryType, key)
  checkFields(options, 'options', ['confidence', 'supersedes', 'references', 'ifVersion'])
  const { confidence = 1, supersedes, references = [], ifVersion = 0 } = options
  if (typeof confidence !== 'number' || !(confidence >= 0 && confidence <= 1)) {
    refuse('confidence', 'a number from 0 to 1', confidence, key)
  }
  if (supersedes !== undefined && typeof supersedes !== 'string') refuse('supersedes', 'a key', supersedes, key)
  if (!Array.isArray(references)) refuse('references', 'a list of keys', references, key)
  for (const [index, reference] of references.entries()) {
    if (typeof reference !== 'string') refuse(`references[${index}]`, 'a key', reference, key)
  }
  if (!Number.isInteger(ifVersion) || ifVersion < 0) refuse('ifVersion', 'a whole number from 0 on', ifVersion, key)
}

/**
 * Refuses a filter that would not filter.
 *
 * @throws MessageRejectedError whose `details.path` names the field.
 */
export function checkFilter(filter: QueryFilter): void {
  checkFields(filter, 'filter', ['entryType', 'author', 'key'])
  for (const [field, value] of Object.entries(filter))
    if (value !== undefined && typeof value !== 'string') refuse(`filter.${field}`, 'a string', value)
}

/**
 * Refuses what cannot be called back.
 *
 * @throws MessageRejectedError unless it is a function.
 */
export function checkCallback(callback: unknown): void {
  if (typeof callback !== 'function') refuse('callback', 'a function', callback)
}

/**
 * Refuses options of a wait that nobody would look at.
 *
 * @throws MessageRejectedError whose `details.path` names the field.
 */
export function checkWait(options: object): void {
  checkFields(options, 'options', ['timeoutMs', 'signal'])
}

/** A mistyped field would be passed over in silence. */
function checkFields(value: unknown, path: string, known: readonly string[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse(path, 'an object', value)
  const strange = Object.keys(value).find((field) => !known.includes(field))
  if (strange === undefined) return
  const where = `${path}.${strange}`
  throw new MessageRejectedError(`${where}: there is no such field; there are ${known.join(', ')}.`, { path: where })
}

function refuse(path: string, wanted: string, got: unknown, key?: string): never {
  const shown = inspect(got, { depth: 0, maxStringLength: 60, breakLength: Number.POSITIVE_INFINITY })
  const where = key === undefined ? 'for the blackboard' : `of "${key}"`
  throw new MessageRejectedError(`The ${path} ${where} must be ${wanted}, not ${shown}.`, { path, key })
}
