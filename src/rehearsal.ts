/**
 * Rehearsals: a user's own team, played through many seeded schedules with faults. Joins the runtime's part of it with the
 * table of protocols, for `dramatis/testing` and the command line.
 */
import './mailbox/parse-message.ts' // loaded later by a team of its own, which virtual time could not wait for
import type { Logger } from './actors/logger.ts'
import { ConfigurationError, type DramatisError, describe, shown } from './errors.ts'
import * as dramatis from './index.ts'
import * as protocols from './protocols/index.ts'
import { checkModules } from './runtime/testing/modules.ts'
import { type Kind, type SeedOutcome, tally } from './runtime/testing/rehearsal/outcome.ts'
import { checkQuery, faultsOf, type RehearsalPlan, seedsOf } from './runtime/testing/rehearsal/plan.ts'
import { type Part, playSeed } from './runtime/testing/rehearsal/play.ts'
import { Recording, recordedFetch, refusingFetch } from './runtime/testing/rehearsal/recording.ts'
import { Scripts, type TeamFile } from './runtime/testing/rehearsal/script.ts'
import { Stage, type Theatre } from './runtime/testing/rehearsal/stage.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from './team.ts'

export type { Kind, SeedOutcome } from './runtime/testing/rehearsal/outcome.ts'
export { KINDS, shortest, tally } from './runtime/testing/rehearsal/outcome.ts'
export { type Fault, faultsOf, type RehearsalPlan, seedsOf } from './runtime/testing/rehearsal/plan.ts'
export type { Part } from './runtime/testing/rehearsal/play.ts'
export type { Asked, Recorded } from './runtime/testing/rehearsal/recording.ts'
export { Recording, recordedFetch } from './runtime/testing/rehearsal/recording.ts'

/** What came of a rehearsal. */
export interface Rehearsal {
  /** How many runs were played. */
  runs: number
  /** How many ended in which way. */
  outcomes: Record<Kind, number>
  /** Each run that is not done, and how to play it again. */
  failures: { seed: number; error: DramatisError; replay: string }[]
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** A team and what it is played with. Each play is a new team. */
export class Rehearser {
  readonly #theatre: Theatre
  #stage: Stage | undefined

  constructor(given: Partial<Omit<Theatre, 'scripts' | 'modules'>> = {}) {
    const modules = { dramatis, 'dramatis/protocols': protocols }
    this.#theatre = { fetch: refusingFetch, logger: SILENT, ...given, scripts: new Scripts(), modules }
  }

  /** Bundles a team file, which takes its time, before it is played. */
  async prepare(file: TeamFile): Promise<void> {
    await this.#theatre.scripts.teamFile(file)
  }

  /** Something was thrown that nobody caught: it ends the run under way. */
  uncaught(error: unknown): void {
    if (this.#stage) this.#stage.broken ??= error instanceof Error ? error : new Error(describe(error))
  }

  /** With the options that `options()` gives for this run. */
  play(seed: number, options: () => MultiAgentPatternOptions, part: Part): Promise<SeedOutcome> {
    const given = options()
    checkModules(given.agents, part.modules)
    const { logger = this.#theatre.logger } = given
    return this.#play(seed, new Stage(seed, { ...this.#theatre, logger }), { ...given, logger }, part)
  }

  /** A team file, whose default export `check` takes for options or refuses. */
  async playFile(
    seed: number,
    file: TeamFile,
    check: (exported: unknown) => MultiAgentPatternOptions,
    part: Part,
  ): Promise<SeedOutcome> {
    const stage = new Stage(seed, this.#theatre)
    const options = check(await stage.teamFile(file))
    return this.#play(seed, stage, { ...options, logger: this.#theatre.logger }, part)
  }

  #play(seed: number, stage: Stage, options: MultiAgentPatternOptions, part: Part): Promise<SeedOutcome> {
    const { clock } = stage
    this.#stage = stage
    return playSeed(seed, stage, (kit) => new MultiAgentPattern({ ...options, clock }, kit), part)
  }
}

/**
 * Plays a team through many schedules, in virtual time: the same supervisor, the seed decides what comes first of what
 * happens at one time, and what goes wrong. The same seed gives the same run. Everything runs in this thread, so that an
 * endless loop in an agent is one of the caller's; `dramatis rehearse` plays in threads of its own, which can be ended.
 *
 * Agents with a `module` run in a sandbox, in which time, chance and timers are virtual, and real input and output is
 * refused. Functions that are given here (a protocol's `run`, `modules`) keep the caller's own `Date` and timers: use
 * `context.now()`, `context.random()` and `context.sleep()` in them. If `options` is a function it is called for each run.
 *
 * Rejects with `ConfigurationError` for a wrong plan, and for a team that cannot work at all. Source: Zhou et al.,
 * FoundationDB (SIGMOD 2021), deterministic simulation.
 *
 * @example
 * const { failures } = await rehearse(options, { query: 'go', seeds: 1_000, faults: ['crash'] })
 * assert.deepEqual(failures, [])
 */
export async function rehearse(
  options: MultiAgentPatternOptions | (() => MultiAgentPatternOptions),
  plan: RehearsalPlan,
): Promise<Rehearsal> {
  const { query, check, modules, record } = checked(plan)
  const seeds = seedsOf(plan.seeds)
  const faults = faultsOf(plan.faults)
  const recording = record === undefined ? undefined : new Recording(record)
  const rehearser = new Rehearser(recording && { fetch: recordedFetch((asked) => recording.answer(asked)) })
  const make = typeof options === 'function' ? options : () => options
  const part: Part = { query, faults, check, modules, traced: false }
  const outcomes: SeedOutcome[] = []
  for (const seed of seeds) outcomes.push(await rehearser.play(seed, make, part))
  const failures = outcomes.flatMap(({ seed, error }) =>
    error ? [{ seed, error, replay: replayOf(query, seed, faults, record) }] : [],
  )
  return { runs: outcomes.length, outcomes: tally(outcomes), failures }
}

function checked(plan: RehearsalPlan): RehearsalPlan {
  if (typeof plan !== 'object' || plan === null)
    throw new ConfigurationError(`plan: ${shown(plan)}; accepted: { query, seeds }.`, { path: 'plan', got: plan })
  const known = ['query', 'seeds', 'faults', 'check', 'modules', 'record']
  const unknown = Object.keys(plan).find((key) => !known.includes(key))
  if (unknown !== undefined)
    throw new ConfigurationError(`plan: there is no "${unknown}"; there are ${known.join(', ')}.`, { path: unknown })
  checkQuery(plan.query)
  return plan
}

function replayOf(query: string, seed: number, faults: readonly string[], record: string | undefined): string {
  const plan = { query, seeds: [seed], ...(faults.length > 0 && { faults }), ...(record !== undefined && { record }) }
  return `await rehearse(options, ${JSON.stringify(plan)})`
}
