/**
 * Registry of a team from an agents.yaml. The file is read again when it has changed, and written when an agent defines
 * a type.
 */
import { isDeepStrictEqual } from 'node:util'
import type { AgentType } from '../actors/definition/context/context.ts'
import type { AgentRole } from '../actors/definition/role.ts'
import { ConfigurationError } from '../errors.ts'
import type { AgentRegistry } from '../runtime/settings/agent-registry.ts'
import { withEntry } from './add-entry.ts'
import { configBeside } from './agent-config.ts'
import type { Surroundings } from './roles.ts'
import { type LoadedTeam, type ReadTeam, teamFrom } from './team-text.ts'
import { MemorySource, stampOf, type TextSource } from './text-source.ts'

/** Source of a team's text, its name in errors, and what the text is resolved against. */
export interface Home extends Omit<Surroundings, 'defaults'> {
  source: TextSource
  name: string
}

export class AgentsFile implements AgentRegistry {
  readonly loaded: readonly AgentRole[]
  /** Team from the first read. */
  readonly team: LoadedTeam
  readonly located: (error: ConfigurationError) => ConfigurationError
  readonly #home: Home
  #stamp: string
  /** Last text that was valid. */
  #text: string
  #roles: readonly AgentRole[]
  #error: unknown

  /** Reads the text. Throws ConfigurationError if it is invalid. */
  constructor(home: Home) {
    this.#home = home
    this.#stamp = this.#stampNow()
    this.#text = home.source.read()
    const { team, located } = this.#parsed(this.#text)
    this.team = team
    this.located = located
    this.loaded = this.team.agents
    this.#roles = this.loaded
  }

  read(): readonly AgentRole[] {
    const stamp = this.#stampNow()
    if (stamp !== this.#stamp) {
      this.#stamp = stamp
      this.#error = undefined
      try {
        const text = this.#home.source.read()
        this.#roles = this.#parsed(text).team.agents
        this.#text = text
      } catch (error) {
        this.#error = error
      }
    }
    if (this.#error) throw this.#error
    return this.#roles
  }

  check(type: AgentType, maker: string | null): AgentRole {
    return this.#with(type, maker).role
  }

  save(type: AgentType, maker: string | null): void {
    this.#home.source.write(this.#with(type, maker).text) // based on the current text
  }

  rehearsed(): AgentRegistry {
    return new AgentsFile({ ...this.#home, source: new MemorySource(this.#text) })
  }

  #stampNow(): string {
    const { source, file } = this.#home
    return [source.stamp(), ...configBeside(file).map(stampOf)].join(' ')
  }

  #parsed(text: string): ReadTeam {
    return teamFrom(text, this.#home.name, this.#home)
  }

  #with(type: AgentType, maker: string | null): { text: string; role: AgentRole } {
    const before = this.#home.source.read()
    const roles = this.#parsed(before).team.agents
    const text = withEntry(
      before,
      type,
      roles.find(({ name }) => name === maker),
    )
    const { agents } = this.#asDefined(text, type.name)
    const role = agents.find(({ name }) => name === type.name)
    const others = agents.filter((other) => other !== role)
    if (!role || !isDeepStrictEqual(withoutGrants(others, maker), withoutGrants(roles, maker)))
      throw new ConfigurationError(
        `type: the entry of "${maker}" in ${this.#home.name} shares its content with another one, which would change too. Write it out, without an alias.`,
        { path: 'type', file: this.#home.name },
      )
    return { text, role }
  }

  /**
   * Parses a text that has the new entry. Its errors have no line and column, because the user never sees that text.
   */
  #asDefined(text: string, name: string): LoadedTeam {
    try {
      return this.#parsed(text).team
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      const { line, column, file, ...details } = error.details
      const words = error.message.replace(`${file}:${line}:${column}: `, '')
      throw new ConfigurationError(`type: "${name}" cannot be defined: ${words}`, details, error.cause)
    }
  }
}

const withoutGrants = (roles: readonly AgentRole[], maker: string | null) =>
  roles.map((role) => (role.name === maker ? { ...role, canDelegateTo: [] } : role))
