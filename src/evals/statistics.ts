/**
 * Statistics of scores: intervals of means, and the comparison of two suites over the same cases. All draws are seeded,
 * so the same scores give the same report.
 */
import { seededRandom } from '../shared/random.ts'

/** Mean of a score, with the interval in which it lies with 95 %. `n`: cases that have the score. */
export interface Interval {
  readonly mean: number
  readonly low: number
  readonly high: number
  readonly n: number
  readonly method: 'bootstrap' | 'wilson'
}

/** How much better a score is than before, over the cases that both have. */
export interface Comparison {
  readonly difference: number
  readonly low: number
  readonly high: number
  /** Chance of a difference as large as this if there is none, by a sign-flip test, and by Holm over all scorers. */
  readonly p: number
  /**
   * Smallest difference that would have been found in 80 % of such comparisons; null: none, or there are too few cases
   * that differ to say.
   */
  readonly smallest: number | null
  readonly n: number
  /** Number of cases whose scores differ. */
  readonly differing: number
}

const DRAWS = 10_000
const SEED = [0x2545f491, 0x9e3779b9, 3, 4]
/** Below it, and near 0 and 1, a bootstrap interval is too narrow. */
const FEW_CASES = 30
/** Up to so many cases that differ, all flips of signs are counted. */
const MOST_EXACT = 16
/** No flip of fewer differences is rarer than 5 %. */
const FEWEST_FOUND = 6
/** Quantiles of the normal distribution for 97.5 % and for 80 %. */
const Z_95 = 1.959964
const Z_80 = 0.841621

const sumOf = (values: ArrayLike<number>): number => {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i]!
  return sum
}

export const meanOf = (values: ArrayLike<number>): number => sumOf(values) / values.length

/** Returns the interval of a mean over cases. `values`: one number from 0 to 1 for each case, at least one. */
export function intervalOf(values: readonly number[]): Interval {
  const mean = meanOf(values)
  const n = values.length
  if (n < FEW_CASES || values.every((value) => value === values[0])) return { ...wilson(mean, n), method: 'wilson' }
  return { mean, ...bootstrap(values), n, method: 'bootstrap' }
}

/** Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference" (1927). */
function wilson(mean: number, n: number): Omit<Interval, 'method'> {
  const z2 = Z_95 ** 2 / n
  const middle = (mean + z2 / 2) / (1 + z2)
  const half = (Z_95 / (1 + z2)) * Math.sqrt((mean * (1 - mean)) / n + z2 / (4 * n))
  return { mean, low: Math.max(0, middle - half), high: Math.min(1, middle + half), n }
}

function bootstrap(values: readonly number[]): { low: number; high: number } {
  const random = seededRandom(SEED)
  const means = new Float64Array(DRAWS)
  for (let draw = 0; draw < DRAWS; draw++) {
    let sum = 0
    for (let i = 0; i < values.length; i++) sum += values[Math.floor(random() * values.length)]!
    means[draw] = sum / values.length
  }
  means.sort()
  return { low: means[Math.floor(DRAWS * 0.025)]!, high: means[Math.ceil(DRAWS * 0.975) - 1]! }
}

/**
 * Compares a score with an earlier one, case by case. The lists have one number for each case, in the same order.
 * `p` counts for one scorer alone: see `holm`.
 */
export function comparisonOf(before: readonly number[], now: readonly number[]): Comparison {
  const differences = now.map((value, at) => value - before[at]!)
  const n = differences.length
  const difference = meanOf(differences)
  const variance = sumOf(differences.map((each) => (each - difference) ** 2)) / Math.max(1, n - 1)
  const differing = differences.filter((each) => each !== 0)
  const error = Math.sqrt(variance / n)
  const isSeen = differing.length >= FEWEST_FOUND && error > 1e-9 // differences that are all the same say nothing
  return {
    difference,
    ...bootstrap(differences),
    p: signFlip(differing),
    smallest: isSeen ? Math.min(1, (Z_95 + Z_80) * error) : null,
    n,
    differing: differing.length,
  }
}

/**
 * Returns how many cases have to differ before a comparison can find anything at `alpha`; undefined: no number does.
 * `chances`: those of all comparisons, before `holm`; `at`: the comparison among them.
 */
