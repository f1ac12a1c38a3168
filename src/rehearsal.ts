/**
 * Rehearsals: a user's own team, played through many seeded schedules with faults. Joins the runtime's part of it with
 * the table of protocols, for `dramatis/testing` and the command line.
 */
// Loaded later by a team of its own, which virtual time could not wait for.
import './mailbox/parse-message.ts'
import './protocols/moves/manager.ts'
import './protocols/moves/schemas.ts'
import './runtime/providers/json-sample.ts'
import type { Logger } from './actors/definition/logger.ts'
import { ConfigurationError, type DramatisError, describe, shown } from './errors.ts'
import * as dramatis from './index.ts'
import * as protocols from './protocols.ts'
import { openTurns } from './runtime/detectors/deadlock/stuck.ts'
import { standingIn } from './runtime/providers/models.ts'
import { checkModules } from './runtime/testing/modules.ts'
import { type OutcomeKind, type SeedOutcome, tally } from './runtime/testing/rehearsal/outcome.ts'
import { checkFlag, checkQuery, faultsOf, type RehearsalPlan, seedsOf } from './runtime/testing/rehearsal/plan.ts'
import { type Part, playSeed } from './runtime/testing/rehearsal/play.ts'
import { Recording, recordedFetch, refusingFetch } from './runtime/testing/rehearsal/recording.ts'
import { Scripts, type TeamFile } from './runtime/testing/rehearsal/script.ts'
import { Stage, type Theatre } from './runtime/testing/rehearsal/stage.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from './team.ts'

export type { OutcomeKind, SeedOutcome } from './runtime/testing/rehearsal/outcome.ts'
export { KINDS, shortest, tally } from './runtime/testing/rehearsal/outcome.ts'
export { type Fault, faultsOf, type RehearsalPlan, seedsOf } from './runtime/testing/rehearsal/plan.ts'
export type { Part } from './runtime/testing/rehearsal/play.ts'
export type { Asked, Recorded } from './runtime/testing/rehearsal/recording.ts'
export { Recording, recordedFetch } from './runtime/testing/rehearsal/recording.ts'
export type { StepAnswers } from './runtime/testing/rehearsal/steps.ts'

/** Result of a rehearsal. */
export interface Rehearsal {
  /** How many runs were played. */
  runs: number
  /** How many ended in which way. */
  outcomes: Record<OutcomeKind, number>
  /** Each run that is not done, and how to play it again. */
  failures: { seed: number; error: DramatisError; replay: string }[]
  /** Names of models in whose place the rehearsal model answered. */
  standsInFor: string[]
  /** Names of tools that did not run, but were answered in their place. */
  simulatedTools: string[]
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} }

class RehearsedTeam extends MultiAgentPattern {
  openTurns(): string[] {
    return openTurns(this.supervisor)
  }
}

/** A team and what it is played with. Each play is a new team. */
export class Rehearser {
  readonly #theatre: Theatre
  #stage: Stage | undefined

