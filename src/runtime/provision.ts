/** Where the code and the thread of a life come from: a module on a worker, or, for scripts and tests, the host's own thread. */
import type { AgentCode, RosterEntry } from '../actors/assignment.ts'
import type { AgentDefinition, AgentHandlers } from '../actors/definition.ts'
import { moduleScript, scriptHandlers } from '../actors/orchestrator-turn.ts'
import type { Protocol } from '../actors/protocol.ts'
import { ConfigurationError, describe } from '../errors.ts'
import { statusOf } from './agent-instance.ts'
import { loadable } from './bundle.ts'
import type { Cell } from './cell.ts'
import { ORCHESTRATOR_INDEX } from './core.ts'
import { importFailure } from './import-failure.ts'
import { handlersFrom, LocalThread } from './local-thread.ts'
import type { RunState } from './run-state.ts'
import type { TeamSettings } from './settings.ts'
import type { Supervisor } from './supervisor.ts'
import type { Thread } from './thread.ts'

/** For tests: agents in the host's own thread. */
export interface TeamKit {
  /** By the agent's name. Agents with a module are imported into this thread. */
  definitions: ReadonlyMap<string, AgentDefinition>
}

export class Provision {
  readonly #settings: TeamSettings
  readonly #protocol: Protocol
  readonly #supervisor: Supervisor
  readonly #kit: TeamKit | undefined

  constructor(settings: TeamSettings, protocol: Protocol, supervisor: Supervisor, kit: TeamKit | undefined) {
    this.#settings = settings
    this.#protocol = protocol
    this.#supervisor = supervisor
    this.#kit = kit
  }

  /** The agents as a protocol script sees them. */
  roster(run: RunState | undefined): RosterEntry[] {
    return this.#supervisor.agents(run).map((cell) => ({ ...cell.settings.info, status: statusOf(cell) }))
  }

  /** What a thread of that agent is to load. Rejects with `ConfigurationError` for a module that cannot be found or bundled. */
  async codeOf(cell: Cell): Promise<AgentCode> {
    const local = { module: '', bundled: false, shown: cell.name } // no thread imports it
    if (this.#kit) return local
    if (cell.index === ORCHESTRATOR_INDEX) {
      if (!('module' in this.#protocol)) return local
      const { module, config } = this.#protocol
      const { href, bundled, shown } = await loadable(String(module), 'orchestration.module')
      return { protocol: href, bundled, shown, config }
    }
    const { module, option } = cell.settings
    if (module === null) return local
    const { href, bundled, shown } = await loadable(module, `${option}.module`)
    return { module: href, bundled, shown }
  }

  threadFor(cell: Cell): Thread {
    const scheduler = this.#settings.clock
    if (cell.index === ORCHESTRATOR_INDEX && (this.#kit || 'run' in this.#protocol))
      return new LocalThread({
        scheduler,
        handlers: () => this.#localScript(),
        roster: (run) => this.roster(this.#supervisor.runs.get(run)),
      })
    if (this.#kit) return new LocalThread({ scheduler, handlers: () => this.#localHandlers(cell) })
    return this.#supervisor.spawner.spawn(cell.settings.maxHeapMb)
  }

  async #localScript(): Promise<AgentHandlers> {
    const protocol = this.#protocol
    if ('run' in protocol) return scriptHandlers((orchestrator, query) => protocol.run(orchestrator, query))
    const { href, shown } = await loadable(String(protocol.module), 'orchestration.module', { host: true })
    return moduleScript(((await import(href)) as { default?: unknown }).default, shown, protocol.config)
  }

  async #localHandlers({ name, settings }: Cell): Promise<AgentHandlers> {
    const definition = this.#kit?.definitions.get(name)
    if (definition) return handlersFrom(definition, `modules.${name}`)
    const path = `${settings.option}.module`
    const { href, ...code } = await loadable(settings.module ?? '', path, { host: true })
    try {
      return handlersFrom(((await import(href)) as { default?: unknown }).default, path)
    } catch (error) {
      if (error instanceof ConfigurationError) throw error
      throw await importFailure(settings, { module: href, ...code }, new ConfigurationError(describe(error), {}, error))
    }
  }
}
