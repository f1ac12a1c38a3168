/** A provider of models, and what errors call it. */
import type { Clock } from '../../clock.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { ModelKey } from './model-keys.ts'

/** Address of models, and the key for it. */
export interface Provider {
  readonly baseURL: string
  readonly key: ModelKey
  readonly redactor: Redactor
  readonly clock: Clock
  /** Told of the headers of each answer, refusals too. */
  onHeaders?(headers: Headers): void
}

/** The host that errors name. Never more of the address: a path can hold a key. */
export function hostOf(baseURL: string): string {
  return new URL(baseURL).host
}

/** An address of a provider. No user, no query: both are places for secrets, and neither works. */
export function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return (protocol === 'http:' || protocol === 'https:') && username + password + search + hash === ''
}