  constructor({ modules, ...given }: Partial<Omit<Theatre, 'scripts'>> = {}) {
    const all = { dramatis, 'dramatis/protocols': protocols, ...modules }
    this.#theatre = { fetch: refusingFetch, logger: SILENT, ...given, scripts: new Scripts(), modules: all }
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
  async play(seed: number, options: () => MultiAgentPatternOptions, part: Part): Promise<SeedOutcome> {
    const given = options()
    checkModules(given.agents, part.modules)
    const { logger = this.#theatre.logger } = given
    return this.#play(seed, new Stage(seed, { ...this.#theatre, logger }), given, part)
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
    return this.#play(seed, stage, options, part)
  }

  #play(seed: number, stage: Stage, given: MultiAgentPatternOptions, part: Part): Promise<SeedOutcome> {
    if (given.clock !== undefined)
      throw new ConfigurationError(
        'clock: a rehearsal has a clock of its own, whose time and order follow from the seed. Leave it out.',
        { path: 'clock' },
      )
    const { telemetry: _ofLife, ...theirs } = given // what is played is no trace of anything
    const { logger = this.#theatre.logger, supervision } = theirs
    const registry = theirs.registry?.rehearsed() // what its agents define is gone with the run
    const options = { ...theirs, registry, clock: stage.clock, logger, supervision: watched(supervision) }
    this.#stage = stage
    if (!this.#theatre.realModels) stage.standsInFor = standingIn(theirs.models, process.env)
    return playSeed(seed, stage, (kit) => new RehearsedTeam(options, kit), part)
  }
}

/** A rehearsal looks for livelocks unless the team says otherwise; what is no object is for others to refuse. */
function watched(supervision: MultiAgentPatternOptions['supervision'] = {}): MultiAgentPatternOptions['supervision'] {
  if (typeof supervision !== 'object' || supervision === null || supervision.livelock !== undefined) return supervision
  return { ...supervision, livelock: {} }
}

/**
 * Plays a team through many schedules, in virtual time: the same supervisor, the seed decides what comes first of what
 * happens at one time, and what goes wrong. The same seed gives the same run.
 *
 * Livelock detection is on, as with `supervision: { livelock: {} }`, unless the options say `livelock: false` or have
 * settings of their own. A run counts as a livelock if the detector ended it, or if its time ran out after a sign of
 * one; as a stall if a detector found one, or if a deadline ended it when nothing else was left to come.
 *
 * Agents with a `module` run in a sandbox, in which time, chance and timers are virtual, and real input and output is
 * refused where it is called, or recorded (`record`). Functions that are given here (a protocol's `run`, `modules`,
 * tools inline) keep the caller's own `Date`, timers and `fetch`: use `context.now()`, `context.random()` and
 * `context.sleep()` in them. The rehearsal model answers in place of models that ask somebody (`realModels`), and tools
 * that change something or work outside are answered in their place (`realTools`). If `options` is a function it is
 * called for each run.
 *
 * Everything runs in the caller's thread, and nothing in a thread can end what blocks it: where the team's code loops
 * for ever without a real pause (`for (;;) {}`, `for (;;) await null`, a regular expression that takes years) this
 * neither resolves nor rejects, and a test runner's own time limit may not fire either. `dramatis rehearse` plays in
 * threads of its own and ends that seed alone. Here too the following ends: a loop that schedules itself without time
 * passing (`for (;;) await context.sleep(0)`), after 100,000 steps, as a livelock; one that lets time pass, by the
 * timeouts of the team; a recursion without end, which throws.
 *
 * Rejects with `ConfigurationError` for a wrong plan, for a `clock` in the options (it is the rehearsal's own), and for
 * a team that cannot work at all. Source: Zhou et al., FoundationDB (SIGMOD 2021), deterministic simulation.
 *
 * @example
 * const { failures } = await rehearse(options, { query: 'go', seeds: 1_000, faults: ['crash'] })
 * assert.deepEqual(failures, [])
 */
export async function rehearse(
  options: MultiAgentPatternOptions | (() => MultiAgentPatternOptions),
  plan: RehearsalPlan,
): Promise<Rehearsal> {
  const { query, check, modules, record, realModels = false, realTools = false } = checked(plan)
  const seeds = seedsOf(plan.seeds)
  const faults = faultsOf(plan.faults)
  const recording = record === undefined ? undefined : new Recording(record)
  const rehearser = new Rehearser({
    realModels,
    realTools,
    ...(recording && { fetch: recordedFetch((asked) => recording.answer(asked)), steps: recording }),
  })
  const make = typeof options === 'function' ? options : () => options
  const part: Part = { query, faults, check, modules, traced: false }
  const outcomes: SeedOutcome[] = []
  for (const seed of seeds) outcomes.push(await rehearser.play(seed, make, part))
  const failures = outcomes.flatMap(({ seed, error }) =>
    error ? [{ seed, error, replay: replayOf(seed, { ...plan, faults }) }] : [],
  )
  const standsInFor = [...new Set(outcomes.flatMap((outcome) => outcome.standsInFor))]
  const simulatedTools = [...new Set(outcomes.flatMap((outcome) => outcome.simulatedTools))]
  return { runs: outcomes.length, outcomes: tally(outcomes), failures, standsInFor, simulatedTools }
}

function checked(plan: RehearsalPlan): RehearsalPlan {
  if (typeof plan !== 'object' || plan === null)
    throw new ConfigurationError(`plan: ${shown(plan)}; accepted: { query, seeds }.`, { path: 'plan', got: plan })
  const known = ['query', 'seeds', 'faults', 'check', 'modules', 'record', 'realModels', 'realTools']
  const unknown = Object.keys(plan).find((key) => !known.includes(key))
  if (unknown !== undefined)
    throw new ConfigurationError(`plan: there is no "${unknown}"; there are ${known.join(', ')}.`, { path: unknown })
  checkQuery(plan.query)
  checkFlag(plan.realModels, 'realModels')
  checkFlag(plan.realTools, 'realTools')
  return plan
}

function replayOf(
  seed: number,
  { query, faults = [], record, realModels = false, realTools = false }: RehearsalPlan,
): string {
  const plan = {
    query,
    seeds: [seed],
    ...(faults.length > 0 && { faults }),
    ...(record !== undefined && { record }),
    ...(realModels && { realModels }),
    ...(realTools && { realTools }),
  }
  return `await rehearse(options, ${JSON.stringify(plan)})`
}
