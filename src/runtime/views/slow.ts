/** Tells what takes long, in words: the same in `team.turns()`, on the pages and in the terminal. */
import type { Wait } from './digest-line.ts'

type Timed = Pick<Wait, 'since' | 'slowAfterMs'>

/** Checks for something that has taken longer than `supervision.slowMs` allows. `now`: epoch ms. */
export const isSlow = ({ since, slowAfterMs }: Timed, now: number): boolean =>
  slowAfterMs !== undefined && now - since >= slowAfterMs

/** Says what is slow: `writer: step "fetch prices" for 4 min (slow after 30 s)`. */
export function slowSentence(wait: Wait, now: number): string {
  const limit = wait.slowAfterMs === undefined ? '' : ` (slow after ${span(wait.slowAfterMs)})`
  const cause = wait.cause === undefined ? '' : `: ${wait.cause}`
  return `${wait.agent ?? 'a run'}: ${doingWords(wait)} for ${span(now - wait.since)}${limit}${cause}`
}

const WORDS: ReadonlyMap<string, string> = new Map([
  ['own', 'its own code, in no step and no call'],
  ['sleep', 'sleeps'],
  ['step', 'step'],
  ['tool', 'tool'],
  ['model', 'model'],
  ['ask', 'waits for a person'],
  ['approve', 'waits for a person to allow'],
  ['request', 'waits for'],
  ['delegate', 'waits for'],
  ['limit', 'waits at the limit'],
])
const QUOTED: ReadonlySet<string> = new Set(['step', 'tool', 'model'])

/** Says what a turn does or waits for: `step "fetch prices"`, `waits for editor`. */
export function doingWords({ kind, for: subjects, limit }: Pick<Wait, 'kind' | 'for' | 'limit'>): string {
  const names = subjects.map((name) => (QUOTED.has(kind) ? `"${name}"` : name)).join(', ')
  const height = typeof limit === 'number' ? ` (${limit})` : ''
  return `${WORDS.get(kind) ?? `waits for ${kind}`} ${names}`.trim() + height
}

/** Returns a time span in words: 0.4 s, 12 s, 3 min, 2 h. */
export function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  const minutes = seconds / 60
  return minutes < 120 ? `${Math.round(minutes)} min` : `${Math.round(minutes / 60)} h`
}
