/** Executes the tool calls that a model's answer asks for: verbs of the turn, and tools of the role. */

import { DramatisError, describe, TaskRefusedError } from '../../shared/errors.ts'
import { hashOf } from '../../shared/random.ts'
import { cycleIn, NO_SEQUENCE, type RoundBounds, withKey } from '../definition/assignment.ts'
import { withdrawn, wrongArgument } from '../definition/checks.ts'
import type { Content } from '../definition/content.ts'
import {
  type AnswerFunction,
  hasMark,
  isMarked,
  type ModelMessage,
  type ToolCall,
  type ToolSpec,
  withMark,
  withoutMark,
} from '../definition/model.ts'
import { inLanes } from '../definition/promises.ts'
import type { PassingOn } from './conversation.ts'
import { inputOf, type ThinkingTurn, type ToolOutcome, type VerbTool, verbTool } from './verb-tools.ts'

/*
 * Detects a model that repeats itself within one turn: rules 28 to 30 for the loop of model and tools. It looks only at
 * what the model has seen, its calls and their results, so a redelivered turn finds the same signs.
 *
 * A round is all calls of one answer. The signs are: the same calls with the same results again and again; two to eight
 * rounds that come again in the same order; a tool that fails with the same words whatever its input. A call that is
 * marked as a poll begins a new count: a model that waits on purpose is not stuck. The model is told of each sign.
 * Signs are counted from the one before, so the model has as many rounds again to do something else. A round that was
 * not there before in the turn takes all signs back.
 */

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

/** Results of all calls of one answer. `ends`: set if the turn is over with this answer. */
export interface Performed {
  messages: ModelMessage[]
  /** The calls that were made, in the order of the answer. */
  made: CallMade[]
  ends: Extract<ToolOutcome, { ends: string }> | undefined
  /** Number of calls whose tool exists. */
  known: number
  /** True if a person has answered one of them. */
  byPerson: boolean
}

/** Number of calls of one answer that run at a time, unless the role sets it. */
const MOST_AT_ONCE = 32

export class OfferedTools {
  /** Descriptions of the tools as the model gets them now. */
  specs: readonly ToolSpec[]
  /**
   * Function that the model is to call with its answer. Undefined if a tool has the same name: then the answer is JSON.
   */
  readonly answerFunction: AnswerFunction | undefined
  /** Results of the calls of the last answer, as far as they have ended. */
  done: readonly ModelMessage[] = []
  readonly #turn: ThinkingTurn
  readonly #own: ReadonlySet<string>
  readonly #verbs: ReadonlyMap<string, VerbTool>
  readonly #passing: PassingOn
  /**
   * The role's tools whose calls the model may mark as polls: those without an input field of that name of their own.
   */
  #markable: ReadonlySet<string> = new Set()

