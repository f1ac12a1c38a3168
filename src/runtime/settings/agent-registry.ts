/** Types of agents that a team can take in while it runs. `loadTeam` gives the one of an agents.yaml. */
import type { AgentType } from '../../actors/definition/context/context.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import type { ConfigurationError } from '../../errors.ts'

/** Where a team finds agents that it does not have yet, and keeps what its agents define. Source: document 003, the registry. */
export interface AgentRegistry {
  /** The roles that the team was made of. */
  readonly loaded: readonly AgentRole[]
  /**
   * The roles that there are now; the same list again, as long as nothing has changed.
   *
   * @throws {ConfigurationError} for what is wrong there, also when nothing has changed since.
   */
  read(): readonly AgentRole[]
  /**
   * The role that a type comes to. Nothing is kept yet.
   *
   * @param maker who defines it, and may give it tasks from then on; null: no agent does.
   * @throws {ConfigurationError} for a type that cannot be added.
   */
  check(type: AgentType, maker: string | null): AgentRole
  /** Keeps that type for good. Throws as `check` does, and for what keeps it from being written. */
  save(type: AgentType, maker: string | null): void
  /** An error about a role of `loaded` (`agents[0].module`), with its place where the role is written; left out, it is as it was. */
  located?(error: ConfigurationError): ConfigurationError
  /** The same registry, which keeps to itself what is saved: for rehearsals. */
  rehearsed(): AgentRegistry
}
