/** The composition root: joins the runtime, which knows no strategy, with the table of protocols. */
import type { AgentRole } from './actors/definition/role.ts'
import type { Tool } from './actors/definition/tool.ts'
import {
  type OrchestrationConfig,
  preparedFor,
  protocolFrom,
  routesBySkills,
  type UnnamedConfig,
} from './protocols/index.ts'
import type { ClusterStore } from './runtime/cluster/cluster-store.ts'
import { type ClusterOptions, ClusterTeam, type InCluster } from './runtime/cluster/cluster-team.ts'
import type { StateManagement, SyncPoint, TeamOptions } from './runtime/settings/options.ts'
import { settingsFrom } from './runtime/settings/settings.ts'
import type { AgentInstance } from './runtime/team/agent-instance.ts'
import { Commons } from './runtime/team/commons.ts'
import type { TeamKit } from './runtime/team/provision.ts'
import { TeamRuntime } from './runtime/team/team.ts'
import { callingFile, PLACE } from './shared/calling-file.ts'
import { reading } from './shared/checks.ts'

/** Options of a team. Each is checked, and a wrong one is refused with its path. Durations in ms. */
export interface MultiAgentPatternOptions<Name extends string = string>
  extends Omit<TeamOptions, 'agents' | 'syncPoints'> {
  /** At least one; each with a name of its own. */
  agents: readonly AgentRole<Name>[]
  /**
   * How the agents work together. A misspelt agent does not compile; in a configuration of a type without names, like
   * `SequentialConfig`, it is refused when the team is made.
   */
  orchestration: OrchestrationConfig<NoInfer<Name>> | UnnamedConfig
  /** Places where agents wait for each other. Default: none. */
  syncPoints?: readonly SyncPoint<NoInfer<Name>>[]
}

/** Options of a team over several processes. */
export interface ClusterTeamOptions<Name extends string = string>
  extends Omit<MultiAgentPatternOptions<Name>, 'stateManagement'>,
    InCluster {}

/**
 * A running team: agents on threads of their own, a supervisor, one log.
 *
 * @example
 * const team = createTeam({
 *   agents: [{ name: 'greeter', module: new URL('./greeter.js', import.meta.url) }],
 *   orchestration: { strategy: 'sequential' },
 * })
 * const result = await team.execute('Hello')
 * console.log(result.success ? result.finalOutput : result.error.message)
 * await team.close()
 *
 * @throws {ConfigurationError} from the constructor for what can be seen at once, with the option's path in `details`.
 */
export class MultiAgentPattern<const Name extends string = string> extends TeamRuntime implements AsyncDisposable {
  /** Strategy of the team with its options, as they were given. */
  readonly orchestration: Readonly<OrchestrationConfig>

  constructor(options: MultiAgentPatternOptions<Name>, kit?: TeamKit, commons?: Commons) {
    const settings = settingsFrom(options as TeamOptions, {
      modules: new Set(kit?.definitions.keys()),
      model: kit?.model !== undefined,
      ...(kit?.models && { rehearsed: kit.models }),
      ...(kit?.realTools && { realTools: true }),
      skillsInTools: routesBySkills(options),
      file: placeOf(options) ?? callingFile(),
    })
    const names = settings.agents.map(({ name }) => name)
    const orchestration = options.orchestration as OrchestrationConfig // names are checked now, whatever its type says
    const protocol = protocolFrom(orchestration, names)
    const prepared = preparedFor(orchestration, commons?.settings(settings) ?? settings, options)
    super(prepared, protocol, kit, commons)
    this.orchestration = orchestration
  }

  override getAgent(name: Name | (string & {})): AgentInstance | undefined {
    return super.getAgent(name)
  }
}

/** A running team, as examples and signatures call it. */
export type Team<Name extends string = string> = MultiAgentPattern<Name>

/**
 * Makes a team. Its threads start with the first run, or with `start()`; `close()` ends them.
 *
 * @throws {ConfigurationError} for what can be seen at once, with the option's path in `details`.
 *
 * @example
 * const team = createTeam({
 *   agents: [{ name: 'greeter', module: new URL('./greeter.js', import.meta.url) }],
 *   orchestration: { strategy: 'sequential' },
 * })
 */
