/** A provider of models, and its name in errors. */
import type { Clock } from '../../clock.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { ModelKey } from './model-keys.ts'

/** APIs of OpenAI that an address can speak. */
export type Api = 'chat' | 'responses'

/** Address of a provider, with its key. */
export interface Provider {
  readonly baseURL: string
  readonly key: ModelKey
  readonly redactor: Redactor
  readonly clock: Clock
}

/** Returns the host, which errors name. They name no more of the address, because a path can hold a key. */
export function hostOf(baseURL: string): string {
  return new URL(baseURL).host
}

/** Checks for an address of a provider. It has no user and no query: both can hold secrets, and neither works. */
export function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return (protocol === 'http:' || protocol === 'https:') && username + password + search + hash === ''
}
