/**
 * Defines which states an agent may have. A state is kept in the agent's thread and committed with a turn. If two turns
 * that share a state were open at once, the second would overwrite the changes of the first. Such a use is refused, so
 * that no change is silently lost.
 */
import { ConfigurationError } from '../../errors.ts'
import { MAX_CONCURRENCY } from '../../mailbox/window.ts'
import type { Assignment } from '../definition/assignment.ts'
import type { AgentHandlers } from '../definition/definition.ts'

export type StateScope = 'state' | 'runState'

const INITIAL = { state: 'initialState', runState: 'initialRunState' } as const

export class StateRules {
  readonly #agent: string
  readonly #option: string
  readonly #concurrency: number
  readonly #instances: number

  constructor({ role, option, concurrency, instances }: Assignment) {
    this.#agent = role.name
    this.#option = option
    this.#concurrency = concurrency > MAX_CONCURRENCY ? 1 : concurrency // a protocol script keeps its state in its run
    this.#instances = instances
  }

  /**
   * Checks the states that a definition declares.
   *
   * @throws ConfigurationError for a state that the agent may not have.
   */
  check(handlers: AgentHandlers): void {
    for (const scope of ['state', 'runState'] as const)
      if (handlers[INITIAL[scope]] !== undefined) this.assertMay(scope, INITIAL[scope])
  }

  /**
   * Checks a handler's access to a state; `use` names the access.
   *
   * @throws ConfigurationError if the agent may not have that state.
   */
  assertMay(scope: StateScope, use: string): void {
    if (this.#instances > 1) throw this.#refused('instances', this.#instances, use, 'are threads of their own')
    if (scope === 'state' && this.#concurrency > 1)
      throw this.#refused('concurrency', this.#concurrency, use, 'may have turns open at once')
  }

  #refused(option: 'instances' | 'concurrency', got: number, use: string, why: string): ConfigurationError {
    const path = `${this.#option}.${option}`
    const who =
      option === 'instances'
        ? `the ${got} instances of agent "${this.#agent}"`
        : `${got} runs of agent "${this.#agent}"`
    const instead = option === 'instances' ? 'the blackboard' : 'the state of the run (setRunState) or the blackboard'
    return new ConfigurationError(
      `${path}: ${who} ${why}, so they share no state and ${use} is refused. Accepted with it: 1. Or keep what you know on ${instead}.`,
      { path, agent: this.#agent, got, accepted: '1', use },
    )
  }
}
