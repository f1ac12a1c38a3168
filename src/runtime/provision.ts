/** Where the code and the thread of a life come from: a module on a worker, or, for scripts and tests, the host's own thread. */
import type { AgentCode, RosterEntry } from '../actors/assignment.ts'
import type { AgentDefinition, AgentHandlers } from '../actors/definition.ts'
import type { ModelClient } from '../actors/model.ts'
import { modelAgent } from '../actors/model-agent.ts'
import { moduleScript, scriptHandlers } from '../actors/orchestrator-turn.ts'
import type { Protocol } from '../actors/protocol.ts'
import { ConfigurationError, describe } from '../errors.ts'
import { ORCHESTRATOR } from '../mailbox/message.ts'
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
  /** In place of all models. */
  model?: ModelClient
  /** Loads such a module for one life, in place of that import. Resolves to its default export. */
  load?(code: LocalCode, life: LocalThread): Promise<unknown>
  /** What any life, also one of the protocol's script, has in place of its handlers. */
  recorded?(agent: string, handlers: AgentHandlers): AgentHandlers
  /** What a life of that agent has in place of those. */
  around?(agent: string, handlers: AgentHandlers, life: LocalThread): AgentHandlers
}

/** A module that is to run in the host's thread. */
export interface LocalCode {
  /** Whose it is. */
  agent: string
  /** The href of a file: URL, or a package. */
  specifier: string
  /** The option that named it, for errors. */
  option: string
  /** The names of the variables that it may see. */
  env: readonly string[]
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
    if (cell.settings.playedByModel) return { model: true }
    if (module === null) return local
    const { href, bundled, shown } = await loadable(module, `${option}.module`)
    return { module: href, bundled, shown }
  }

  threadFor(cell: Cell): Thread {
    const scheduler = this.#settings.clock
    if (cell.index === ORCHESTRATOR_INDEX && (this.#kit || 'run' in this.#protocol))
      return new LocalThread({
        scheduler,
        handlers: async (_name, life) => this.#recorded(cell, await this.#localScript(life)),
        roster: (run) => this.roster(this.#supervisor.runs.get(run)),
      })
    if (this.#kit) return new LocalThread({ scheduler, handlers: (_name, life) => this.#localHandlers(cell, life) })
    return this.#supervisor.spawner.spawn(cell.settings.maxHeapMb)
  }

  async #localScript(life: LocalThread): Promise<AgentHandlers> {
    const protocol = this.#protocol
    if ('run' in protocol) return scriptHandlers((orchestrator, query) => protocol.run(orchestrator, query))
    const option = 'orchestration.module'
    const specifier = String(protocol.module)
    if (this.#kit?.load) {
      const exported = await this.#kit.load({ agent: ORCHESTRATOR, specifier, option, env: [] }, life)
      return moduleScript(exported, specifier, protocol.config)
    }
    const { href, shown } = await loadable(specifier, option, { host: true })
    return moduleScript(((await import(href)) as { default?: unknown }).default, shown, protocol.config)
  }

  async #localHandlers(cell: Cell, life: LocalThread): Promise<AgentHandlers> {
    const handlers = this.#recorded(cell, await this.#handlersOf(cell, life))
    return this.#kit?.around?.(cell.name, handlers, life) ?? handlers
  }

  #recorded({ name }: Cell, handlers: AgentHandlers): AgentHandlers {
    return this.#kit?.recorded?.(name, handlers) ?? handlers
  }

  async #handlersOf({ name, settings }: Cell, life: LocalThread): Promise<AgentHandlers> {
    if (settings.playedByModel) return modelAgent(settings.instances === 1)
    const definition = this.#kit?.definitions.get(name)
    if (definition) return handlersFrom(definition, `modules.${name}`)
    const path = `${settings.option}.module`
    const specifier = settings.module ?? ''
    if (this.#kit?.load) {
      const code = { agent: name, specifier, option: path, env: settings.env }
      return handlersFrom(await this.#kit.load(code, life), path)
    }
    const { href, ...code } = await loadable(specifier, path, { host: true })
    try {
      return handlersFrom(((await import(href)) as { default?: unknown }).default, path)
    } catch (error) {
      if (error instanceof ConfigurationError) throw error
      throw await importFailure(settings, { module: href, ...code }, new ConfigurationError(describe(error), {}, error))
    }
  }
}
