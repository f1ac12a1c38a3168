/** Comparison of a suite with an earlier report: matched cases, and what cannot be compared. */

import { REDACTED } from '../shared/thrown.ts'
import { own } from '../shared/values.ts'
import { type Comparison, comparisonOf, fewestFound, holm, meanOf } from './statistics.ts'
import type { CaseResult } from './suite.ts'

/** Returns the mean of a score over the repeats of each case that has it. */
export function meansOf(results: readonly CaseResult[], scorer: string): Map<string, number> {
  const ofCases = new Map<string, number[]>()
  for (const { run, scores } of results) {
    const score = own<{ score: number | null }>(scores, scorer)?.score
    if (score != null) ofCases.set(run.case.id, [...(ofCases.get(run.case.id) ?? []), score])
  }
  return new Map([...ofCases].map(([id, all]) => [id, meanOf(all)]))
}

/** Compares scores case by case with those of before, and says which of them could not have shown a difference. */
export function comparedWith(
  before: readonly CaseResult[],
  results: readonly CaseResult[],
  scorers: readonly string[],
  alpha: number,
): { compared: Record<string, Comparison>; notes: string[] } {
  const all: [scorer: string, Comparison][] = []
  for (const scorer of scorers) {
    const [old, now] = [meansOf(before, scorer), meansOf(results, scorer)]
    const ids = [...now.keys()].filter((id) => old.has(id))
    if (ids.length > 0)
      all.push([
        scorer,
        comparisonOf(
          ids.map((id) => old.get(id)!),
          ids.map((id) => now.get(id)!),
        ),
      ])
  }
  const alone = all.map(([, { p }]) => p)
  const chances = holm(alone)
  const notes = all.flatMap(([scorer, { n, differing }], at) => {
    const needed = fewestFound(alone, at, alpha) ?? Number.POSITIVE_INFINITY
    if (differing >= needed || (differing === 0 && n >= needed)) return []
    const enough = needed === Number.POSITIVE_INFINITY ? 'no number is enough' : `at least ${needed} are needed`
    return [
      `Score "${scorer}": with ${differing} differing cases of ${n} no difference can be found at alpha ${alpha}: ${enough}. Gates or atLeast decide.`,
    ]
  })
  const compared = Object.fromEntries(all.map(([scorer, each], at) => [scorer, { ...each, p: chances[at]! }]))
  return { compared, notes }
}

/** Says what is not compared, and what is compared though it is another. `scorers`: those that are not compared. */
export function changesSince(
  before: readonly CaseResult[],
  results: readonly CaseResult[],
  known: ReadonlySet<string>,
  scorers: readonly string[],
): string[] {
  const textsOf = (all: readonly CaseResult[]) =>
    new Map(all.map(({ run: { case: each } }) => [each.id, JSON.stringify([each.input, each.expected])]))
  const [old, now] = [textsOf(before), textsOf(results)]
  const cases = [...old.keys()].filter((id) => !known.has(id)).concat([...now.keys()].filter((id) => !old.has(id)))
  // A report has no secrets: whether such a case has changed is not known.
  const changed = [...now].filter(
    ([id, text]) => ![text, undefined].includes(old.get(id)) && !old.get(id)!.includes(REDACTED),
  )
  const alone = [namesOf('score', scorers), namesOf('case', cases)].filter((text) => text !== '')
  return [
    ...(alone.length > 0 ? [`Not in both, so not compared: ${alone.join('; ')}.`] : []),
    ...(changed.length > 0
      ? [
          `Compared, but with another input or \`expected\` than before: ${namesOf(
            'case',
            changed.map(([id]) => id),
          )}.`,
        ]
      : []),
  ]
}

const MOST_NAMES = 10

function namesOf(what: string, names: readonly string[]): string {
  if (names.length === 0) return ''
  const shown = names.slice(0, MOST_NAMES).map((name) => `"${name}"`)
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : ''
  return `${what}${names.length > 1 ? 's' : ''} ${shown.join(', ')}${more}`
}
