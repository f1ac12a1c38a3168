/** Agents that the registry has and the team has not: they join when somebody names them, or when it is read again. */
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

/** Result of reading the registry again, by the agents' names. */
export interface Reloaded {
  /** They are in the team now. */
  added: string[]
  /** To whom they may delegate is now as the registry says. */
  regranted: string[]
  /** Something else of them has changed, or they are not there any more: it counts when the team is made anew. */
  outdated: string[]
}

/** How agents enter a team, and leave it. */
export interface Entrance {
  /** Makes an agent of the role, which may name those that are expected. Its mailbox takes messages at once. */
  join(role: AgentRole, expected: readonly string[]): Cell
  /** Starts its thread, if those of the team are started. An agent that cannot start leaves again. */
  begin(cell: Cell): Promise<void>
  leave(cell: Cell): Promise<void>
  /** Resolves when nobody of that name is about to leave. */
  left(name: string): Promise<void>
}

export class Newcomers {
  readonly #supervisor: Supervisor
  readonly #registry: AgentRegistry
  readonly #entrance: Entrance
  /** As they were when they were looked at last. */
  #roles: readonly AgentRole[]
  #told: unknown

  constructor(supervisor: Supervisor, registry: AgentRegistry, entrance: Entrance) {
    this.#supervisor = supervisor
    this.#registry = registry
    this.#entrance = entrance
    this.#roles = registry.loaded
  }

  /**
   * The agent of that name, if the registry has it by now: somebody has asked for it. A registry that cannot be read
   * has nobody; that is told once.
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
   * Takes in who is not there, and what is new of the delegation graph. Rejects with what keeps one of them from
   * joining.
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

  /** `again`: also those who were in the team before. */
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

  /** An agent defines a type: it joins the team, and when it has started the registry keeps it. */
  async define(by: Cell, run: RunState, given: object): Promise<string> {
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
    await this.#entrance.begin(cell)
    try {
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
