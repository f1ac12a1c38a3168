/**
 * Provides the code and the thread of an agent: a module on a worker, or, for scripts and tests, a loop in the host's
 * thread.
 */
import type { AgentCode, AssignedTools, RosterEntry, ToolCode } from '../../actors/definition/assignment.ts'
import type { AgentDefinition, AgentHandlers } from '../../actors/definition/definition.ts'
import { type Exports, exportsOf } from '../../actors/definition/exports.ts'
import type { Logger } from '../../actors/definition/logger.ts'
import type { ModelClient } from '../../actors/definition/model.ts'
import type { Protocol } from '../../actors/definition/protocol.ts'
import type { Verb } from '../../actors/definition/trust.ts'
import { toolIn } from '../../actors/tools/tool-module.ts'
import type { LoadedTool } from '../../actors/tools/toolbox.ts'
import { modelAgent } from '../../actors/turn/model-agent.ts'
import { moduleScript, scriptHandlers } from '../../actors/turn/orchestrator.ts'
import { ConfigurationError, describe } from '../../errors.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import type { Unrecorded } from '../log/records.ts'
import type { RehearsedModels } from '../providers/models.ts'
import type { TeamSettings } from '../settings/settings.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import { statusOf } from '../state/busiest.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { LogStore } from '../store/log-store.ts'
import type { Provisioning } from '../supervision/provisioning.ts'
import { loadable } from '../threads/bundle/bundle.ts'
import { type ImportedCode, importFailure } from '../threads/import-failure.ts'
import { handlersFrom, LocalThread } from '../threads/local-thread.ts'
import { SharedThreads } from '../threads/shared-threads.ts'
import type { Spawner, Thread } from '../threads/thread.ts'
import { type HostTools, specOf } from '../tools/host-tools.ts'
import type { HostVerb } from '../verbs/host-verb.ts'

/** Replacements for tests and rehearsals: agents run in the host's own thread. */
export interface TeamKit {
  /** Definitions by the agent's name. An agent that is not listed has its module imported into this thread. */
  definitions: ReadonlyMap<string, AgentDefinition>
  /** Model that answers in place of all models. */
  model?: ModelClient
  /** Models that answer in place of the real ones. */
  models?: RehearsedModels
  /** Makes the store of the durable log. Without it a team of the kit has none. */
  newStore?: () => LogStore
  /** Bytes that the log of a run may have in memory. */
  keptBytes?: number
  /** Runs all tools, instead of answering some in their place. */
  realTools?: boolean
  /** Runs a tool that works outside of the runtime, if the time of the run is virtual. */
  outside?<T>(tool: string, work: () => Promise<T>): Promise<T>
  /**
   * Loads a module for one thread of an agent, in place of the import into the host's thread. Resolves to its exports.
   */
  load?(code: LocalCode, life: LocalThread): Promise<Exports>
  /** Wraps the handlers of any agent, the protocol's script included. */
  recorded?(agent: string, handlers: AgentHandlers): AgentHandlers
  /** Takes the place of a verb of the host. `record`: logs a record of a run. */
  serve?(verb: Verb, real: HostVerb, record: (run: RunState, record: Unrecorded) => void): HostVerb
  /** Wraps the handlers of that agent for one thread of it. */
  around?(agent: string, handlers: AgentHandlers, life: LocalThread): AgentHandlers
}

/** A module that is to run in the host's thread. */
export interface LocalCode {
  /** Name of the owner. */
  agent: string
  /** The href of a file: URL, or a package. */
  specifier: string
  /** The folder from which a package is resolved. */
  from: string
  /** The option that named it, for errors. */
  option: string
  /** Names of the environment variables that the module may see. */
  env: readonly string[]
}

interface Needs {
  readonly spawner: Spawner
  readonly logger: Logger
  /** Returns the agents of the team, and those of that run. */
  agents(run: RunState | undefined): Cell[]
  runOf(index: number): RunState | undefined
  /** Tools that the host runs. */
  tools(): HostTools
}

export class Provision implements Provisioning {
  readonly #settings: TeamSettings
  readonly #protocol: Protocol
  readonly #kit: TeamKit | undefined
  readonly #needs: Needs
  readonly #shared: SharedThreads

  constructor(settings: TeamSettings, protocol: Protocol, kit: TeamKit | undefined, needs: Needs) {
    this.#settings = settings
    this.#protocol = protocol
    this.#kit = kit
    this.#needs = needs
    this.#shared = new SharedThreads(needs.spawner, needs.logger)
  }