export function createTeam<const Name extends string>(
  options: ClusterTeamOptions<Name>,
): ClusterTeam<MultiAgentPattern<Name>>
export function createTeam<const Name extends string>(options: MultiAgentPatternOptions<Name>): MultiAgentPattern<Name>
export function createTeam<const Name extends string>(
  options: MultiAgentPatternOptions<Name> | ClusterTeamOptions<Name>,
): MultiAgentPattern<Name> | ClusterTeam<MultiAgentPattern<Name>> {
  if (!isInCluster(options)) return new MultiAgentPattern(options)
  const { cluster: _, stateManagement: __, ...rest } = options
  const commons = new Commons()
  const threads = { idleMs: IDLE_MS, ...rest.threads }
  const team = (state?: StateManagement) =>
    new MultiAgentPattern({ ...rest, threads, ...(state && { stateManagement: state }) }, undefined, commons)
  return new ClusterTeam(options, { team, engine: engineAt, commons })
}

/** Agents of shards keep their thread so long without a message. */
const IDLE_MS = 30_000

function isInCluster<Name extends string>(
  options: MultiAgentPatternOptions<Name> | ClusterTeamOptions<Name>,
): options is ClusterTeamOptions<Name> {
  return reading('options', () => Reflect.get(Object(options), 'cluster')) !== undefined
}

/** The engine that an address names. Late: few have a cluster, and of those most one engine. */
async function engineAt(options: ClusterOptions & { url: string }): Promise<ClusterStore> {
  if (/^(nats|tls):/.test(options.url)) return new (await import('./jetstream/index.ts')).JetStreamStore(options)
  return new (await import('./postgres/index.ts')).PostgresStore(options)
}

/**
 * Types a team's options in a file of their own, for the command line: `dramatis run team.ts "..."`. It checks nothing;
 * `createTeam` does. Packages that name code are resolved from that file, also where another one makes the team.
 *
 * @example
 * export default defineTeam({
 *   agents: [{ name: 'greeter', module: new URL('./greeter.ts', import.meta.url) }],
 *   orchestration: { strategy: 'sequential' },
 * })
 */
export function defineTeam<const Name extends string>(
  options: MultiAgentPatternOptions<Name>,
): MultiAgentPatternOptions<Name> {
  const file = callingFile()
  return reading('options', () =>
    file === undefined || !isPlain(options) ? options : Object.assign({ ...options }, { [PLACE]: file }),
  )
}

const isPlain = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype

function placeOf(options: object): string | undefined {
  const file: unknown = reading('options', () => Reflect.get(Object(options), PLACE))
  return typeof file === 'string' ? file : undefined
}

/**
 * Reads a team from `agents.yaml`, with `agent_config.yaml` beside it, for `createTeam`.
 *
 * Each entry of `agents` is a role by its name, in snake_case or camelCase, and what other options of a team there are
 * stand beside `agents`; `logger` and `clock` are code, and go beside what this returns. `class` names an entry of
 * `options.agents`, whose fields hold where the file says nothing, or a module beside the file (OrchestratorAgent is in
 * OrchestratorAgent.ts, orchestrator_agent.ts or orchestrator-agent.ts; .mts, .js, .mjs too), or a class that is ready
 * (`OrchestratorAgent`, `TaskExecutorAgent`). `module` may be relative to the file. Without both an agent is only a
 * prompt. An agent whose entry, and class, has no `can_delegate_to` delegates to nobody. Without `orchestration` the
 * query goes to the first agent. Texts stay as they are: no variables are put in.
 *
 * @param options `agents`: roles by the name of their class. `tools`: what roles of the file mean by a tool's name.
 *
 * Rejects with `ConfigurationError` for what cannot be read or cannot work, with `details.file`, `line` and `column`:
 * also for a circle of delegations, and for an API key in the file.
 *
 * @example
 * const team = createTeam(await loadTeam('agents.yaml', { agents: { OrchestratorAgent, TaskExecutorAgent } }))
 */
export async function loadTeam(
  path: string | URL,
  options: { agents?: Record<string, AgentRole>; tools?: readonly Tool[] } = {},
): Promise<MultiAgentPatternOptions> {
  const { loadTeamFrom } = await import('./registry/agents-file.ts') // late: most teams are no YAML
  return loadTeamFrom(path, options)
}
