/** Interface of all built-in strategies: a name, and a function from a configuration to a protocol. */
import type { Protocol } from '../actors/definition/protocol.ts'
import type { TeamSettings } from '../runtime/settings/settings.ts'

/** Built-in strategy. It is a value, so that the table in index.ts can hold it and the runtime need not know it. */
export interface Strategy<Config extends { strategy: string } = { strategy: string }> {
  readonly strategy: Config['strategy']
  /** true: it gives tasks to agents that no option names, so the team's `taskRouting` has an effect. */
  readonly routes?: true
  /**
   * Returns the protocol that the configuration asks for.
   *
   * @param team the names of the team's agents, in order.
   * @throws {ConfigurationError} at once, with the path of the option that cannot work.
   */
  protocol(config: Config, team: readonly string[]): Protocol
  /**
   * Returns the settings of a team for a configuration that has been checked, with what the strategy changes before the
   * first run.
   *
   * @throws {ConfigurationError} for an option of the team that the strategy cannot work with.
   */
  prepare?(config: Config, settings: TeamSettings): TeamSettings
}
