/**
 * Provides the code and the thread of an agent: a module on a worker, or, for scripts and tests, a loop in the host's
 * thread.
 */
import type { AgentCode, AssignedTools, RosterEntry, ToolCode } from '../../actors/definition/assignment.ts'
import {
  type AgentDefinition,
  type AgentHandlers,
  type Exports,
  exportsOf,
  oneByOne,
} from '../../actors/definition/definition.ts'
import type { ModelClient } from '../../actors/definition/model.ts'
import type { Protocol } from '../../actors/definition/protocol.ts'
import type { Verb } from '../../actors/definition/role.ts'
import { modelAgent } from '../../actors/turn/model-agent.ts'
import { moduleScript, scriptHandlers } from '../../actors/turn/orchestrator.ts'
import { remoteAgent } from '../../actors/turn/remote-agent.ts'
import { toolIn } from '../../actors/turn/run-tool.ts'
import type { LoadedTool } from '../../actors/turn/toolbox.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { sessionOf } from '../../remote/role.ts'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import { ORCHESTRATOR_INDEX, statusOf } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { LogEntry, Unrecorded } from '../log/records.ts'
import type { Tracing } from '../observers/tracing.ts'
import type { RehearsedModels } from '../providers/models.ts'
import { retries } from '../providers/provider-clients.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { LogStore } from '../store/log-files.ts'
import type { Part, Supervisor } from '../supervision/host.ts'
import type { Provisioning } from '../supervision/owners.ts'
import { restarts } from '../supervision/restarts.ts'
import { timeouts } from '../supervision/timeouts.ts'
import { watchdog } from '../supervision/watchdog.ts'
import { importFailure, loadable } from '../threads/bundle-cache.ts'
import { handlersFrom, LocalThread } from '../threads/local-thread.ts'
import type { SharedThreads } from '../threads/shared-threads.ts'
import type { Spawner, Thread } from '../threads/thread.ts'
import type { Budgets } from '../verbs/budgets.ts'
import { type HostVerb, watchers } from '../verbs/calls.ts'
import { failoverLayer } from '../verbs/failover.ts'
import { ModelGateway } from '../verbs/gateway.ts'
import { NO_REHEARSAL, specOf, type ToolRehearsal, toolRehearsal } from '../verbs/host-tools.ts'
import { modelTurnVerbs } from '../verbs/model-turn.ts'
import { syncPointExits } from '../verbs/sync-points.ts'
import { taskDeadlines, taskDependencies, tasks } from '../verbs/task-board.ts'
import { TaskRouter } from '../verbs/task-router.ts'
import { usage } from '../views/metrics.ts'
import { operatorLog } from '../views/operator-log.ts'
import type { Tallies } from '../views/tallies.ts'
import { slowWatch } from './open-turns.ts'

/** Replacements for tests and rehearsals: agents run in the host's own thread. */
export interface TeamKit {
  /** Definitions by the agent's name. An agent that is not listed has its module imported into this thread. */
  definitions: ReadonlyMap<string, AgentDefinition>
  /** Model that answers in place of all models. */
  model?: ModelClient
  /** Models that answer in place of the real ones. */
  models?: RehearsedModels
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
  load?(code: LocalCode, thread: LocalThread): Promise<Exports>
  /** Wraps the handlers of any agent, the protocol's script included. */
  recorded?(agent: string, handlers: AgentHandlers): AgentHandlers
  /** Takes the place of a verb of the host. `record`: logs a record of a run. */
  serve?(verb: Verb, real: HostVerb, record: (run: RunState, record: Unrecorded) => LogEntry): HostVerb
  /** Wraps the handlers of that agent for one thread of it. */
  around?(agent: string, handlers: AgentHandlers, thread: LocalThread): AgentHandlers
}

/** A module that is to run in the host's thread. */
export interface LocalCode {
  agent: string
  /** The href of a file: URL, or a package. */
  specifier: string
  from: string
  option: string
  env: readonly string[]
}

export class Provision implements Provisioning {
  readonly #settings: TeamSettings
  readonly #protocol: Protocol
  readonly #kit: TeamKit | undefined
  readonly #spawner: Spawner
  readonly #shared: SharedThreads
  readonly #supervisor: () => Supervisor
  readonly #imports = oneByOne((href) => import(href))

