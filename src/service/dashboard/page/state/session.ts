/** Session of whoever looks at the page, and the teams that there are. */
import { computed, signal } from '@preact/signals'
import type { Session } from '../../../http/schemas.ts'
import { place } from './place.ts'
import { ask, isUnknown, Refused } from './service.ts'

export const session = signal<Session | undefined>(undefined)

/** Name of the team that is looked at. */
export const team = computed(() => {
  const teams = session.value?.teams ?? []
  return teams.find(({ name }) => name === place.value.team)?.name ?? teams[0]?.name ?? ''
})

export const shape = computed(() => session.value?.teams.find(({ name }) => name === team.value))

export const mayWatch = computed(() => session.value?.caller.may.includes('watch') ?? false)
export const mayRun = computed(() => session.value?.caller.may.includes('run') ?? false)
export const mayOperate = computed(() => session.value?.caller.may.includes('operate') ?? false)

/** Tokens that a header can have: a browser refuses others. */
const SENDABLE = /^[!-~]+$/

/** Gives the service a token, for a cookie. */
export async function enter(given: string): Promise<void> {
  const token = given.trim()
  if (!SENDABLE.test(token)) {
    isUnknown.value = true
    throw new Refused(401, 'A token has letters, digits and signs of ASCII alone.')
  }
  await ask('session', { method: 'POST', headers: { authorization: `Bearer ${token}` } })
  isUnknown.value = false
  await lookUp()
}

/** Asks who we are. */
export async function lookUp(): Promise<void> {
  session.value = await ask<Session>('session')
  isUnknown.value = false
}

/** Takes the token out of the URL: what is behind the `#` no log of a server has, and soon no history. */
export function tokenInUrl(): string | undefined {
  const found = /^#(?:.*&)?token=([^&]+)/.exec(location.hash)?.[1]
  if (found === undefined) return undefined
  history.replaceState(null, '', '#/')
  try {
    return decodeURIComponent(found)
  } catch {
    return found
  }
}