  /**
   * `names`: offers only these tools. `passing`: the parts of the conversation that other agents get with a verb.
   * `decisions`: verbs of this turn alone, which take the place of others of their names.
   */
  constructor(
    turn: ThinkingTurn,
    names: readonly string[] | undefined,
    passing: PassingOn,
    wanted?: AnswerFunction,
    decisions: readonly VerbTool[] = [],
  ) {
    this.#turn = turn
    this.#passing = passing
    const own = turn.tools.specs
    const owned = new Set(own.map(({ name }) => name))
    for (const [i, name] of (names ?? []).entries())
      if (!owned.has(name) && !verbTool(name))
        throw wrongArgument(`tools[${i}]`, name, `a tool of "${turn.role.name}" or a verb is needed`)
    const specs = own.filter(({ name }) => names?.includes(name) ?? true)
    this.#own = new Set(specs.map(({ name }) => name))
    const verbs = [...(names ?? turn.verbs).flatMap((name) => verbTool(name) ?? []), ...decisions]
    this.#verbs = new Map(verbs.flatMap((verb) => (owned.has(verb.spec.name) ? [] : [[verb.spec.name, verb]])))
    this.specs = [...specs, ...[...this.#verbs.values()].map(({ spec }) => spec)]
    this.answerFunction = this.specs.some(({ name }) => name === wanted?.name) ? undefined : wanted
  }

  /**
   * Runs adjacent calls side by side, at most `maxParallelToolCalls` of the role at a time. A call that runs alone
   * waits for the calls before it, and those after it wait for it. The results have the order of the calls. The model
   * is told of a failed call, which ends no other call. `signal` withdraws all of them.
   */
  async perform(calls: readonly ToolCall[], signal?: AbortSignal): Promise<Performed> {
    const done: Performed = { messages: [], made: [], ends: undefined, known: 0, byPerson: false }
    const limit = this.#turn.role.maxParallelToolCalls ?? MOST_AT_ONCE
    this.done = done.messages
    for (let at = 0; at < calls.length && done.ends === undefined; ) {
      let end = at + 1
      if (!this.#runsAlone(calls[at]!)) while (end < calls.length && !this.#runsAlone(calls[end]!)) end += 1
      const stretch = calls.slice(at, end)
      const note = this.#turn.limits.begin('maxParallelToolCalls', { limit })
      const outcomes = await inLanes(stretch, limit, (call) => this.#call(call, signal), note)
      for (const [i, outcome] of outcomes.entries()) {
        const call = stretch[i]!
        if ('ends' in outcome) done.ends = outcome
        else done.byPerson ||= outcome.byPerson === true
        const content = 'ends' in outcome ? outcome.ends : outcome.text
        done.messages.push({ role: 'tool', toolCallId: call.id, content })
        done.made.push(
          this.#made(call, ('means' in outcome && outcome.means) || meaningOf(content), 'failed' in outcome),
        )
      }
      at = end
    }
    done.known = calls.filter(({ name }) => this.#own.has(name) || this.#verbs.has(name)).length
    return done
  }

  /** Lets the model mark each call of a tool as a poll from now on, as it can already mark calls of verbs. */
  offerPolls(): void {
    const unmarked = this.specs.filter(({ name, inputSchema }) => this.#own.has(name) && !hasMark(inputSchema))
    this.#markable = new Set([...this.#markable, ...unmarked.map(({ name }) => name)])
    this.specs = this.specs.map((spec) => (unmarked.includes(spec) ? withMark(spec) : spec))
  }

  #made({ name, input }: ToolCall, outcome: string, failed: boolean): CallMade {
    const mayMark = this.#verbs.has(name) || this.#markable.has(name)
    const polls = (mayMark && isMarked(input)) || (this.#own.has(name) && this.#turn.tools.polls(name))
    return { name, input, outcome, failed, polls }
  }

  #runsAlone({ name }: ToolCall): boolean {
    return this.#verbs.get(name)?.alone ?? this.#turn.tools.isSequential(name)
  }

  async #call({ name, input }: ToolCall, signal: AbortSignal | undefined): Promise<ToolOutcome> {
    const turn = this.#turn
    try {
      if (signal?.aborted) throw withdrawn(name, signal)
      const verb = this.#verbs.get(name)
      if (verb) return await verb.run(turn, inputOf(verb, input), this.#passing, signal)
      if (this.#own.has(name)) {
        const given = this.#markable.has(name) ? withoutMark(input) : input
        return { text: await turn.tools.call(name, given, signal) }
      }
      return { text: `There is no tool "${name}". ${this.#names()}`, failed: true }
    } catch (error) {
      if (turn.refusal() || isOwnRefusal(error, turn.role.name)) throw error
      if (signal?.aborted) throw withdrawn(name, signal)
      return { text: `Error: ${error instanceof DramatisError ? error.message : describe(error)}`, failed: true }
    }
  }

  #names(): string {
    const { specs, answerFunction } = this
    const names = [...specs, ...(answerFunction ? [answerFunction] : [])].map(({ name }) => name)
    return names.length === 0 ? 'There are none: answer without.' : `There are: ${names.join(', ')}.`
  }
}

/** Returns what a result says, to see whether calls repeat themselves: of its media, the data too. */
const meaningOf = (content: Content): string => (typeof content === 'string' ? content : JSON.stringify(content))

/** Checks whether this agent has refused, which ends the turn. The model is told of a refusal by another agent. */
const isOwnRefusal = (error: unknown, agent: string) =>
  error instanceof TaskRefusedError && error.details.agent === agent
