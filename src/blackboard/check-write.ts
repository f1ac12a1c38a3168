/** Checks of writes to the blackboard from any source: an agent's code, a model, or a person over HTTP. */
import { inspect } from 'node:util'
import { MessageRejectedError } from '../errors.ts'
import type { QueryFilter, WriteOptions } from './entry.ts'
import { LONGEST_KEY } from './pattern.ts'

/**
 * Rejects an invalid key.
 *
 * @throws MessageRejectedError unless it is a string of 1 to 256 characters.
 */
export function checkKey(key: unknown): void {
  if (typeof key === 'string' && key !== '' && key.length <= LONGEST_KEY) return
  refuse('key', `a string of 1 to ${LONGEST_KEY} characters`, key)
}

/**
 * Rejects writes that the types already forbid, for callers without types. The caller checks that the value is JSON.
 *
 * @throws MessageRejectedError whose `details.path` names the invalid part: `key`, `entryType`, `references[1]`.
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
 * Rejects an invalid filter, which would have no effect.
 *
 * @throws MessageRejectedError whose `details.path` names the field.
 */
export function checkFilter(filter: QueryFilter): void {
  checkFields(filter, 'filter', ['entryType', 'author', 'key'])
  for (const [field, value] of Object.entries(filter))
    if (value !== undefined && typeof value !== 'string') refuse(`filter.${field}`, 'a string', value)
}

/**
 * Rejects a callback that is not a function.
 *
 * @throws MessageRejectedError unless it is a function.
 */
export function checkCallback(callback: unknown): void {
  if (typeof callback !== 'function') refuse('callback', 'a function', callback)
}

/**
 * Rejects unknown options of a wait, which would be ignored.
 *
 * @throws MessageRejectedError whose `details.path` names the field.
 */
export function checkWait(options: object): void {
  checkFields(options, 'options', ['timeoutMs', 'signal'])
}

/** Rejects unknown fields, because a mistyped field would be ignored silently. */
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
