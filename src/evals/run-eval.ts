/** Plays a suite: gates, scores with their intervals, and the comparison with an earlier report. */

import { join } from 'node:path'
import type { Fault } from '../rehearsal.ts'
import { amountOf, Prices } from '../runtime/settings/money.ts'
import { isObject, refused, refusedAs } from '../shared/checks.ts'
import { DramatisError, describe } from '../shared/errors.ts'
import { playCase } from './case-run.ts'
import { changesSince, comparedWith, meansOf } from './comparison.ts'
import { succeeded } from './gates.ts'
import { eachOf, Judge, type JudgeLabel, type JudgeTrust, judgesOf } from './judge.ts'
import { type Player, type SeedsReport, seedsReport, tapesOf, turnText } from './seeds.ts'
import { type Comparison, type Interval, intervalOf } from './statistics.ts'
import {
  type CaseResult,
  type EvalRun,
  type EvalSuite,
  type Gate,
  type ReadyCase,
  type ReadySuite,
  readSuite,
  type Score,
} from './suite.ts'
import type { ScorerTape } from './suite-models.ts'

/** Outcome of a suite: plain JSON. */
export interface EvalReport {
  readonly name: string
  /** 'failed': by a gate, or a score that is too low, or worse than before. 'broken': the suite could not be played. */
  readonly verdict: 'passed' | 'failed' | 'broken'
  /** Why it is not passed, in sentences. */
  readonly reasons: readonly string[]
  /** Sentences about limits of the comparison. They do not change the verdict. */
  readonly notes: readonly string[]
  readonly scores: Readonly<Record<string, Interval>>
  /** `first`: what was wrong where it did not hold first. */
  readonly gates: Readonly<
    Record<string, { readonly held: number; readonly of: number; readonly first: string | null }>
  >
  /** Agreement of the judges with people. A judge that was not asked, because a gate does not hold, is not in it. */
  readonly judges: Readonly<Record<string, JudgeTrust>>
  readonly compared: Readonly<Record<string, Comparison>> | null
  readonly tokens: number
  readonly money: number | null
  readonly results: readonly CaseResult[]
  /** Findings of many schedules (`seeds`). */
  readonly seeds?: SeedsReport
}

export interface EvalOptions {
  /** Earlier report of the same cases, or a suite to play first. */
  against?: EvalReport | EvalSuite
  /** A score may be worse by so much. Default: 0. */
  margin?: number
  /** A score is worse where chance would show such a difference less often. Default: 0.05. */
  alpha?: number
  /** Only these cases; only that repeat of them. */
  only?: { tags?: readonly string[]; cases?: readonly string[]; repeat?: number }
  repeats?: number
  /** Folder for tapes: what models and tools answer is kept there, in a file for each play of a case. */
  record?: string
  /** Folder of such tapes: they answer in place of all models and tools of the team, in virtual time. */
  playback?: string
  /**
   * With `playback`: number of schedules through which the tape of each case is played, or their seeds. Asks that a
   * tape does not have get its nearest answer; where they are more than 5 %, the suite is broken.
   */
  seeds?: number | readonly number[]
  /** With `seeds`: what may go wrong, as in a rehearsal. Default: nothing. */
  faults?: readonly Exclude<Fault, 'late'>[]
  /** Folder of the file of cases. Default: that of the file that calls `defineEval`. */
  folder?: string
  signal?: AbortSignal
}

/**
 * Plays each case of a suite and resolves to the report; rejects with `ConfigurationError` for a suite that no team can
 * be measured by.
 */
export async function runEval(suite: EvalSuite, options: EvalOptions = {}): Promise<EvalReport> {
  const { against, ...own } = options
  const { margin = 0, alpha = 0.05, signal } = own
  const whole = readSuite(suite, own.folder, scorerTape(Object(suite), own))
  const ready = chosen(whole, own)
  if (against && !isReport(against) && (own.record ?? own.playback) !== undefined)
    throw refusedAs('against', 'a suite', 'a report (--json)', 'A tape is of one suite.')
  const before = against && (isReport(against) ? against : await runEval(against, own))
  const played = new Played(ready, await playerOf(own, ready))
  await played.all(signal)
  const known = new Set(whole.cases.map(({ id }) => id))
  return played.report(before, { margin, alpha, known })
}

/** Returns the tape of the answers that scorers get. */
function scorerTape({ name = 'suite' }: EvalSuite, { record, playback, seeds }: EvalOptions): ScorerTape | undefined {
  const folder = record ?? playback
  if (folder === undefined) return undefined
  const path = join(tapesOf(folder, name), 'scorers.jsonl')
  return { path, how: record === undefined ? 'playback' : 'record', isLoose: seeds !== undefined }
}

