/** Options of a rehearsal: the number of schedules, and the faults in them. */
import type { Outcome } from '../../../actors/definition/context/context.ts'
import type { AgentDefinition } from '../../../actors/definition/definition.ts'
import { ConfigurationError, shown } from '../../../errors.ts'

/** Faults by the names that users give. */
export const FAULTS = ['crash', 'delay', 'duplicate', 'hang', 'refuse'] as const

/** See `RehearsalPlan.faults`. */
export type Fault = (typeof FAULTS)[number]

/** Plan of a rehearsal. */
export interface RehearsalPlan {
  query: string
  /** Number of schedules, which are those of the seeds 1 to `seeds`; or a list of seeds, from 0 up to 2^32 - 1. */
  seeds: number | readonly number[]
  /**
   * Faults, of which up to three are injected in a run: an agent dies at any moment (`crash`); a turn begins, or its
   * answer leaves, up to ten seconds late (`delay`); a turn is cut off after all its actions and is tried again
   * (`duplicate`); a turn does nothing until its signal is aborted, by a deadline for example (`hang`); the agent
   * refuses the task (`refuse`). Default: none.
   */
  faults?: readonly Fault[]
  /**
   * Checks the outcome of each run: the answer of the protocol as a message, or the error. If it throws, the run counts
   * as failed.
   */
  check?(outcome: Outcome): void | Promise<void>
  /**
   * Asks the models that the team has. Default: false. By default the rehearsal model answers in place of every model
   * that is not offline: those of `models`, with or without keys, and that of the environment. A client with `offline:
   * true`, as of `scriptedModel`, stays. Answers of real models are not recorded, so the same seed may give another
   * run.
   */
  realModels?: boolean
  /**
   * Runs all tools. Default: false. By default only tools run that say `readOnly: true` and do not work `outside`; the
   * others are answered in their place, from their `output` schema. `rehearsal: { realTools: true }` of the team does
   * the same.
   */
  realTools?: boolean
  /**
   * Code for the roles, in place of their modules. Its own time and randomness stay real, so use those of its context.
   */
  modules?: Readonly<Record<string, AgentDefinition>>
  /**
   * File for the answers of `fetch`, and for the results of steps (`context.step`) that reach outside. The first time
   * they are real; from then on they come from that file.
   */
  record?: string
}

const MOST_SEEDS = 1_000_000
const LARGEST_SEED = 2 ** 32 - 1

/** Returns the seeds of a plan. Throws `ConfigurationError` for an invalid value. */
export function seedsOf(seeds: unknown, path = 'seeds'): number[] {
  const accepted = `a whole number from 1 to ${MOST_SEEDS}, or a list of seeds from 0 to ${LARGEST_SEED}`
  if (Array.isArray(seeds) && seeds.length > 0 && seeds.length <= MOST_SEEDS && seeds.every(isSeed)) return [...seeds]
  if (isSeed(seeds) && seeds >= 1 && seeds <= MOST_SEEDS) return Array.from({ length: seeds }, (_, i) => i + 1)
  throw new ConfigurationError(`${path}: ${shown(seeds)}; accepted: ${accepted}.`, { path, got: seeds, accepted })
}

const isSeed = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= LARGEST_SEED

/** Returns the faults of a plan, each once, in a fixed order. Throws `ConfigurationError` for an unknown fault. */
export function faultsOf(faults: unknown = [], path = 'faults'): Fault[] {
  const accepted = FAULTS.join(', ')
  const isFault = (value: unknown) => FAULTS.some((fault) => fault === value)
  const wrong = Array.isArray(faults) ? faults.find((fault) => !isFault(fault)) : faults
  if (Array.isArray(faults) && faults.every(isFault)) return FAULTS.filter((fault) => faults.includes(fault))
  throw new ConfigurationError(`${path}: there is no fault ${shown(wrong)}; there are ${accepted}.`, {
    path,
    got: wrong,
    accepted,
  })
}

export function checkQuery(query: unknown): void {
  if (typeof query === 'string') return
  throw new ConfigurationError(`query: ${shown(query)}; accepted: the text that the team is asked.`, {
    path: 'query',
    got: query,
  })
}

export function checkFlag(flag: unknown, path: string): void {
  if (flag === undefined || typeof flag === 'boolean') return
  throw new ConfigurationError(`${path}: ${shown(flag)}; accepted: true or false.`, { path, got: flag })
}
