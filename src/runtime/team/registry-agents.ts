/**
 * Adds agents of the registry that the team does not have. They join when a message or task names them, or on `reload`.
 */
import { isDeepStrictEqual } from 'node:util'
import type { AgentType } from '../../actors/definition/context/context.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import { describe } from '../../errors.ts'
import { grant, refuseBeyond } from '../admission/delegation.ts'
import type { AgentRegistry } from '../settings/agent-registry.ts'
import { typeShape } from '../settings/role-shape.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import type { HostCaller } from '../verbs/host-verb.ts'

/** Result of reading the registry again, by the agents' names. */
export interface Reloaded {
  /** Agents that have joined the team. */
  added: string[]
  /** Agents whose delegation targets were updated from the registry. */
  regranted: string[]
  /**
   * Agents whose other settings have changed or that left the registry. This takes effect when the team is made anew.
   */
  outdated: string[]
}

/** Operations by which agents enter a team and leave it. */
export interface Entrance {
  /** Makes an agent of the role, which may name agents in `expected`. Its mailbox takes messages at once. */
  join(role: AgentRole, expected: readonly string[]): Cell
  /** Resolves when all that was logged until now is in the durable log, if there is one. */
  written(): Promise<void>
  /** Starts the agent's thread, if the team has started. An agent that cannot start leaves again. */
  begin(cell: Cell): Promise<void>
  leave(cell: Cell): Promise<void>
  /** Resolves when no agent of that name is being removed. */
  left(name: string): Promise<void>
}

export class Newcomers {
  readonly #supervisor: Supervisor
  readonly #registry: AgentRegistry
  readonly #entrance: Entrance
  /** Roles of the registry when they were last compared. */
  #roles: readonly AgentRole[]
  #told: unknown

  constructor(supervisor: Supervisor, registry: AgentRegistry, entrance: Entrance) {
    this.#supervisor = supervisor
    this.#registry = registry
    this.#entrance = entrance
    this.#roles = registry.loaded
  }

  /**
   * Returns the agent of that name, which a caller has asked for, if the registry has it by now. If the registry cannot
   * be read, it adds no agent and the error is logged once.
   */
  find(name: string): Cell | undefined {
    try {
      const roles = this.#registry.read()
      if (roles === this.#roles || !roles.some((role) => role.name === name)) return undefined
      const { begun, failures } = this.#takeIn(roles)
      for (const start of begun) start.catch((error: unknown) => this.#tell(error))
      for (const error of failures) this.#tell(error)
    } catch (error) {
      if (error !== this.#told) this.#tell(error)
      this.#told = error
    }
    return this.#supervisor.directory.cell(name)
  }

  #tell(error: unknown): void {
    this.#supervisor.logger.error({ error: describe(error) }, 'an agent of the registry could not join the team')
  }

  /**
   * Adds agents that the team does not have, and updates the delegation graph. Rejects with the first error that kept
   * an agent from joining.
   */
  async reload(): Promise<Reloaded> {
    const roles = this.#registry.read()
    await Promise.all(roles.map(({ name }) => this.#entrance.left(name)))
    const { reloaded, begun, failures } = this.#takeIn(roles, 'again')
    const starts = await Promise.allSettled(begun)
    for (const start of starts) if (start.status === 'rejected') failures.push(start.reason)
    if (failures.length > 0) throw failures[0]
    return reloaded
  }

  /** Adds new agents and compares the others. `again`: agents that were removed from the team join again. */
  #takeIn(roles: readonly AgentRole[], again?: 'again') {
    const before = new Map(this.#roles.map((role) => [role.name, role]))
    this.#roles = roles
    const reloaded: Reloaded = { added: [], regranted: [], outdated: [] }
    const begun: Promise<void>[] = []
    const failures: unknown[] = []
    const names = roles.map(({ name }) => name)
    for (const role of roles) {
      const cell = this.#supervisor.directory.cell(role.name)
      if (cell && !cell.removed) this.#compare(cell, before.get(role.name), role, reloaded)
      else if (!cell || again)
        try {
          begun.push(this.#entrance.begin(this.#entrance.join(role, names)))
          reloaded.added.push(role.name)
        } catch (error) {
          failures.push(error)
        }
    }
    reloaded.outdated.push(...[...before.keys()].filter((name) => !names.includes(name)))
    return { reloaded, begun, failures }
  }

  #compare(cell: Cell, before: AgentRole | undefined, now: AgentRole, { regranted, outdated }: Reloaded): void {
    const { canDelegateTo: taken, ...old } = before ?? { name: now.name, canDelegateTo: now.canDelegateTo }
    const { canDelegateTo, ...rest } = now
    if (!isDeepStrictEqual(taken, canDelegateTo)) {
      grant(cell, canDelegateTo)
      regranted.push(now.name)
    }
    if (!isDeepStrictEqual(old, rest)) outdated.push(now.name)
  }

  /**
   * Adds the type that an agent defines: it joins the team, and once it has started it is saved in the registry.
   * `joins`: called when it has joined.
   */
  async define({ cell: by, run }: HostCaller, given: object, joins: (cell: Cell) => void): Promise<string> {
    typeShape(given, 'type')
    const type = given as AgentType
    const { canDelegateTo = [] } = type
    refuseBeyond(
      by,
      canDelegateTo.map((name) => this.#known(name, run)),
    )
    const maker = by.settings.isAgent && !by.run ? by.name : null
    const role = this.#registry.check(type, maker)
    const cell = this.#entrance.join(role, [])
    joins(cell)
    await this.#entrance.begin(cell)
    try {
      await this.#entrance.written()
      this.#registry.save(type, maker)
    } catch (error) {
      await this.#entrance.leave(cell)
      throw error
    }
    this.#takeIn(this.#registry.read())
    const own = by.settings.info.canDelegateTo
    if (own && !own.includes(cell.name)) grant(by, [...own, cell.name]) // the registry does not know who made it
    return cell.name
  }

  #known(name: string, run: RunState): Cell {
    const cell = this.#supervisor.directory.cell(name, run)
    if (cell?.settings.isAgent && !cell.removed) return cell
    throw this.#supervisor.directory.unknown(name, run)
  }
}