/** Returns the player. `name`: that of the suite, which has a folder of its own among the tapes. */
export async function playerOf(
  { record, playback, seeds, faults, only: { repeat } = {} }: EvalOptions,
  { name, repeats }: { name?: string; repeats: number },
): Promise<Player> {
  const turns = repeat === undefined ? Array.from({ length: repeats }, (_, at) => at + 1) : [repeat]
  if (record !== undefined && playback !== undefined)
    throw refused('playback', playback, 'a folder of tapes, without record', 'A play keeps its answers, or has them.')
  if (playback === undefined && (seeds ?? faults) !== undefined)
    throw refusedAs('seeds, faults', 'no tapes', 'the folder of tapes that are played (playback)')
  const given = record ?? playback
  if (given === undefined) return { turns, play: playCase }
  const { recordCase, TapePlayer } = await import('./tapes.ts') // late: most suites have none
  const folder = name === undefined ? given : tapesOf(given, name)
  if (playback === undefined) return { turns, play: (...play) => recordCase(folder, ...play) }
  return new TapePlayer(folder, { turns, seeds, faults })
}

export function isReport(value: unknown): value is EvalReport {
  return isObject(value) && 'verdict' in value && 'results' in value && Array.isArray(value.results)
}

function chosen(suite: ReadySuite, { only = {}, repeats = suite.repeats, playback }: EvalOptions): ReadySuite {
  const { tags, cases: ids } = only
  const unknown = ids?.find((id) => !suite.cases.some((each) => each.id === id))
  if (unknown !== undefined) throw refused('only.cases', unknown, 'ids of cases of the suite')
  const cases = suite.cases.filter(
    (each) => (!tags || each.tags.some((tag) => tags.includes(tag))) && (!ids || ids.includes(each.id)),
  )
  if (cases.length === 0) throw refused('only.tags', tags, 'tags of cases of the suite')
  // Plays in virtual time would share one thread.
  return { ...suite, cases, repeats, ...(playback !== undefined && { concurrency: 1 }) }
}

/** Share of asks that tapes may not have. */
const MOST_UNTAPED = 0.05

class Played {
  readonly #suite: ReadySuite
  readonly #labels: ReadonlyMap<Judge, readonly JudgeLabel[]>
  readonly #judges = new Map<string, JudgeTrust>()
  readonly #player: Player
  readonly #results: CaseResult[][]
  readonly #broken: string[] = []
  #tokens = 0
  #money: number | null = null

  constructor(suite: ReadySuite, player: Player) {
    this.#suite = suite
    this.#labels = judgesOf(suite)
    this.#player = player
    this.#results = suite.cases.map(() => [])
  }

