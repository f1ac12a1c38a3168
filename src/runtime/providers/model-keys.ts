/**
 * Resolves the key of a model: from a variable of the environment, the options, or a function that is called before
 * each request.
 */

import type { Environment } from '../../environment.ts'
import { ConfigurationError, describe, ModelError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import { own } from '../../own.ts'
import type { Redactor } from '../logging/redactor.ts'

export interface ModelKey {
  /** Identity of the key. Models with the same identity and address share a provider. */
  readonly identity: unknown
  /** Source of the key in words, for errors; undefined: there is no key. */
  readonly from: string | undefined
  get(signal: AbortSignal): Promise<string | undefined>
}

export const NO_KEY: ModelKey = { identity: undefined, from: undefined, get: async () => undefined }

/** Returns the key in a variable. Throws `ConfigurationError` with its name if it is not set, or holds no key. */
export function keyOfVariable(name: string, path: string, env: Environment, redactor: Redactor): ModelKey {
  const value = own(env, name)?.trim()
  if (!value) {
    const text = `${path}: the variable ${name} is not set. Set it to the key of the provider; a .env file is read by the command line alone.`
    throw new ConfigurationError(text, { path, variable: name, got: 'a variable that is not set' })
  }
  return fixedKey(value, `the variable ${name}`, path, redactor)
}

/** Returns a key that the options hold as text. Throws `ConfigurationError` if the text is no key. */
export function fixedKey(value: string, from: string, path: string, redactor: Redactor): ModelKey {
  redactor.learn(value)
  if (!isKey(value)) {
    const text = `${path}: ${from} holds no key: there are spaces, or characters that no header takes. Set it to the key alone.`
    throw new ConfigurationError(text, { path, got: 'a text that is no key' })
  }
  return { identity: value, from, get: async () => value }
}

/** Returns the key of a function. Calls at the same time share one call of it; a later call asks anew. */
export function keyOfFunction(ask: () => string | Promise<string>, path: string, redactor: Redactor): ModelKey {
  let underWay: Promise<string> | undefined
  const asked = async () => {
    const key: unknown = await ask()
    if (typeof key !== 'string' || !isKey(key)) throw noKey(`${path} gave no key: a text without spaces is due.`, path)
    redactor.learnFrom(ask, key)
    return key
  }
  const once = () => {
    underWay ??= asked().finally(() => {
      underWay = undefined
    })
    return underWay
  }
  return {
    identity: ask,
    from: path,
    async get(signal) {
      try {
        return await unlessAborted(once(), signal)
      } catch (error) {
        if (signal.aborted || error instanceof ModelError) throw error
        throw noKey(`${path} threw ${redactor.text(describe(error))}.`, path)
      }
    },
  }
}

const noKey = (what: string, path: string) =>
  new ModelError(`${what} Look at that function.`, { path, reason: 'auth', retryable: false })

/** Checks whether the text can be sent in a header. */
const isKey = (text: string) => /^[\x21-\x7e]+$/.test(text)

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const detach = onAbort(signal, () => reject(signal.reason))
    work.then(resolve, reject).finally(detach)
  })
}
