/**
 * Counts votes: weighted, or by majority if a voter has no usable weight. Values are compared by structure, so two
 * agents that answer the same object with its keys in another order agree. Source: document 000, consensus mechanisms.
 */

import { ConsensusError } from '../../errors.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { own } from '../../own.ts'

export interface Ballot<T = unknown> {
  agent: string
  value: T
}

/**
 * Result of a vote. `scores` has one entry for each value: a string is its own key, any other value is written as JSON
 * with sorted keys.
 */
export interface Verdict<T = unknown> {
  winner: T
  scores: Record<string, number>
  tied: boolean
}

/** Tolerance for equal scores: the difference between 0.1 + 0.2 and 0.3 must not decide a vote. */
const TOLERANCE = 1e-9

/**
 * Returns the value with the highest score. On a tie the first value wins, and `tied` is true.
 *
 * @param weights the voters' weights by name: absent or undefined counts 1. A weight that is null or not finite turns
 * the whole vote into a majority vote, in which every ballot counts 1.
 * @throws {ConsensusError} when there is no ballot, or a value is not JSON.
 *
 * @example
 * vote([{ agent: 'x', value: 'go' }, { agent: 'y', value: 'wait' }], { x: 2 })
 * // winner 'go', scores { go: 2, wait: 1 }
 */
export function vote<T>(ballots: readonly Ballot<T>[], weights: Record<string, number | null | undefined>): Verdict<T> {
  const byWeight = ballots.every(({ agent }) => Number.isFinite(weightOf(agent, weights)))
  const tallies = new Map<string, { value: T; score: number }>()
  for (const [at, { agent, value }] of ballots.entries()) {
    const issue = jsonIssue(value, `ballots[${at}].value`)
    if (issue)
      throw new ConsensusError(`${issue.path} is ${issue.got}, and votes are counted over JSON values alone.`, {
        agent,
        path: issue.path,
      })
    const key = canonical(value)
    const tally = tallies.get(key) ?? { value, score: 0 }
    tally.score += byWeight ? (weightOf(agent, weights) ?? 1) : 1
    tallies.set(key, tally)
  }

  const all = [...tallies.values()]
  const top = all.reduce((highest, { score }) => Math.max(highest, score), Number.NEGATIVE_INFINITY)
  const leaders = all.filter(({ score }) => isLevel(score, top))
  const [first] = leaders
  if (!first)
    throw new ConsensusError('Nobody voted: there is no ballot to count. Give vote() at least one.', { ballots: 0 })

  // A string is its own label, unless its text is that of another value: then '1' next to 1 is quoted.
  const label = (key: string, value: T) => (typeof value === 'string' && !tallies.has(value) ? value : key)
  const scores = Object.fromEntries([...tallies].map(([key, { value, score }]) => [label(key, value), score]))
  return { winner: first.value, scores, tied: leaders.length > 1 }
}

/**
 * Returns one text for each JSON value, independent of the order of its keys. Values are equal if their texts are
 * equal.
 */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? String(value)
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  fields.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(',')}}`
}

function weightOf(agent: string, weights: Record<string, number | null | undefined>): number | null {
  const weight = own(weights, agent)
  return weight === undefined ? 1 : weight
}

function isLevel(score: number, top: number): boolean {
  return score === top || Math.abs(score - top) <= TOLERANCE * Math.max(Math.abs(score), Math.abs(top))
}