  async all(signal = new AbortController().signal): Promise<void> {
    const { cases, concurrency } = this.#suite
    const plays = this.#player.turns.flatMap((turn) => cases.map((each, of) => ({ each, of, turn })))
    await eachOf(plays, concurrency, async ({ each, of, turn }) => {
      if (this.#broken.length > 0) return
      signal.throwIfAborted()
      await this.#one(each, of, turn, signal)
    })
    const { asks } = this.#player
    if (asks && asks.untaped > MOST_UNTAPED * asks.asked)
      this.#broken.push(
        `${asks.untaped} of ${asks.asked} asks are not on the tapes, which is more than ${MOST_UNTAPED * 100} %. First: ${asks.first}`,
      )
    const holds = this.#results.flat().every(({ gates }) => Object.values(gates).every((wrong) => wrong === null))
    for (const [judge, labels] of this.#labels)
      if (holds && this.#broken.length === 0) await this.#judge(judge, labels, signal)
  }

  /** Has a judge grade all runs. It is not paid before all gates hold, nor for a score that it may not decide. */
  async #judge(judge: Judge, labels: readonly JudgeLabel[], signal: AbortSignal): Promise<void> {
    const { concurrency, models, scorers } = this.#suite
    const { name } = judge
    const context = models.for(signal)
    const asks = async (what: string, ask: () => Promise<void>) => {
      if (this.#broken.length === 0) await ask().catch((error: unknown) => this.#breaks(what, error, signal))
      this.#checkBudget()
    }
    await asks(`Labels of "${name}"`, async () => {
      this.#judges.set(name, await judge.heldAgainst(labels, context, concurrency))
    })
    const { trusted = false, kappa } = this.#judges.get(name) ?? {}
    if (!trusted && scorers.some(({ scorer, atLeast }) => scorer === judge && atLeast !== undefined))
      this.#broken.push(
        `The judge "${name}" is untrusted, since its kappa is ${shown(kappa ?? 0)}: it cannot have atLeast.`,
      )
    const all = this.#results.flatMap((results) => results.map((result, at) => ({ results, result, at })))
    await eachOf(all, concurrency, async ({ results, result, at }) =>
      asks(`Case "${result.run.case.id}"`, async () => {
        const score = scoreIn(await judge.score(result.run, context), name)
        results[at] = { ...result, scores: Object.fromEntries([...Object.entries(result.scores), [name, score]]) }
      }),
    )
  }

  async #one(each: ReadyCase, of: number, turn: number, signal: AbortSignal): Promise<void> {
    const { gates: common, scorers, models } = this.#suite
    try {
      const run = await this.#player.play(this.#suite, each, turn, signal)
      const gates = await outcomesOf(run, [succeeded, ...common, ...(each.gates ?? [])])
      const scored: [name: string, { score: number | null; why?: string }][] = []
      for (const { scorer } of scorers)
        if (!(scorer instanceof Judge))
          scored.push([scorer.name, scoreIn(await scorer.score(run, models.for(signal)), scorer.name)])
      this.#results[of]!.push({ run, gates, scores: Object.fromEntries(scored) })
      this.#tokens += run.tokens
      if (run.money !== null) this.#money = (this.#money ?? 0) + run.money
    } catch (error) {
      const isGate = error instanceof GateError
      const what = `Case "${each.id}"${isGate ? `, gate "${error.gate}"` : ''}`
      this.#breaks(what, isGate ? error.cause : error, signal)
    }
    this.#checkBudget()
  }

  #breaks(what: string, error: unknown, signal: AbortSignal): void {
    signal.throwIfAborted()
    const text = error instanceof DramatisError ? error.message : describe(error)
    const why = this.#suite.models.redacted(text)
    if (!this.#broken.some((reason) => reason.endsWith(why))) this.#broken.push(`${what}: ${why}`) // cases at once may break alike
  }

  #checkBudget(): void {
    if (this.#broken.length > 0) return
    const { budget } = this.#suite
    const { tokens = Number.POSITIVE_INFINITY, money = Number.POSITIVE_INFINITY } = budget
    const spent = this.#spent(this.#player.isFree)
    if (spent.tokens > tokens) this.#broken.push(`The suite has used ${spent.tokens} tokens; its budget is ${tokens}.`)
    if ((spent.money ?? 0) > money) this.#broken.push(`The suite has cost ${spent.money}; its budget is ${money}.`)
  }

  /** Returns what the runs, and the models of the suite, have used. */
  #spent(withoutRuns = false): { tokens: number; money: number | null } {
    const { models, team } = this.#suite
    const used = [...models.used]
    const ofRuns = withoutRuns ? { tokens: 0, money: null } : { tokens: this.#tokens, money: this.#money }
    const tokens = used.reduce((sum, [, { totalTokens }]) => sum + totalTokens, ofRuns.tokens)
    const list = used.length > 0 ? team().prices : undefined
    if (!list) return { ...ofRuns, tokens }
    const prices = new Prices(list)
    const cost = used.reduce((sum, [model, usage]) => sum + prices.costOf(model, usage), 0n)
    return { tokens, money: (ofRuns.money ?? 0) + amountOf(cost) }
  }

