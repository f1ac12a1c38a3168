/** Agents that look for one answer: the members, the position of each, and the agents that have dropped out. */
import type { OrchestratorContext, Outcome, RequestOptions } from '../../actors/definition/context/context.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { PERHAPS_LAST } from '../../actors/model/last-speaker.ts'
import { ReplyInvalidError } from '../../errors.ts'
import { outcomeOf, tooFewAnswers } from './ask-enough.ts'
import { askFor } from './ask-for.ts'
import { type Position, positionOf } from './positions.ts'

/** Minimum number of members: fewer cannot agree. */
const FEWEST = 2

export class Council {
  readonly orchestrator: OrchestratorContext
  readonly query: string
  /** Position of each member, in the order of the agents. */
  readonly held = new Map<string, Position>()
  readonly #outcomes = new Map<string, Outcome>()

  constructor(orchestrator: OrchestratorContext, query: string) {
    this.orchestrator = orchestrator
    this.query = query
  }

  /** Names of the agents that still take part. */
  get members(): string[] {
    return [...this.held.keys()]
  }

  /** Asks all agents the query. Each answer may become the run's answer. An agent that fails does not take part. */
  async open(agents: readonly string[]): Promise<void> {
    const outcomes = await this.orchestrator.requestAll([...agents], this.query, { metadata: PERHAPS_LAST })
    for (const outcome of outcomes) {
      if (outcome.ok) {
        this.#outcomes.set(outcome.agent, outcome)
        this.held.set(outcome.agent, positionOf(outcome))
      } else this.#leave(outcome)
    }
    this.#checkEnough()
  }

  /**
   * Asks some members and returns their answers. null: the answer is not usable; the member stays, but supports no
   * position this time. A member that fails drops out and is not in the result.
   */
  async askEach<T>(
    members: readonly string[],
    content: string,
    schema: ModelSchema<unknown, T>,
    options: RequestOptions,
  ): Promise<Map<string, T | null>> {
    const values = new Map<string, T>()
    const outcomes = await Promise.all(
      members.map((member) =>
        outcomeOf(member, async () => {
          const { value, message } = await askFor(this.orchestrator, member, content, schema, options)
          values.set(member, value)
          return message
        }),
      ),
    )
    const answers = new Map<string, T | null>()
    for (const outcome of outcomes) {
      const { agent, ok } = outcome
      if (ok || outcome.error instanceof ReplyInvalidError) answers.set(agent, values.get(agent) ?? null)
      if (!ok && answers.has(agent)) this.#refuse(agent, outcome.error.message)
      else if (!ok) this.#leave(outcome)
    }
    this.#checkEnough()
    return answers
  }

  /** Asks one agent for a text of its own. undefined: it failed, and drops out. */
  async write(writer: string, content: string, options: RequestOptions): Promise<Position | undefined> {
    const outcome = await outcomeOf(writer, () =>
      this.orchestrator.request(writer, content, { ...options, metadata: PERHAPS_LAST }),
    )
    if (outcome.ok) return positionOf(outcome)
    this.#leave(outcome)
    this.#checkEnough()
    return undefined
  }

  #refuse(agent: string, reason: string): void {
    this.orchestrator.decide(`Does the vote of "${agent}" count?`, 'no', reason)
  }

  #leave(outcome: Extract<Outcome, { ok: false }>): void {
    const { agent, error } = outcome
    this.orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
    this.#outcomes.set(agent, outcome)
    this.held.delete(agent)
    this.orchestrator.decide(`Does "${agent}" take part?`, 'no', `${error.code}: ${error.message}`)
  }

  #checkEnough(): void {
    if (this.held.size < FEWEST) throw tooFewAnswers([...this.#outcomes.values()], FEWEST, this.#outcomes.size)
  }
}
