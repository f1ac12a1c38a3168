/**
 * Rehearsals: a user's own team, played through many seeded schedules with faults. Joins the runtime's part of it with
 * the table of protocols, for `dramatis/testing` and the command line.
 */
// Loaded later by a team of its own, which virtual time could not wait for.
import './mailbox/parse-message.ts'
import './protocols/manager.ts'
import './protocols/forms.ts'
import './runtime/providers/json-sample.ts'
import { resolve } from 'node:path'
import type { Content } from './actors/definition/content.ts'
import type { AgentDefinition } from './actors/definition/definition.ts'
import type { Logger } from './actors/definition/tool.ts'
import * as dramatis from './index.ts'
import { decodeMessage } from './mailbox/codec.ts'
import { idOf } from './mailbox/frame.ts'
import { ORCHESTRATOR, type TypedMessage } from './mailbox/message.ts'
import * as protocols from './protocols.ts'
import { openTurns } from './runtime/observers/stalls.ts'
import { standingIn } from './runtime/providers/models.ts'
import type { MultiAgentResult } from './runtime/runs/result.ts'
import type { Run, RunOptions } from './runtime/runs/run.ts'
import { checkFlag, checkQuery, faultsOf, type RehearsalPlan, seedsOf, wordsOf } from './runtime/testing/faults.ts'
import { type OldTurns, oldTurnsOf } from './runtime/testing/old-turns.ts'
import type { UnknownAsked } from './runtime/testing/old-world.ts'
import { type OutcomeKind, type Part, playSeed, type SeedOutcome, tally } from './runtime/testing/play.ts'
import { type OldRunPart, type PlayedOldRun, playOldRun } from './runtime/testing/play-old-run.ts'
import { Recording, recordedFetch, refusingFetch } from './runtime/testing/recording.ts'
import { Scripts, type TeamFile } from './runtime/testing/script.ts'
import { Stage, type Theatre } from './runtime/testing/stage.ts'
import { playTape, type TapePart, type TapePlay } from './runtime/testing/tape.ts'
import { checkModules } from './runtime/testing/test-agent.ts'
import { logFolder, recordedRun } from './runtime/views/recorded-runs.ts'
import { environment } from './shared/environment.ts'
import { ConfigurationError, type DramatisError, describe, shown } from './shared/errors.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from './team.ts'