  /** `known`: ids of all cases of the suite, of which some may have been chosen. */
  report(
    before: EvalReport | undefined,
    bounds: { margin: number; alpha: number; known: ReadonlySet<string> },
  ): EvalReport {
    const { name, scorers } = this.#suite
    const results = this.#results.flat().sort((a, b) => turnOf(a.run) - turnOf(b.run))
    const gates = gatesOf(results)
    const { asks } = this.#player
    const isRehearsed = asks !== undefined && this.#suite.cases.length === 1 // one case says nothing about the others
    const intervals = new Map<string, Interval>()
    const reasons = [...this.#broken]
    let isBroken = reasons.length > 0
    for (const [gate, { held, of, first }] of Object.entries(gates))
      if (first !== null) reasons.push(`Gate "${gate}" held in ${held} of ${of} runs. First: ${first}`)
    const untrusted = new Set(
      [...this.#labels.keys()].flatMap(({ name }) => (this.#judges.get(name)?.trusted ? [] : [name])),
    )
    if (reasons.length > 0 && this.#labels.size > 0 && this.#judges.size === 0 && this.#broken.length === 0)
      reasons.push('No judge was asked, because a gate does not hold.')
    for (const { scorer, atLeast } of scorers) {
      const means = [...meansOf(results, scorer.name).values()]
      if (means.length === 0) {
        if (atLeast === undefined || untrusted.has(scorer.name) || isRehearsed || results.length === 0) continue
        reasons.push(
          `No case has a score of "${scorer.name}", of which at least ${atLeast} is wanted. Give cases what it needs, such as \`expected\`.`,
        )
        isBroken = true
        continue
      }
      const interval = intervalOf(means)
      intervals.set(scorer.name, interval)
      if (atLeast !== undefined && interval.low < atLeast && !isRehearsed)
        reasons.push(
          `Score "${scorer.name}" is ${shown(interval.mean)}, and with 95 % not below ${shown(interval.low)}; at least ${atLeast} is wanted.`,
        )
    }
    const names = scorers.map(({ scorer }) => scorer.name)
    const trusted = names.filter((name) => !untrusted.has(name))
    const { compared: decides = {}, notes = [] } = before
      ? comparedWith(before.results, results, trusted, bounds.alpha)
      : {}
    const compared = before && {
      ...decides,
      ...comparedWith(before.results, results, [...untrusted], bounds.alpha).compared,
    }
    if (before && compared && !isBroken) {
      const scorers = new Set([...Object.keys(before.scores), ...intervals.keys()])
      const alone = [...scorers].filter((scorer) => !Object.hasOwn(compared, scorer))
      notes.push(...changesSince(before.results, results, bounds.known, alone))
    }
    if (compared && Object.keys(compared).length === 0 && scorers.length > 0)
      reasons.push('The earlier report has no case and score of this suite.')
    for (const [scorer, { difference, p }] of Object.entries(compared ?? {}))
      if (difference < -bounds.margin && p < bounds.alpha && !untrusted.has(scorer))
        reasons.push(`Score "${scorer}" is worse by ${shown(-difference)} (p ${shown(p)}).`)
    const verdict = isBroken ? 'broken' : reasons.length > 0 ? 'failed' : 'passed'
    const scores = Object.fromEntries(intervals)
    const judges = Object.fromEntries(this.#judges)
    const seeds = asks && { seeds: seedsReport(results, names, asks) }
    const spent = this.#spent()
    return {
      name,
      verdict,
      reasons,
      notes,
      scores,
      gates,
      judges,
      compared: compared ?? null,
      ...spent,
      results,
      ...seeds,
    }
  }
}

const turnOf = ({ seed, repeat }: EvalRun): number => seed ?? repeat

const shown = (value: number): string => value.toFixed(3)

/** Says which gate has thrown. */
class GateError extends Error {
  readonly gate: string

  constructor(gate: string, cause: unknown) {
    super(`gate "${gate}": ${describe(cause)}`, { cause })
    this.gate = gate
  }
}

/** Returns what is wrong, by the name of the gate; null: it holds. */
export async function outcomesOf(run: EvalRun, gates: readonly Gate[]): Promise<Record<string, string | null>> {
  const outcomes = new Map<string, string | null>()
  for (const gate of gates)
    try {
      outcomes.set(gate.name, (await gate.check(run)) ?? outcomes.get(gate.name) ?? null)
    } catch (error) {
      throw new GateError(gate.name, error)
    }
  return Object.fromEntries(outcomes)
}

function scoreIn(given: Score, name: string): { score: number | null; why?: string } {
  const { score, why } = isObject(given) ? given : { score: given, why: undefined }
  const value = typeof score === 'boolean' ? Number(score) : score
  if (value !== null && !(typeof value === 'number' && value >= 0 && value <= 1))
    throw refused(`score of "${name}"`, value, 'a number from 0 to 1, true, false or null')
  return { score: value, ...(why !== undefined && { why }) }
}

function gatesOf(results: readonly CaseResult[]): EvalReport['gates'] {
  const gates = new Map<string, { held: number; of: number; first: string | null }>()
  for (const { run, gates: outcomes } of results)
    for (const [name, wrong] of Object.entries(outcomes)) {
      const gate = gates.get(name) ?? { held: 0, of: 0, first: null }
      gate.of += 1
      if (wrong === null) gate.held += 1
      else gate.first ??= `case "${run.case.id}", ${turnText(run)}: ${wrong}`
      gates.set(name, gate)
    }
  return Object.fromEntries(gates)
}
