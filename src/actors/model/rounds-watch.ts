/**
 * Detects a model that repeats itself within one turn: rules 28 to 30 for the loop of model and tools. It looks only at
 * what the model has seen, its calls and their results, so a redelivered turn finds the same signs.
 *
 * A round is all calls of one answer. The signs are: the same calls with the same results again and again; two to eight
 * rounds that come again in the same order; a tool that fails with the same words whatever its input. A call that is
 * marked as a poll begins a new count: a model that waits on purpose is not stuck. The model is told of each sign.
 * Signs are counted from the one before, so the model has as many rounds again to do something else. A round that was
 * not there before in the turn takes all signs back.
 */
import { cycleIn, NO_SEQUENCE, type RoundBounds, withKey } from '../definition/cycles.ts'
import { hashOf } from '../definition/hash-of.ts'

/** A call of an answer, and its result as the model gets it. */
export interface CallMade {
  readonly name: string
  readonly input: string
  readonly outcome: string
  readonly failed: boolean
  readonly polls: boolean
}

/** Level of escalation of a sign; levels between 'replan' and 'abort' have no name. */
export type RoundsStep = 'notice' | 'replan' | 'abort' | undefined

export interface RoundsSign {
  readonly step: RoundsStep
  /** Describes what the model did, as words after its name: with names and counts only. */
  readonly what: string
  /** All signs since the last progress. */
  readonly signs: readonly string[]
}

/** Number of repetitions of a cycle of several rounds that is a sign: 6 where a single round may repeat 8 times. */
const mostCycles = ({ maxRepeats }: RoundBounds): number => Math.max(2, Math.ceil(maxRepeats * 0.75))
/** Number of equal errors that is a sign. Equal errors to different inputs say less than equal errors to one input. */
const mostErrors = ({ maxRepeats }: RoundBounds): number => 2 * maxRepeats
/** Number of signs since the last progress that ends the turn. It is high because an unmarked poll may take long. */
export const LAST_SIGN = 8
const MOST_SEEN = 1_000

export class RoundsWatch {
  readonly #agent: string
  readonly #bounds: RoundBounds
  readonly #seen = new Set<string>()
  #rounds = NO_SEQUENCE
  #errors = NO_SEQUENCE
  #signs: readonly string[] = []

  constructor(agent: string, bounds: RoundBounds) {
    this.#agent = agent
    this.#bounds = bounds
  }

  /** Returns the sign that this round is, or undefined. */
  saw(calls: readonly CallMade[]): RoundsSign | undefined {
    if (calls.length === 0) return undefined
    if (calls.some(({ polls }) => polls)) {
      this.#rounds = this.#errors = NO_SEQUENCE
      return undefined
    }
    const round = hashOf(...calls.flatMap(({ name, input, outcome }) => [name, input, outcome]))
    const failed = calls.every((call) => call.failed)
    if (this.#isNew(round) && !failed) this.#signs = []
    this.#rounds = withKey(this.#rounds, round)
    this.#errors = failed
      ? withKey(this.#errors, hashOf(...calls.flatMap((call) => [call.name, call.outcome])))
      : NO_SEQUENCE
    return this.#cycle(calls) ?? this.#sameError(calls)
  }

  #isNew(round: string): boolean {
    if (this.#seen.has(round)) return false
    if (this.#seen.size >= MOST_SEEN) this.#seen.clear()
    this.#seen.add(round)
    return true
  }

  #cycle(calls: readonly CallMade[]): RoundsSign | undefined {
    const bounds = this.#bounds
    const cycle = cycleIn(this.#rounds, (length) => (length === 1 ? bounds.maxRepeats : mostCycles(bounds)))
    if (!cycle) return undefined
    const { length, times } = cycle
    const what =
      length === 1
        ? `${namesOf(calls)} with the same input`
        : `the same tools in the same ${length} rounds (the last: ${namesOf(calls)})`
    return this.#found(`called ${what} ${times} times in a row, and each time got the same result`, bounds.ends)
  }

  /** Finds equal errors. They alone never end a turn: it may be a batch whose service is down. */
  #sameError(calls: readonly CallMade[]): RoundsSign | undefined {
    const cycle = cycleIn(this.#errors, (length) =>
      length === 1 ? mostErrors(this.#bounds) : Number.POSITIVE_INFINITY,
    )
    if (!cycle) return undefined
    return this.#found(`got the same error from ${namesOf(calls)} ${cycle.times} times in a row`, false)
  }

  #found(what: string, mayEnd: boolean): RoundsSign {
    this.#rounds = this.#errors = NO_SEQUENCE
    this.#signs = [...this.#signs, `"${this.#agent}" ${what}`].slice(-LAST_SIGN)
    const signs = this.#signs
    return { step: stepAt(signs.length, mayEnd), what, signs }
  }
}

function stepAt(signs: number, mayEnd: boolean): RoundsStep {
  if (signs === 1) return 'notice'
  if (signs === 2) return 'replan'
  return signs >= LAST_SIGN && mayEnd ? 'abort' : undefined
}

const namesOf = (calls: readonly CallMade[]): string => [...new Set(calls.map(({ name }) => `"${name}"`))].join(', ')
