/** What a client of models looks like to us. */
import type { ModelClient } from '../../actors/definition/model.ts'
import { isObject } from '../checks/checks.ts'
import { refused } from '../checks/refused.ts'

/** A client, and what it calls the model. */
export interface ResolvedModel {
  readonly client: ModelClient
  readonly model: string
  /** Where it is reached, as host:port; undefined: a client of the user's own, or of none. */
  readonly host?: string
}

/** Whether it is a client itself, not a description of where to find one. */
export const isClient = (value: unknown): value is ModelClient =>
  isObject(value) && 'complete' in value && typeof value.complete === 'function'

/** Whether it asks nobody outside of this process. */
export const isOffline = ({ rehearsal, offline }: ModelClient): boolean => rehearsal === true || offline === true

/** Throws `ConfigurationError` for what a test gives in place of all models and is none. */
export function checkClient(model: unknown, path: string): void {
  if (model !== undefined && !isClient(model)) throw refused(path, model, 'a ModelClient')
}
