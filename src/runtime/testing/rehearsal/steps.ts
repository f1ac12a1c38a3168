/** Records steps that reach outside: each runs once, and later runs get its result from the recording. */
import type { AgentContext } from '../../../actors/definition/context/context.ts'
import type { AgentHandlers } from '../../../actors/definition/definition.ts'
import type { TypedMessage } from '../../../mailbox/message.ts'
import type { SteppedClock } from '../virtual-clock.ts'
import { outsideOf, Reach } from './reach.ts'

/** Result of a step, as JSON; undefined results have no `result`. */
export interface RecordedStep {
  result?: unknown
}

/** Store for the results of steps. It may be in another thread. */
export interface StepAnswers {
  knownStep(key: string): Promise<RecordedStep | null>
  /** Stores a result. Resolves to the stored one, which is the first if several were given. */
  keepStep(key: string, step: RecordedStep): Promise<RecordedStep>
}

export class Steps {
  readonly #clock: SteppedClock
  readonly #answers: StepAnswers

  constructor(clock: SteppedClock, answers: StepAnswers) {
    this.#clock = clock
    this.#answers = answers
  }

  around(agent: string, handlers: AgentHandlers): AgentHandlers {
    const { receive, observe } = handlers
    const recorded = (message: TypedMessage, context: AgentContext) => this.#recorded(agent, message, context)
    return {
      ...handlers,
      receive: (message, context) => receive.call(handlers, message, recorded(message, context)),
      ...(observe && { observe: (message, context) => observe.call(handlers, message, recorded(message, context)) }),
    }
  }

  /**
   * Records the steps of a turn. Key of a step: the agent, the step's name, its number among steps of that name in the
   * turn, and the message's content and data.
   */
  #recorded(agent: string, { content, structuredData }: TypedMessage, context: AgentContext): AgentContext {
    const real = context.step.bind(context)
    const counts = new Map<string, number>()
    context.step = (name, run, options) => {
      const nth = (counts.get(name) ?? 0) + 1
      counts.set(name, nth)
      const key = JSON.stringify([agent, name, nth, content, structuredData])
      return real(name, () => this.#run(key, name, run), options)
    }
    return context
  }

  async #run<T>(key: string, name: string, run: () => Promise<T> | T): Promise<T> {
    const known = await outsideOf(this.#clock)(this.#answers.knownStep(key))
    if (known) return known.result as T
    const reach = new Reach(this.#clock, name)
    try {
      const result = await reach.run(run)
      if (!reach.begun) return result
      const text = JSON.stringify(result)
      const kept = await this.#answers.keepStep(key, text === undefined ? {} : { result: JSON.parse(text) })
      return kept.result as T
    } finally {
      reach.end()
    }
  }
}
