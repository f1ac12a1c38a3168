/** The calls of tools that a model's answer asks for: verbs of the turn, and the tools of the role. */
import { DramatisError, describe, TaskRefusedError } from '../errors.ts'
import type { AnswerFunction, ModelMessage, ToolCall, ToolSpec } from './model.ts'
import type { PassingOn } from './passing-on.ts'
import type { ThinkingTurn } from './thinking-turn.ts'
import { wrongArgument } from './verb-checks.ts'
import { inputOf, type ToolOutcome, type VerbTool, verbTool } from './verb-tools.ts'

/** What came of all calls of one answer. `ends`: the turn is over with this answer. */
export interface Performed {
  messages: ModelMessage[]
  ends: string | undefined
  /** How many were of tools that there are. */
  known: number
}

/** The tools that a model is offered in one turn. */
export class OfferedTools {
  readonly specs: readonly ToolSpec[]
  /** What it is to call with its answer. None where a tool has that name: then the answer is JSON. */
  readonly answerFunction: AnswerFunction | undefined
  readonly #turn: ThinkingTurn
  readonly #own: ReadonlySet<string>
  readonly #verbs: ReadonlyMap<string, VerbTool>
  readonly #passing: PassingOn

  /** `names`: these alone. `passing`: what others get of the conversation with a verb. */
  constructor(turn: ThinkingTurn, names: readonly string[] | undefined, passing: PassingOn, wanted?: AnswerFunction) {
    this.#turn = turn
    this.#passing = passing
    const own = turn.tools.specs
    const owned = new Set(own.map(({ name }) => name))
    for (const [i, name] of (names ?? []).entries())
      if (!owned.has(name) && !verbTool(name))
        throw wrongArgument(`tools[${i}]`, name, `a tool of "${turn.role.name}" or a verb is needed`)
    const specs = own.filter(({ name }) => names?.includes(name) ?? true)
    this.#own = new Set(specs.map(({ name }) => name))
    const verbs = (names ?? turn.verbs).filter((name) => !owned.has(name)).flatMap((name) => verbTool(name) ?? [])
    this.#verbs = new Map(verbs.map((verb) => [verb.spec.name, verb]))
    this.specs = [...specs, ...verbs.map(({ spec }) => spec)]
    this.answerFunction = this.specs.some(({ name }) => name === wanted?.name) ? undefined : wanted
  }

  /** In the order of the answer; calls that may run beside others do so with those next to them. */
  async perform(calls: readonly ToolCall[]): Promise<Performed> {
    const done: Performed = { messages: [], ends: undefined, known: 0 }
    for (let at = 0; at < calls.length && done.ends === undefined; ) {
      let end = at + 1
      if (this.#isParallel(calls[at]!)) while (end < calls.length && this.#isParallel(calls[end]!)) end += 1
      const stretch = calls.slice(at, end)
      const outcomes = await Promise.all(stretch.map((call) => this.#call(call)))
      for (const [i, outcome] of outcomes.entries()) {
        const { id } = stretch[i]!
        if ('ends' in outcome) done.ends = outcome.ends
        done.messages.push({ role: 'tool', toolCallId: id, content: 'ends' in outcome ? outcome.ends : outcome.text })
      }
      at = end
    }
    done.known = calls.filter(({ name }) => this.#own.has(name) || this.#verbs.has(name)).length
    return done
  }

  #isParallel({ name }: ToolCall): boolean {
    return this.#verbs.get(name)?.parallel ?? false
  }

  async #call({ name, input }: ToolCall): Promise<ToolOutcome> {
    const turn = this.#turn
    try {
      const verb = this.#verbs.get(name)
      if (verb) return await verb.run(turn, inputOf(verb, input), this.#passing)
      if (this.#own.has(name)) return { text: await turn.tools.call(name, input, turn.context.signal) }
      return { text: `There is no tool "${name}". ${this.#names()}` }
    } catch (error) {
      if (turn.refusal() || isOwnRefusal(error, turn.role.name)) throw error
      return { text: `Error: ${error instanceof DramatisError ? error.message : describe(error)}` }
    }
  }

  #names(): string {
    const { specs, answerFunction } = this
    const names = [...specs, ...(answerFunction ? [answerFunction] : [])].map(({ name }) => name)
    return names.length === 0 ? 'There are none: answer without.' : `There are: ${names.join(', ')}.`
  }
}

/** What another agent has refused is for the model to know; what it refuses itself ends the turn. */
const isOwnRefusal = (error: unknown, agent: string) =>
  error instanceof TaskRefusedError && error.details.agent === agent
