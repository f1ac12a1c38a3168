/** Types of agents that a team can add while it runs. `loadTeam` returns the registry of an agents.yaml. */
import type { AgentType } from '../../actors/definition/context/context.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import type { ConfigurationError } from '../../errors.ts'

/**
 * Source of agents that a team does not have yet, and store of the types that its agents define. Source: document 003,
 * the registry.
 */
export interface AgentRegistry {
  /** Roles that the team was made of. */
  readonly loaded: readonly AgentRole[]
  /**
   * Returns the roles that exist now; the same list again, as long as nothing has changed.
   *
   * @throws {ConfigurationError} for an error in the registry, also when nothing has changed since.
   */
  read(): readonly AgentRole[]
  /**
   * Returns the role that a type becomes. Nothing is stored yet.
   *
   * @param maker agent that defines the type, and may give it tasks from then on; null: no agent does.
   * @throws {ConfigurationError} for a type that cannot be added.
   */
  check(type: AgentType, maker: string | null): AgentRole
  /** Stores the type permanently. Throws as `check` does, and if the type cannot be written. */
  save(type: AgentType, maker: string | null): void
  /**
   * Adds the place where the role is written to an error about a role of `loaded` (`agents[0].module`). If the method
   * is left out, the error stays as it was.
   */
  located?(error: ConfigurationError): ConfigurationError
  /** Returns the same registry, but with saved types kept in memory only: for rehearsals. */
  rehearsed(): AgentRegistry
}
