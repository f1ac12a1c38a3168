/** Plays of cases with tapes, and the findings of many schedules. */
import { join } from 'node:path'
import { own } from '../shared/values.ts'
import type { CaseResult, EvalRun, ReadyCase, ReadySuite } from './suite.ts'

/** Asks of plays for answers of their tapes. `first`: the first ask that a tape did not have, in words. */
export interface TapeAsks {
  readonly asked: number
  readonly untaped: number
  readonly first: string | null
}

/** Plays cases. */
export interface Player {
  /** Repeats of each case, or seeds. */
  readonly turns: readonly number[]
  /** Asks of plays through many schedules. */
  readonly asks?: TapeAsks | undefined
  /** True: nobody is asked, so the budget has nothing to count but judges. */
  readonly isFree?: boolean
  play(suite: ReadySuite, each: ReadyCase, turn: number, signal?: AbortSignal): Promise<EvalRun>
}

/** Scores of all plays. */
export interface Spread {
  readonly least: number
  /** A tenth of the plays is not above it. */
  readonly tenth: number
  readonly median: number
  readonly most: number
}

/** Findings of many schedules: plain JSON. */
export interface SeedsReport {
  readonly plays: number
  /** Number of asks for models and tools, and of those that no tape had, so that the nearest answer was given. */
  readonly asked: number
  readonly untaped: number
  readonly scores: Readonly<Record<string, Spread>>
  /** The play in which most gates do not hold, or the scores are lowest; null if nothing is wrong in any. */
  readonly worst: { readonly case: string; readonly repeat: number; readonly seed: number } | null
}

export const turnText = ({ seed, repeat }: EvalRun): string =>
  seed === undefined ? `repeat ${repeat}` : `seed ${seed}`

export function seedsReport(
  results: readonly CaseResult[],
  scorers: readonly string[],
  { asked, untaped }: TapeAsks,
): SeedsReport {
  const spreads = scorers.flatMap((name) => {
    const all = results.flatMap(({ scores }) => own<{ score: number | null }>(scores, name)?.score ?? [])
    return all.length === 0 ? [] : [[name, spreadOf(all)] as const]
  })
  return { plays: results.length, asked, untaped, scores: Object.fromEntries(spreads), worst: worstOf(results) }
}

function spreadOf(scores: readonly number[]): Spread {
  const sorted = [...scores].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? sorted[0]!
  return { least: sorted[0]!, tenth: at(0.1), median: at(0.5), most: sorted.at(-1)! }
}

/** Among equals the one with the fewest faults. */
function worstOf(results: readonly CaseResult[]): SeedsReport['worst'] {
  const rated = results.map(({ run, gates, scores }) => {
    const wrong = Object.values(gates).filter((text) => text !== null).length
    const lost = Object.values(scores).reduce((sum, { score }) => sum + 1 - (score ?? 1), 0)
    return { run, rank: [-wrong, -lost, run.faults?.length ?? 0, run.seed ?? 0] as const, isFine: wrong + lost === 0 }
  })
  const [worst] = rated.sort((a, b) => {
    const at = a.rank.findIndex((value, i) => value !== b.rank[i])
    return at < 0 ? 0 : a.rank[at]! - b.rank[at]!
  })
  if (!worst || worst.isFine) return null
  const { case: each, repeat, seed = 0 } = worst.run
  return { case: each.id, repeat, seed }
}

/** A name may have any characters. */
export const fileName = (name: string): string => encodeURIComponent(name).replaceAll('.', '%2E').replaceAll('*', '%2A')

/** Returns the folder of the tapes of a suite. */
export const tapesOf = (folder: string, suite: string): string => join(folder, fileName(suite))
