/**
 * Failures that are the same one: what tells two runs of one mistake apart is left out (ids, and where a circle
 * begins).
 */
import type { ErrorData } from '../../errors.ts'
import { oneLine } from '../one-line.ts'
import type { Failure } from './job.ts'

const LONGEST_ERROR = 400

const ID = '[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}'
const ASIDE = new RegExp(` \\((?:the last: )?(?:message|task|the last task:) ${ID}\\)`, 'g')
const IDS = new RegExp(ID, 'g')

export interface Group {
  /** Message of the group's first failure. */
  readonly words: string
  readonly seeds: readonly number[]
}

/** The most frequent first. */
export function groupsOf(failures: readonly Failure[]): Group[] {
  const groups = new Map<string, { words: string; seeds: number[] }>()
  for (const { seed, error } of failures) {
    const key = keyOf(error)
    const group = groups.get(key)
    if (group) group.seeds.push(seed)
    else groups.set(key, { words: oneLine(withoutIds(wordsOf(error)), LONGEST_ERROR), seeds: [seed] })
  }
  return [...groups.values()].sort((a, b) => b.seeds.length - a.seeds.length || a.seeds[0]! - b.seeds[0]!)
}

/** An error in one line. */
export const errorLine = (error: ErrorData): string => oneLine(wordsOf(error), LONGEST_ERROR)

const wordsOf = ({ code, message }: ErrorData) => `${code}: ${message}`

/** Returns the group of an error. Findings of a detector are one group, whichever agent comes first in their text. */
function keyOf(error: ErrorData): string {
  const { cycle, evidence } = error.details
  if (isTexts(cycle)) return `${error.code} ${JSON.stringify(fromItsLeast(cycle))}`
  if (isTexts(evidence)) return `${error.code} ${JSON.stringify(evidence.map(withoutIds).sort())}`
  return withoutIds(wordsOf(error))
}

function fromItsLeast(cycle: readonly string[]): string[] {
  const least = cycle.reduce((best, name, at) => (name < cycle[best]! ? at : best), 0)
  return [...cycle.slice(least), ...cycle.slice(0, least)]
}

/** The run of a rehearsal is named after its seed. */
const withoutIds = (text: string): string =>
  text
    .replaceAll(ASIDE, '')
    .replaceAll(IDS, '…')
    .replaceAll(/\bseed-\d+\b/g, '…')
    .replaceAll(/\bseed \d+\b/gi, 'The seed')

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string')
