/** Who is in the team: the agents that it was made with, and those that come and go while it runs. */
import type { AgentRole } from '../actors/role.ts'
import { AgentTerminatedError, ConfigurationError } from '../errors.ts'
import { type AgentInstance, type AgentInstanceHost, agentInstance, statusOf } from './agent-instance.ts'
import type { Cell } from './cell.ts'
import { agentCell, fixedCell } from './cell-settings.ts'
import { FIXED_NAMES } from './core.ts'
import type { AgentSettings, TeamSettings } from './settings.ts'
import type { Supervisor } from './supervisor.ts'
import { unknownAgent } from './unknown-agent.ts'

export class Roster {
  readonly #supervisor: Supervisor
  readonly #settings: TeamSettings
  readonly #host: AgentInstanceHost
  readonly #instances = new Map<string, AgentInstance>()
  /** Agents whose removal is under way: until then nobody else can have the name. */
  readonly #leaving = new Map<string, Promise<void>>()

  constructor(supervisor: Supervisor, settings: TeamSettings, host: AgentInstanceHost) {
    this.#supervisor = supervisor
    this.#settings = settings
    this.#host = host
    for (const name of FIXED_NAMES) supervisor.addCell(name, fixedCell(name, settings))
    for (const [at, agent] of settings.agents.entries()) this.#enter(agent, `agents[${at}]`)
  }

  get(name: string): AgentInstance | undefined {
    return this.#instances.get(name)
  }

  list(): AgentInstance[] {
    return [...this.#instances.values()]
  }

  #enter(agent: AgentSettings, option: string): Cell {
    const cell = this.#supervisor.addCell(agent.name, agentCell(agent, option))
    this.#instances.set(agent.name, agentInstance(cell, agent.role, this.#host))
    return cell
  }

  /** Resolves when nobody of that name is about to leave. */
  async left(name: string): Promise<void> {
    await this.#leaving.get(name)
  }

  /** Its mailbox takes messages from now on; `begin` starts its thread. */
  add(role: AgentRole): Cell {
    const others = this.#supervisor.agents().map(({ name }) => name)
    const cell = this.#enter(this.#settings.newcomer(role, 'role', others), 'role')
    this.#supervisor.lives.introduce(cell)
    return cell
  }

  /** Starts the thread of an agent that was added. One that cannot start leaves again. */
  async begin(cell: Cell): Promise<void> {
    const { lives } = this.#supervisor
    try {
      await Promise.all([lives.begin(cell), lives.ready(cell)])
    } catch (error) {
      if (!cell.removed) await this.remove(cell.name)
      throw error
    }
  }

  /** Rules 8 and 12: an orderly stop; what waits becomes dead letters, and who asked is told. */
  async remove(name: string): Promise<void> {
    const cell = this.#present(name)
    cell.removed = true
    this.#instances.delete(name)
    const gone = new AgentTerminatedError(`Agent "${name}" was removed from the team.`, { agent: name })
    const leaving = this.#leave(cell, gone)
    this.#leaving.set(name, leaving)
    this.#supervisor.lives.tellScripts()
    await leaving
  }

  async #leave(cell: Cell, gone: AgentTerminatedError): Promise<void> {
    this.#forget(cell)
    await this.#supervisor.lives.end(cell, gone)
    this.#forget(cell) // what its last turn did
    this.#leaving.delete(cell.name)
  }

  #forget({ index }: Cell): void {
    for (const run of this.#supervisor.runs.values()) run.forgetAgent(index)
  }

  /** Begins again with an agent that was stopped for good, before its cool-down is over. */
  async restart(name: string): Promise<void> {
    const { lives } = this.#supervisor
    const cell = this.#present(name)
    if (!cell.stopped) {
      const status = statusOf(cell)
      const text = `Agent "${name}" is not stopped (it is ${status}); restartAgent begins again with one that was stopped for good.`
      throw new ConfigurationError(text, { path: 'name', agent: name, got: status, accepted: 'failed' })
    }
    lives.revive(cell)
    await lives.ready(cell)
  }

  #present(name: string): Cell {
    const cell = this.#supervisor.cell(name)
    if (cell?.settings.counted && !cell.removed) return cell
    throw unknownAgent(
      name,
      this.#supervisor.agents().map((agent) => agent.name),
    )
  }
}