  constructor(
    settings: TeamSettings,
    protocol: Protocol,
    kit: TeamKit | undefined,
    spawner: Spawner,
    shared: SharedThreads,
    supervisor: () => Supervisor,
  ) {
    this.#settings = settings
    this.#protocol = protocol
    this.#kit = kit
    this.#spawner = spawner
    this.#shared = shared
    this.#supervisor = supervisor
  }

  roster(run: RunState | undefined): RosterEntry[] {
    return this.#supervisor()
      .directory.agents(run)
      .map((agent) => {
        const { info, playedByModel, keys = [], contextStrategy } = agent.settings
        const inherits = contextStrategy?.inherit ?? 'none'
        const more = { ...(keys.length > 0 && { keys }), ...(inherits !== 'none' && { inherits }) }
        return { ...info, status: statusOf(agent), playedByModel, ...more }
      })
  }

  async codeOf(agent: Agent): Promise<AgentCode> {
    const { resolveFrom: from } = this.#settings
    const local = { module: '', bundled: false, shown: agent.name } // no thread imports it
    if (this.#kit) return local
    if (agent.index === ORCHESTRATOR_INDEX) {
      if (!('module' in this.#protocol)) return local
      const { module, config } = this.#protocol
      const { href, bundled, shown } = await loadable(String(module), 'orchestration.module', { from })
      return { protocol: href, bundled, shown, config }
    }
    const { module, option } = agent.settings
    if (agent.settings.playedByModel) return { model: true }
    const { remote } = agent.settings
    if (remote) {
      await this.#supervisor().remotes.ready(agent)
      return { remote: sessionOf(remote) }
    }
    if (module === null) return local
    const { href, bundled, shown } = await loadable(module, `${option}.module`, { from })
    return { module: href, bundled, shown }
  }

  async toolsOf(agent: Agent): Promise<AssignedTools> {
    const { resolveFrom: from } = this.#settings
    const { inline, modules, isolated, names } = agent.settings.tools
    const { tools } = this.#supervisor()
    const rehearsed = tools.rehearsal.isPossible
    if (this.#kit) {
      const local = [...modules, ...isolated].map((tool) => ({ ...tool, bundled: false, shown: tool.module }))
      return { host: inline.map(specOf), modules: local, names: [...names], rehearsed }
    }
    const code = modules.map(async ({ option, module, export: name }) => {
      const { href, bundled, shown } = await loadable(module, `${option}.module`, { from })
      return { module: href, bundled, shown, export: name, option }
    })
    const [host, ...found] = await Promise.all([tools.specsOf(agent, from), ...code])
    return { host, modules: found, names: [...names], rehearsed }
  }

  #isLocal(agent: Agent): boolean {
    return this.#kit !== undefined || (agent.index === ORCHESTRATOR_INDEX && 'run' in this.#protocol)
  }

  roomFor(agent: Agent): Promise<void> | undefined {
    if (this.#isLocal(agent)) return undefined
    const { isolation, maxHeapMb } = agent.settings
    return isolation === 'shared' ? this.#shared.room() : this.#spawner.room(maxHeapMb)
  }

  threadFor(agent: Agent): Thread {
    if (this.#isLocal(agent)) return this.#localThread(agent)
    const { isolation, maxHeapMb } = agent.settings
    const ofRun = agent.run !== undefined
    return isolation === 'shared' ? this.#shared.seat(agent.name, ofRun, this) : this.#spawner.spawn(maxHeapMb, ofRun)
  }

  expect(agents: readonly Agent[]): void {
    const first = agents.find((agent) => !this.#isLocal(agent))
    if (first) this.#spawner.expect(first.settings.isolation === 'shared' ? null : first.settings.maxHeapMb)
  }

  #localThread(agent: Agent): LocalThread {
    const scheduler = this.#settings.clock
    const tools = (code: readonly ToolCode[], _name: string, thread: LocalThread) =>
      Promise.all(code.map((tool) => this.#localTool(agent, tool, thread)))
    if (agent.index === ORCHESTRATOR_INDEX)
      return new LocalThread({
        scheduler,
        handlers: async (_name, thread) => this.#recorded(agent, await this.#localScript(thread)),
        tools,
        roster: (run) => this.roster(this.#supervisor().runs.get(run)),
      })
    return new LocalThread({ scheduler, handlers: (_name, thread) => this.#localHandlers(agent, thread), tools })
  }

  async #localScript(thread: LocalThread): Promise<AgentHandlers> {
    const protocol = this.#protocol
    if ('run' in protocol)
      return scriptHandlers((orchestrator, query, speaker) => protocol.run(orchestrator, query, speaker))
    const specifier = String(protocol.module)
    const place = { agent: ORCHESTRATOR, specifier, option: 'orchestration.module', env: [] }
    const { exports, code } = await this.#load(place, thread)
    return moduleScript(exports.default, code?.shown ?? specifier, protocol.config)
  }

  /** Loads a module into this thread. `code`: what was imported, unless the kit has loaded it. */
  async #load(given: Omit<LocalCode, 'from'>, thread: LocalThread, settings?: Agent['settings'], tool?: ToolCode) {
    const { resolveFrom: from } = this.#settings
    const place = { ...given, from }
    if (this.#kit?.load) return { exports: await this.#kit.load(place, thread) }
    const { href, ...found } = await loadable(place.specifier, place.option, { host: true, from })
    const code = { ...tool, ...found, module: href }
    try {
      return { exports: exportsOf(await this.#imports(href)), code }
    } catch (error) {
      if (!settings || error instanceof ConfigurationError) throw error
      throw await importFailure(settings, code, new ConfigurationError(describe(error), {}, error))
    }
  }

  async #localHandlers(agent: Agent, thread: LocalThread): Promise<AgentHandlers> {
    const handlers = this.#recorded(agent, await this.#handlersOf(agent, thread))
    return this.#kit?.around?.(agent.name, handlers, thread) ?? handlers
  }

  #recorded({ name }: Agent, handlers: AgentHandlers): AgentHandlers {
    return this.#kit?.recorded?.(name, handlers) ?? handlers
  }

  async #handlersOf({ name, settings }: Agent, thread: LocalThread): Promise<AgentHandlers> {
    if (settings.playedByModel) return modelAgent(settings.instances === 1)
    const definition = this.#kit?.definitions.get(name)
    if (definition) return handlersFrom(definition, `modules.${name}`)
    if (settings.remote) return remoteAgent(sessionOf(settings.remote))
    const option = `${settings.option}.module`
    const place = { agent: name, specifier: settings.module ?? '', option, env: settings.env }
    return handlersFrom((await this.#load(place, thread, settings)).exports.default, option)
  }

  async #localTool({ name, settings }: Agent, tool: ToolCode, thread: LocalThread): Promise<LoadedTool> {
    const { option } = tool
    const place = { agent: name, specifier: tool.module, option: `${option}.module`, env: settings.env }
    const { exports, code } = await this.#load(place, thread, settings, tool)
    return { tool: toolIn(exports, { ...tool, ...code }), option }
  }
}

/** Throws `ConfigurationError` for an agent without a module, and for one whose module Node keeps. */
export function assertReloadable({ name, settings }: Agent, kit: TeamKit | undefined): void {
  const { module, tools } = settings
  const own = tools.modules.length + tools.isolated.length > 0
  const reason = (): string | undefined => {
    if (kit?.definitions.has(name)) return 'its code was given to the team as a value'
    if (kit && !kit.load) return "it runs in the host's thread, where Node keeps each module that it has loaded"
    if (module !== null || own) return undefined
    return 'a model plays it, and it has no module and no tools in modules'
  }
  const why = reason()
  if (why === undefined) return
  const text = `Agent "${name}" cannot be reloaded: ${why}. Changed options and inline tools take effect in a new team.`
  throw new ConfigurationError(text, { path: 'name', agent: name, accepted: 'an agent with a module' })
}

/* Registers the verbs that the host serves with parts of the team: models and their budget, task routing. */

export function serveTeamVerbs(
  supervisor: Supervisor,
  settings: TeamSettings,
  budgets: Budgets,
  kit: TeamKit | undefined,
  tracing: Tracing | undefined,
): void {
  const { models, clock, taskRouting, realTools } = settings
  const { calls, pauses } = supervisor
  const inPlace = kit?.model && retries(kit.model, { clock, provider: 'the test', pause: atOnce })
  if (!realTools) supervisor.tools.rehearsal = rehearsalOf(supervisor, settings, kit)
  else if (kit?.outside) supervisor.tools.rehearsal = outsideOf(kit.outside)
  const record = (run: RunState, record: Unrecorded) => supervisor.journal.record(run, record)
  const shared = {
    clock,
    record,
    redactor: supervisor.redactor,
    written: () => supervisor.journal.written(),
    prices: settings.prices,
    warn: (text: string, fields: object) => supervisor.logger.warn(fields, text),
  }
  const gateway = new ModelGateway({
    ...shared,
    resolve(wanted, { agent, run }) {
      const resolved = inPlace
        ? { client: inPlace, model: wanted ?? 'default' }
        : models.resolve(wanted, `the model of "${agent.name}"`, run.models)
      if (resolved.client.rehearsal) run.rehearsed = true
      return resolved
    },
    steers: supervisor.steers,
    // Each model of a list has a span, which includes the wait for tokens.
    layers: [failoverLayer({ clock, record }), ...(tracing ? [tracing.layer] : []), budgets.layer],
  })
  const ask: HostVerb = (args, caller, signal) =>
    pauses.during(caller, async () => gateway.verb(args, caller, signal), 'model')
  calls.register([['model', ask], ...supervisor.remotes.verbs({ ...shared, layers: [budgets.layer] })])
  const router = new TaskRouter(supervisor, taskRouting, (run, agent) => budgets.left(run, agent))
  calls.register([...modelTurnVerbs(supervisor, supervisor.delegations, settings.inCluster), ...router.verbs])
}

/**
 * Skips the pause between two attempts. A test that waits for its run would wait for ever if the pause needed the
 * test's clock.
 */
const atOnce = () => Promise.resolve()

/**
 * Returns the rules for tools in rehearsed runs. In a rehearsal of schedules every run is rehearsed. Otherwise a run is
 * rehearsed once it has asked the rehearsal model, or always if that model answers every call and plays a role.
 */
function rehearsalOf(supervisor: Supervisor, { models }: TeamSettings, kit: TeamKit | undefined): ToolRehearsal {
  if (kit?.models) return toolRehearsal({ isRehearsed: () => true, isVirtual: true })
  const isPossible = kit?.model ? kit.model.rehearsal === true : models.rehearses('sometimes')
  if (!isPossible) return NO_REHEARSAL
  const isPlayed = () => supervisor.directory.actors.some(({ settings }) => settings.playedByModel)
  const always = kit?.model !== undefined || models.rehearses('always')
  models.simulatedTools = () => simulatedTools(supervisor)
  return toolRehearsal({
    isRehearsed: (run) => run.rehearsed || (always && isPlayed()),
    isVirtual: false,
    onSimulated: () => kit?.model || models.announce(),
  })
}

function simulatedTools({ directory, tools }: Supervisor): string {
  const names = [...new Set(directory.actors.flatMap((agent) => tools.harmfulOf(agent)))].sort()
  if (names.length === 0) return ''
  const these =
    names.length === 1 ? 'This tool does not run, but is' : `These ${names.length} tools do not run, but are`
  return `${these} answered with made-up values: ${names.join(', ')}. A tool runs if it says readOnly: true, all do with rehearsal: { realTools: true }.`
}

const outsideOf = (outside: NonNullable<TeamKit['outside']>): ToolRehearsal => ({
  ...NO_REHEARSAL,
  perform: (tool, work) => (tool.outside ? outside(tool.name, work) : work()),
})

/** Returns the readers in the order in which they get records. Detectors, telemetry and runs come after them. */
export const partsOf = (tallies: Tallies): Part[] => [
  restarts,
  timeouts,
  watchdog,
  slowWatch,
  tasks,
  (host) => taskDeadlines(host, host.cancellation, host.requests),
  (host) => taskDependencies(host, host.admission, host.cancellation, host.requests),
  (host) => watchers(host, host.hostMessages),
  (host) => syncPointExits(host.syncPoints),
  tallies.part,
  usage,
  operatorLog,
]
