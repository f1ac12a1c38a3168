/** Place in the page: its view, and what of it is shown. The URL has it behind the `#`, so a link shows the same. */
import { computed, signal } from '@preact/signals'
import type { Session } from '../http/schemas.ts'
import { ask, isUnknown, Refused } from './service.ts'

export const VIEWS = ['tasks', 'team', 'run', 'cost', 'trouble', 'board', 'chat'] as const
export type View = (typeof VIEWS)[number]

export interface Place {
  readonly view: View
  readonly team?: string | undefined
  readonly task?: string | undefined
  readonly agent?: string | undefined
  readonly thread?: string | undefined
  readonly key?: string | undefined
  readonly filter?: string | undefined
  /** Time that is looked at, in epoch ms; none: now, or the end. */
  readonly at?: number | undefined
}

const TEXTS = ['team', 'task', 'agent', 'thread', 'key', 'filter'] as const

const current = signal<Place>(readPlace(location.hash))
addEventListener('hashchange', () => {
  current.value = readPlace(location.hash)
})

export const place = computed(() => current.value)

function readPlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?')
  const fields = new URLSearchParams(query)
  const view = VIEWS.find((each) => each === path) ?? 'tasks'
  const texts = Object.fromEntries(TEXTS.flatMap((name) => (fields.has(name) ? [[name, fields.get(name)!]] : [])))
  const at = Number(fields.get('at') ?? Number.NaN)
  return { view, ...texts, ...(Number.isFinite(at) && { at }) }
}

/**
 * Returns the link to a place. Fields that are not given stay as they are; undefined leaves one out. Another task has
 * other times and keys, another view finds other things.
 */
export function linkTo(change: Partial<Place>): string {
  const isOther = 'task' in change && change.task !== current.value.task
  const isElsewhere = 'view' in change && change.view !== current.value.view
  const here = {
    ...current.value,
    ...(isOther && { at: undefined, key: undefined }),
    ...(isElsewhere && { filter: undefined }),
  }
  const { view, ...rest } = { ...here, ...change }
  const fields = new URLSearchParams()
  for (const [name, value] of Object.entries(rest))
    if (value !== undefined && value !== '') fields.set(name, String(value))
  const query = fields.toString()
  return `#/${view}${query === '' ? '' : `?${query}`}`
}

/** Goes there. `replaces`: without a step in the browser's history, for what changes often. */
export function goTo(change: Partial<Place>, replaces = false): void {
  const link = linkTo(change)
  if (link === location.hash) return
  if (replaces) history.replaceState(null, '', link)
  else location.hash = link
  // the browser tells of it later: a change that comes before that starts from here
  current.value = readPlace(link)
}

export const session = signal<Session | undefined>(undefined)

export const team = computed(() => {
  const teams = session.value?.teams ?? []
  return teams.find(({ name }) => name === place.value.team)?.name ?? teams[0]?.name ?? ''
})

export const shape = computed(() => session.value?.teams.find(({ name }) => name === team.value))

export const mayWatch = computed(() => session.value?.caller.may.includes('watch') ?? false)
export const mayRun = computed(() => session.value?.caller.may.includes('run') ?? false)
export const mayApprove = computed(() => session.value?.caller.may.includes('approve') ?? false)
export const mayOperate = computed(() => session.value?.caller.may.includes('operate') ?? false)

/** Tokens that a header can have: a browser refuses others. */
const SENDABLE = /^[!-~]+$/

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
