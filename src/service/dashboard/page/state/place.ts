/** Place in the page: its view, and what of it is shown. The URL has it behind the `#`, so a link shows the same. */
import { computed, signal } from '@preact/signals'

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
