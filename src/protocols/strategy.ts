/** The one shape of all built-in strategies: a name, and a function from a configuration to a protocol. */
import type { Protocol } from '../actors/definition/protocol.ts'
import type { TeamSettings } from '../runtime/settings/settings.ts'

/** A value, so that the table in the index can hold it and the runtime need not know it. */
export interface Strategy<Config extends { strategy: string } = { strategy: string }> {
  readonly strategy: Config['strategy']
  /**
   * The protocol that the configuration asks for.
   *
   * @param team the names of its agents, in order.
   * @throws {ConfigurationError} at once, with the path of the option that cannot work.
   */
  protocol(config: Config, team: readonly string[]): Protocol
  /**
   * The settings of a team that works by the configuration, which has been checked: what the strategy changes before the first run.
   *
   * @throws {ConfigurationError} for an option of the team that the strategy cannot work with.
   */
  prepare?(config: Config, settings: TeamSettings): TeamSettings
}