export { type Fault, faultsOf, type RehearsalPlan, type RehearsedWords, seedsOf } from './runtime/testing/faults.ts'
export type { RunMismatch } from './runtime/testing/mismatches.ts'
export { oldTurnsOf } from './runtime/testing/old-turns.ts'
export type { UnknownAsked } from './runtime/testing/old-world.ts'
export type { OutcomeKind, Part, SeedOutcome } from './runtime/testing/play.ts'
export { KINDS, shortest, tally } from './runtime/testing/play.ts'
export type { PlayedOldRun } from './runtime/testing/play-old-run.ts'
export type { Asked, Recorded } from './runtime/testing/recording.ts'
export { Recording, recordedFetch } from './runtime/testing/recording.ts'
export type { StepAnswers } from './runtime/testing/script.ts'
export { entriesOf, type TapeEntry } from './runtime/testing/tape.ts'

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

  launchFor(name: string, query: Content, options: RunOptions<unknown>): Run<unknown> {
    if (name === ORCHESTRATOR) return this.launch(query, options)
    const agent = this.supervisor.directory.require(name, undefined)
    const run = this.runBook.launch(query, options, agent)
    run.state.held = true
    return run
  }

  messageOf(name: string, id: string): TypedMessage | undefined {
    const { directory, names } = this.supervisor
    for (const agent of directory.actors) {
      if (agent.name !== name) continue
      for (const { memory, at } of agent.mailbox.handed.all())
        if (idOf(memory, at) === id) return decodeMessage(memory, at, names)
    }
    return undefined
  }

  agentNames(): string[] {
    return this.supervisor.directory.agents().map(({ name }) => name)
  }

  redacted<T>(data: T): T {
    return this.supervisor.redactor.data(data)
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

  async playOld(options: () => MultiAgentPatternOptions, part: OldRunPart): Promise<PlayedOldRun> {
    const given = options()
    checkModules(given.agents, part.modules)
    const { logger = this.#theatre.logger } = given
    const stage = this.#oldStage(part.old, logger)
    return playOldRun(stage, (kit) => new RehearsedTeam(this.#oldOptions(stage, given), kit), part)
  }

  /** Plays an old run with the team of a file, whose default export `check` takes for options or refuses. */
  async playOldFile(
    file: TeamFile,
    check: (exported: unknown) => MultiAgentPatternOptions,
    part: OldRunPart,
  ): Promise<PlayedOldRun> {
    const stage = this.#oldStage(part.old, this.#theatre.logger)
    const options = this.#oldOptions(stage, check(await stage.teamFile(file)))
    return playOldRun(stage, (kit) => new RehearsedTeam(options, kit), part)
  }

  /** Plays what `work` does with a team whose models and tools answer from a tape, which begins at `startAt`. */
  async playTape<T>(
    seed: number,
    given: MultiAgentPatternOptions,
    { startAt, ...part }: TapePart & { startAt: number },
    work: (team: MultiAgentPattern, signal: AbortSignal) => Promise<T>,
  ): Promise<TapePlay<T>> {
    const stage = new Stage(seed, this.#theatre, startAt)
    const options = this.#optionsFor(stage, given)
    return playTape(seed, stage, (kit) => new RehearsedTeam(options, kit), part, work)
  }

  /** An old run begins at its own date: what an agent says can have it. */
  #oldStage({ startedAt }: OldTurns, logger: Logger): Stage {
    return new Stage(OLD_RUN_SEED, { ...this.#theatre, logger }, startedAt)
  }

  #oldOptions(stage: Stage, given: MultiAgentPatternOptions): MultiAgentPatternOptions {
    const stateManagement = { path: 'unused', resume: 'manual' } as const // the kit gives the log
    return { ...this.#optionsFor(stage, given), stateManagement }
  }

  #play(seed: number, stage: Stage, given: MultiAgentPatternOptions, part: Part): Promise<SeedOutcome> {
    const options = this.#optionsFor(stage, given)
    const supervision = watched(options.supervision)
    return playSeed(seed, stage, (kit) => new RehearsedTeam({ ...options, supervision }, kit), part)
  }

  #optionsFor(stage: Stage, given: MultiAgentPatternOptions): MultiAgentPatternOptions {
    if (given.clock !== undefined)
      throw new ConfigurationError(
        'clock: a rehearsal has a clock of its own, whose time and order follow from the seed. Leave it out.',
        { path: 'clock' },
      )
    const { telemetry: _ofLife, ...theirs } = given // what is played is no trace of anything
    const { logger = this.#theatre.logger } = theirs
    const registry = theirs.registry?.rehearsed() // what its agents define is gone with the run
    this.#stage = stage
    if (!this.#theatre.realModels) stage.standsInFor = standingIn(theirs.models, environment())
    return { ...theirs, registry, clock: stage.clock, logger }
  }
}

/** Decides the order of what happens at one time, in every play of an old run. */
const OLD_RUN_SEED = 1

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
  const { query, caller, tenant, check, modules, record, realModels = false, realTools = false } = checked(plan)
  const seeds = seedsOf(plan.seeds)
  const faults = faultsOf(plan.faults)
  const steer = wordsOf(plan.steer)
  const recording = record === undefined ? undefined : new Recording(record)
  const rehearser = new Rehearser({
    realModels,
    realTools,
    ...(recording && { fetch: recordedFetch((asked) => recording.answer(asked)), steps: recording }),
  })
  const make = typeof options === 'function' ? options : () => options
  const part: Part = { query, caller, tenant, faults, steer, check, modules, traced: false }
  const outcomes: SeedOutcome[] = []
  for (const seed of seeds) outcomes.push(await rehearser.play(seed, make, part))
  const failures = outcomes.flatMap(({ seed, error }) =>
    error ? [{ seed, error, replay: replayOf(seed, { ...plan, faults }) }] : [],
  )
  const standsInFor = [...new Set(outcomes.flatMap((outcome) => outcome.standsInFor))]
  const simulatedTools = [...new Set(outcomes.flatMap((outcome) => outcome.simulatedTools))]
  return { runs: outcomes.length, outcomes: tally(outcomes), failures, standsInFor, simulatedTools }
}

/** Plan of the rehearsal of an old run. */
export interface OldRunPlan<T = undefined> {
  /** Folder of the durable log that has the run: `stateManagement.path` of its team. */
  log: string
  /** Id of the run. */
  runId: string
  /**
   * Answers what the old run did not ask for: by default that fails with `StepMismatchError`. Returns the value that
   * the model, tool, person or step would give, or undefined for none. A model gives a `ModelAnswer`.
   */
  answer?(asked: UnknownAsked): unknown
  /** Schema for the data of the result, with its code. Default: the JSON schema that the run was launched with. */
  output?: RunOptions<T>['output']
  /**
   * Code for the roles, in place of their modules. Its own time and randomness stay real, so use those of its context.
   */
  modules?: Readonly<Record<string, AgentDefinition>>
}

/** An old run, and what became of it with the team of today. */
export interface OldRunRehearsal<T = undefined> extends PlayedOldRun {
  runId: string
  /** Result of the rehearsal. */
  readonly result: MultiAgentResult<T>
}

/**
 * Plays a run that a durable log has with the team of today, in virtual time: its query, and the messages and answers
 * from outside that it got. Models, tools, people and steps (`context.step`) answer what they answered then, and none
 * of them is asked; nothing reaches the world outside. The same log and the same code give the same result.
 *
 * What agents bring to the run is what they had then: their state, conversations of threads, shared state, the
 * blackboard of the team. Turns are paired with those of the old run by agent and message, and their calls by kind,
 * name and input. A call whose input has changed gets the answer of the old one, and is told among the `mismatches`;
 * so is what the old run did not ask for, what is not asked for any more, and what has another result. Ids are not
 * compared.
 *
 * Rejects with `UnknownRunError`, `LogCorruptError`, and with `ConfigurationError` for a wrong plan, a folder without a
 * log, or a team that cannot work at all.
 *
 * @example
 * const { result, mismatches } = await rehearseRun(options, { log: './log', runId: 'report-7' })
 * assert.equal(result.success, true)
 * assert.deepEqual(mismatches, [])
 */
export async function rehearseRun<T = undefined>(
  options: MultiAgentPatternOptions | (() => MultiAgentPatternOptions),
  plan: OldRunPlan<T>,
): Promise<OldRunRehearsal<T>> {
  const { log, runId, answer, output, modules } = checkedOldRun(plan)
  const run = await recordedRun(logFolder(log, resolve(), 'log'), runId, true)
  const make = typeof options === 'function' ? options : () => options
  const played = await new Rehearser().playOld(make, { run, old: oldTurnsOf(run), answer, output, modules })
  return { runId, ...played, result: played.result as MultiAgentResult<T> }
}

function checkedOldRun<T>(plan: OldRunPlan<T>): OldRunPlan<T> {
  checkFields(plan, '{ log, runId }', ['log', 'runId', 'answer', 'output', 'modules'])
  for (const path of ['log', 'runId'] as const)
    if (typeof plan[path] !== 'string' || plan[path] === '')
      throw new ConfigurationError(`${path}: ${shown(plan[path])}; accepted: a text that is not empty.`, { path })
  if (plan.answer !== undefined && typeof plan.answer !== 'function')
    throw new ConfigurationError(`answer: ${shown(plan.answer)}; accepted: a function.`, { path: 'answer' })
  return plan
}

function checkFields(plan: unknown, accepted: string, known: readonly string[]): void {
  if (typeof plan !== 'object' || plan === null)
    throw new ConfigurationError(`plan: ${shown(plan)}; accepted: ${accepted}.`, { path: 'plan', got: plan })
  const unknown = Object.keys(plan).find((key) => !known.includes(key))
  if (unknown !== undefined)
    throw new ConfigurationError(`plan: there is no "${unknown}"; there are ${known.join(', ')}.`, { path: unknown })
}

function checked(plan: RehearsalPlan): RehearsalPlan {
  const known = [
    'query',
    'caller',
    'tenant',
    'seeds',
    'faults',
    'steer',
    'check',
    'modules',
    'record',
    'realModels',
    'realTools',
  ]
  checkFields(plan, '{ query, seeds }', known)
  checkQuery(plan.query)
  if (plan.check !== undefined && typeof plan.check !== 'function')
    throw new ConfigurationError(`check: ${shown(plan.check)}; accepted: a function of the outcome.`, { path: 'check' })
  if (plan.record !== undefined && typeof plan.record !== 'string')
    throw new ConfigurationError(`record: ${shown(plan.record)}; accepted: the path of a file.`, { path: 'record' })
  checkFlag(plan.realModels, 'realModels')
  checkFlag(plan.realTools, 'realTools')
  return plan
}

function replayOf(
  seed: number,
  { query, caller, tenant, faults = [], steer = [], record, realModels = false, realTools = false }: RehearsalPlan,
): string {
  const plan = {
    query,
    caller,
    tenant,
    seeds: [seed],
    ...(faults.length > 0 && { faults }),
    ...(steer.length > 0 && { steer }),
    ...(record !== undefined && { record }),
    ...(realModels && { realModels }),
    ...(realTools && { realTools }),
  }
  return `await rehearse(options, ${JSON.stringify(plan)})`
}
