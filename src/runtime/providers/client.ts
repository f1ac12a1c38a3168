/** Checks for clients of models. */
import type { ModelClient } from '../../actors/definition/model.ts'
import type { ModelOptions } from '../../actors/definition/model-options.ts'
import { isObject } from '../checks/checks.ts'
import { refused } from '../checks/refused.ts'

/** A client, with the client's name for the model. */
export interface ResolvedModel {
  readonly client: ModelClient
  readonly model: string
  /** Options of all its calls, unless the role or the call sets its own. */
  readonly options?: ModelOptions
  /** True if each of its answers begins with thoughts, up to `</think>`. */
  readonly thinks?: boolean
  /** Names of further fields of the provider that go back to it. */
  readonly giveBack?: readonly string[]
  /** Address of the provider, as host:port; undefined for a client of the user's own, or without an address. */
  readonly host?: string
  /** Name of the provider of a client of the user's own. */
  readonly provider?: string
}

/** Checks for a client, as opposed to the address of one. */
export const isClient = (value: unknown): value is ModelClient =>
  isObject(value) && 'complete' in value && typeof value.complete === 'function'

/** Checks whether the client makes no request outside of this process. */
export const isOffline = ({ rehearsal, offline }: ModelClient): boolean => rehearsal === true || offline === true

/** Throws `ConfigurationError` if a test gives, in place of all models, something that is no client. */
export function checkClient(model: unknown, path: string): void {
  if (model !== undefined && !isClient(model)) throw refused(path, model, 'a ModelClient')
}