  /** Returns the agents as a protocol script sees them. */
  roster(run: RunState | undefined): RosterEntry[] {
    return this.#needs.agents(run).map((cell) => {
      const { info, playedByModel, keys = [], contextStrategy } = cell.settings
      const inherits = contextStrategy?.inherit ?? 'none'
      const more = { ...(keys.length > 0 && { keys }), ...(inherits !== 'none' && { inherits }) }
      return { ...info, status: statusOf(cell), playedByModel, ...more }
    })
  }

  /**
   * Returns the code that a thread of that agent loads. Rejects with `ConfigurationError` for a module that cannot be
   * found or bundled.
   */
  async codeOf(cell: Cell): Promise<AgentCode> {
    const { resolveFrom: from } = this.#settings
    const local = { module: '', bundled: false, shown: cell.name } // no thread imports it
    if (this.#kit) return local
    if (cell.index === ORCHESTRATOR_INDEX) {
      if (!('module' in this.#protocol)) return local
      const { module, config } = this.#protocol
      const { href, bundled, shown } = await loadable(String(module), 'orchestration.module', { from })
      return { protocol: href, bundled, shown, config }
    }
    const { module, option } = cell.settings
    if (cell.settings.playedByModel) return { model: true }
    if (module === null) return local
    const { href, bundled, shown } = await loadable(module, `${option}.module`, { from })
    return { module: href, bundled, shown }
  }

  /**
   * Returns the agent's tools. Rejects with `ConfigurationError` for a module that cannot be found or bundled, or has
   * no tool.
   */
  async toolsOf(cell: Cell): Promise<AssignedTools> {
    const { resolveFrom: from } = this.#settings
    const { inline, modules, isolated, names } = cell.settings.tools
    const rehearsed = this.#needs.tools().rehearsal.isPossible
    if (this.#kit) {
      const local = [...modules, ...isolated].map((tool) => ({ ...tool, bundled: false, shown: tool.module }))
      return { host: inline.map(specOf), modules: local, names: [...names], rehearsed }
    }
    const code = modules.map(async ({ option, module, export: name }) => {
      const { href, bundled, shown } = await loadable(module, `${option}.module`, { from })
      return { module: href, bundled, shown, export: name, option }
    })
    const [host, ...found] = await Promise.all([this.#needs.tools().specsOf(cell, from), ...code])
    return { host, modules: found, names: [...names], rehearsed }
  }

  /** Checks whether the cell runs in the host's own thread. */
  #isLocal(cell: Cell): boolean {
    return this.#kit !== undefined || (cell.index === ORCHESTRATOR_INDEX && 'run' in this.#protocol)
  }

  roomFor(cell: Cell): Promise<void> | undefined {
    if (this.#isLocal(cell)) return undefined
    const { isolation, maxHeapMb } = cell.settings
    return isolation === 'shared' ? this.#shared.room() : this.#needs.spawner.room(maxHeapMb)
  }

  threadFor(cell: Cell): Thread {
    if (this.#isLocal(cell)) return this.#localThread(cell)
    const { isolation, maxHeapMb } = cell.settings
    const ofRun = cell.run !== undefined
    return isolation === 'shared' ? this.#shared.seat(cell.name, ofRun) : this.#needs.spawner.spawn(maxHeapMb, ofRun)
  }

  expect(cells: readonly Cell[]): void {
    const first = cells.find((cell) => !this.#isLocal(cell))
    if (first) this.#needs.spawner.expect(first.settings.isolation === 'shared' ? null : first.settings.maxHeapMb)
  }

  #localThread(cell: Cell): LocalThread {
    const scheduler = this.#settings.clock
    if (cell.index === ORCHESTRATOR_INDEX)
      return new LocalThread({
        scheduler,
        handlers: async (_name, life) => this.#recorded(cell, await this.#localScript(life)),
        tools: (code, _name, life) => this.#localTools(cell, code, life),
        roster: (run) => this.roster(this.#needs.runOf(run)),
      })
    return new LocalThread({
      scheduler,
      handlers: (_name, life) => this.#localHandlers(cell, life),
      tools: (code, _name, life) => this.#localTools(cell, code, life),
    })
  }

  async #localScript(life: LocalThread): Promise<AgentHandlers> {
    const protocol = this.#protocol
    if ('run' in protocol) return scriptHandlers((orchestrator, query) => protocol.run(orchestrator, query))
    const { resolveFrom: from } = this.#settings
    const option = 'orchestration.module'
    const specifier = String(protocol.module)
    if (this.#kit?.load) {
      const { default: exported } = await this.#kit.load(
        { agent: ORCHESTRATOR, specifier, from, option, env: [] },
        life,
      )
      return moduleScript(exported, specifier, protocol.config)
    }
    const { href, shown } = await loadable(specifier, option, { host: true, from })
    return moduleScript(exportsOf((await import(href)) as Exports).default, shown, protocol.config)
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
    const { resolveFrom: from } = this.#settings
    if (this.#kit?.load) {
      const code = { agent: name, specifier, from, option: path, env: settings.env }
      return handlersFrom((await this.#kit.load(code, life)).default, path)
    }
    const { href, ...code } = await loadable(specifier, path, { host: true, from })
    return handlersFrom((await imported(settings, { module: href, ...code })).default, path)
  }

  #localTools(cell: Cell, code: readonly ToolCode[], life: LocalThread): Promise<LoadedTool[]> {
    return Promise.all(code.map((tool) => this.#localTool(cell, tool, life)))
  }

  async #localTool({ name, settings }: Cell, tool: ToolCode, life: LocalThread): Promise<LoadedTool> {
    const { option } = tool
    const { resolveFrom: from } = this.#settings
    const place = { agent: name, specifier: tool.module, from, option: `${option}.module`, env: settings.env }
    if (this.#kit?.load) return { tool: toolIn(await this.#kit.load(place, life), tool), option }
    const { href, ...found } = await loadable(tool.module, place.option, { host: true, from })
    const code = { ...tool, ...found, module: href }
    return { tool: toolIn(await imported(settings, code), code), option }
  }
}

/** Imports code of an agent into this thread. */
async function imported(settings: Cell['settings'], code: { module: string } & ImportedCode): Promise<Exports> {
  try {
    return exportsOf((await import(code.module)) as Exports)
  } catch (error) {
    if (error instanceof ConfigurationError) throw error
    throw await importFailure(settings, code, new ConfigurationError(describe(error), {}, error))
  }
}