export function fewestFound(chances: readonly number[], at: number, alpha: number): number | undefined {
  for (let n = 0; n <= MOST_EXACT + 1; n++) {
    const least = n > MOST_EXACT ? 1 / (DRAWS + 1) : Math.min(1, 2 ** (1 - n)) // all differ in one direction
    if (holm(chances.with(at, least))[at]! < alpha) return n
  }
  return undefined
}

/** Returns how often random signs give a sum as large as that of the differences. */
function signFlip(differences: readonly number[]): number {
  const n = differences.length
  const seen = Math.abs(sumOf(differences)) - 1e-12 // sums of the same numbers in another order
  if (n <= MOST_EXACT) {
    let count = 0
    for (let signs = 0; signs < 2 ** n; signs++) if (Math.abs(flipped(differences, () => signs)) >= seen) count += 1
    return count / 2 ** n
  }
  const random = seededRandom(SEED)
  let count = 0
  for (let draw = 0; draw < DRAWS; draw++)
    if (Math.abs(flipped(differences, () => Math.floor(random() * 2 ** 32))) >= seen) count += 1
  return (count + 1) / (DRAWS + 1)
}

const BITS = 32

/** `signs`: gives 32 signs. */
function flipped(values: readonly number[], signs: () => number): number {
  let sum = 0
  let left = 0
  for (let i = 0; i < values.length; i++) {
    if (i % BITS === 0) left = signs()
    sum += left & 1 ? -values[i]! : values[i]!
    left >>>= 1
  }
  return sum
}

/**
 * Corrects chances for the number of comparisons, in their order.
 * Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979).
 */
export function holm(chances: readonly number[]): number[] {
  const ranked = chances.map((p, at) => ({ p, at })).sort((a, b) => a.p - b.p)
  const corrected: number[] = []
  let least = 0
  for (const [rank, { p, at }] of ranked.entries()) {
    least = Math.min(1, Math.max(least, p * (chances.length - rank)))
    corrected[at] = least
  }
  return corrected
}

/** Agreement of a judge with people. `kappa`: 1 where they always agree, 0 where chance alone would do as well. */
export interface Agreement {
  /** Null: there are no labels. */
  readonly kappa: number | null
  readonly low: number | null
  readonly high: number | null
  readonly labelled: number
}

/** Returns the agreement over pairs of grades, each the place of a word in a scale of so many words. */
export function agreementOf(pairs: readonly (readonly [number, number])[], words: number): Agreement {
  const labelled = pairs.length
  if (labelled === 0) return { kappa: null, low: null, high: null, labelled }
  const random = seededRandom(SEED)
  const drawn = () => pairs[Math.floor(random() * labelled)]!
  const kappas = new Float64Array(DRAWS / 5)
  for (let draw = 0; draw < kappas.length; draw++)
    kappas[draw] = kappaOf(Array.from({ length: labelled }, drawn), words)
  kappas.sort()
  const [low, high] = [kappas[Math.floor(kappas.length * 0.025)]!, kappas[Math.ceil(kappas.length * 0.975) - 1]!]
  return { kappa: kappaOf(pairs, words), low, high, labelled }
}

/**
 * Cohen's kappa, weighted by the distance of two words: a grade that is two words off counts twice as wrong. 0 where
 * only one word was given.
 * Source: Cohen, "Weighted kappa: Nominal scale agreement with provision for scaled disagreement" (1968).
 */
function kappaOf(pairs: readonly (readonly [number, number])[], words: number): number {
  const [ofPeople, ofJudge] = [new Array<number>(words).fill(0), new Array<number>(words).fill(0)]
  let seen = 0
  for (const [label, judged] of pairs) {
    ofPeople[label]! += 1
    ofJudge[judged]! += 1
    seen += Math.abs(label - judged)
  }
  let byChance = 0
  for (let label = 0; label < words; label++)
    for (let judged = 0; judged < words; judged++)
      byChance += (Math.abs(label - judged) * ofPeople[label]! * ofJudge[judged]!) / pairs.length
  return byChance === 0 ? 0 : 1 - seen / byChance
}
