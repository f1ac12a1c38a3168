/** Shape of `models`, and of the replacement models of a run. Errors never show a value that can be a key. */
import { shown } from '../../errors.ts'
import { type Check, flag, integer, isObject, methods, oneOf, pause, shape } from '../checks/checks.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'
import type { AddressEntry, ClientEntry } from '../providers/models-config.ts'
import { isAddress } from '../providers/provider.ts'
import { modelOptionFields } from './model-option-fields.ts'
import { someText } from './role-shape.ts'
import { variableName } from './tools.ts'

const ADDRESS = 'an address like https://host/v1, without user, query and fragment'

const WRAP = "Wrap it: fromAiSdk(model), from 'dramatis/ai-sdk'."

const address: Check = (value, path) => {
  if (typeof value !== 'string' || !isAddress(value)) throw refusedAs(path, kindOf(value), ADDRESS)
}

const apiKey: Check = (value, path) => {
  if (typeof value === 'function' || (typeof value === 'string' && value !== '')) return
  throw refusedAs(path, kindOf(value), 'a key, or a function that gives one', 'Leave it out where no key is needed.')
}

const middleware: Check = (value, path) => {
  const isFunction = (layer: unknown) => typeof layer === 'function'
  if (isFunction(value) || (Array.isArray(value) && value.every(isFunction))) return
  throw refusedAs(path, kindOf(value), 'a function, or a list of functions')
}

const fieldNames: Check = (value, path) => {
  const isField = (name: unknown) => typeof name === 'string' && /^\w{1,64}$/.test(name)
  if (!Array.isArray(value) || !value.every(isField)) throw refused(path, value, 'a list of names of fields')
}

const described = shape<AddressEntry>(
  {
    model: someText,
    baseURL: address,
    api: oneOf('chat', 'responses'),
    apiKeyEnv: variableName,
    apiKey,
    maxConcurrent: integer(1),
    maxRetryAfterMs: pause,
    middleware,
    thinks: flag,
    giveBack: fieldNames,
    ...modelOptionFields,
  },
  'model',
)

const secrets: Check = (value, path) => {
  if (Array.isArray(value) && value.every((text) => typeof text === 'string' && text !== '')) return
  throw refusedAs(path, kindOf(value), 'a list of texts that are not empty')
}

const withClient = shape<ClientEntry>(
  {
    client: methods('complete'),
    model: someText,
    secrets,
    maxConcurrent: integer(1),
    maxRetryAfterMs: pause,
    middleware,
    thinks: flag,
    ...modelOptionFields,
  },
  'client',
)

const model: Check = (value, path) => {
  if (!isObject(value)) throw refusedAs(path, kindOf(value), 'a client, or an object with a client or a model')
  if (reading(path, () => 'complete' in value)) return methods('complete')(value, path)
  if (reading(path, () => 'doGenerate' in value)) throw refusedAs(path, 'a model of the AI SDK', 'a client', WRAP)
  if (reading(path, () => 'client' in value)) return withClient(value, path)
  described(value, path)
  if (
    reading(
      path,
      () => 'apiKey' in value && 'apiKeyEnv' in value && value.apiKey !== undefined && value.apiKeyEnv !== undefined,
    )
  )
    throw refusedAs(path, 'both apiKey and apiKeyEnv', 'one of them')
}

/** Checks the `models` of a team. */
export const modelsShape: Check = (value, path) => {
  if (value === 'rehearsal') return
  const accepted = '"rehearsal", or an object with at least one model by its name'
  if (!isObject(value)) throw refused(path, value, accepted)
  const entries = reading(path, () => Object.entries(value))
  if (entries.length === 0) throw refusedAs(path, 'an object without models', accepted)
  for (const [name, entry] of entries) model(entry, `${path}.${name}`)
}

/** Checks the `models` of a run: replacement models by the names that roles use. */
export const modelNamesShape: Check = (value, path) => {
  if (!isObject(value)) throw refused(path, value, 'an object of names')
  for (const [name, instead] of reading(path, () => Object.entries(value))) someText(instead, `${path}.${name}`)
}

/** Returns the kind of a value instead of the value, since it can be a key. */
function kindOf(value: unknown): string {
  if (typeof value === 'string') return 'another text'
  return typeof value === 'object' || value === undefined ? shown(value) : `a ${typeof value}`
}
