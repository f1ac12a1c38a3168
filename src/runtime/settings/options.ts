/** What a team is made of, as its user writes it. What becomes of it is in settings.ts. */
import type { Logger } from '../../actors/definition/logger.ts'
import type { AgentRole, CommunicationConfig, SupervisionConfig, ToolReference } from '../../actors/definition/role.ts'
import type { TaskRouting } from '../../actors/definition/routing.ts'
import type { Clock } from '../../clock.ts'
import type { ModelsConfig } from '../providers/models-config.ts'
import type { AgentRegistry } from './agent-registry.ts'
import type { Telemetry } from './telemetry.ts'

/**
 * A place where agents of one run wait for each other, as often as they come there: `context.sync(name)`. Source: document
 * 002, 2.6.3.
 */
export interface SyncPoint<Name extends string = string> {
  /** Each point has its own. */
  name: string
  /** Who has to arrive, and nobody else may: agents of the team, at least one, each once. */
  requiredAgents: Name[]
  /** From the first arrival of a generation on. In ms, above 0. */
  timeoutMs: number
  /**
   * What happens when a generation ends without some. 'proceed' (the default): who waits goes on, and is told who is missing.
   * 'abort': who waits gets `SyncPointTimeoutError`. 'notify': as 'proceed', and `$orchestrator` gets a report, which stands
   * in the run's history.
   */
  onTimeout?: 'proceed' | 'abort' | 'notify'
  /** Whether each gets what the others brought; true. With false nobody does: not the script, nor who reads events. */
  dataExchange?: boolean
}

/** A budget, in tokens: what models are given and what they answer. */
export interface TokenLimit {
  /** Of all agents together. At least 1. */
  tokens?: number
  /** Of each agent. At least 1. */
  perAgentTokens?: number
}

/**
 * What a team may spend. `perRun`: in each run. `perTeam`: in all runs together, within any `windowMs` (ms). Before a call of a
 * model what it can cost is set aside: the tokens of its prompt, counted, and its `maxOutputTokens`; a call without that has
 * 4,096, or what is left, from 256 on. Afterwards what it did cost is used. A call that does not fit waits for calls that
 * are under way, since they can cost less than they might; if that cannot do, it fails with `BudgetExceededError`. So no limit
 * is passed by more than a provider counts beyond what was set aside: a prompt that it counts otherwise, an answer beyond its
 * limit. Agents at work have fair shares of what is left, and borrow what idle ones do not use.
 */
export interface BudgetConfig {
  perRun?: TokenLimit
  perTeam?: TokenLimit & { windowMs: number }
}

/** An append-only log of a team's own records. Not available in this version. */
export interface LogStore {
  /** Resolves to the position of the first of them. */
  append(records: Uint8Array[]): Promise<number>
  read(from: number, signal: AbortSignal): AsyncIterable<Uint8Array>
  close(): Promise<void>
}

/** Where a team keeps what happened. */
export type StateConfig = {
  /** 'memory'; the others are not available in this version. */
  log?: 'memory' | { path: string } | LogStore
  /** Not available in this version. */
  durability?: 'write_behind' | 'commit'
}

/** What the runtime takes. The protocol is chosen elsewhere: the runtime knows none. Durations in ms. */
export interface TeamOptions<Name extends string = string> {
  /** At least one; each with a name of its own. */
  agents: readonly AgentRole<Name>[]
  /** For every agent; a role's own `communication` goes first. */
  communication?: CommunicationConfig
  stateManagement?: StateConfig
  /**
   * How a task finds its agent where nobody says it: the way of `orchestrator.route`, in scripts and in strategies that give tasks
   * to agents which no option names; 'capability_match'. It is not asked where a message or an option names the agent.
   */
  taskRouting?: TaskRouting
  /** true: one blackboard for each run. false: none. Left out: one for each run whose agents use it. */
  enableBlackboard?: boolean | { scope: 'run' | 'team' }
  /** Where agents wait for each other; none. */
  syncPoints?: SyncPoint<NoInfer<Name>>[]
  /**
   * Turns of one run that work at the same time; 32. A turn that waits for its model or a tool counts, one that only waits for other
   * agents or a person does not. Before it goes
   * on it has its place again, whatever ends the wait: an answer, a timeout, a cancellation, a signal of the caller's own.
   * When the run itself is cancelled or its time is over, or an agent is taken out of the team, turns are told to stop at once.
   *
   * The runtime does not see work that a handler starts by itself, a timer or a `fetch`, while a request of the turn is open.
   * The turn counts as waiting then, and such work goes on beside the turns of others until its next verb. Await it first,
   * or wrap it in `context.step`.
   */
  maxConcurrentAgents?: number
  /** Runs of the team at a time; 100. */
  maxConcurrentRuns?: number
  /** Runs that may wait for their start; 1,000. Beyond, `execute` resolves with `TeamOverloadedError` and `launch` throws it. */
  maxQueuedRuns?: number
  /** Agents that one run may make, by `spawn` and `defineAgent` together, 0 to 10,000; 64. Beyond: `TeamOverloadedError`. Each has a thread. */
  maxSpawnedAgents?: number
  /** Of one run, from `execute` on, the time of models and people included; 600,000. Raise it for slow models, and where people are asked. */
  globalTimeoutMs?: number
  /**
   * `warmSpares`: threads kept ready for a restart, of each heap class (`limits.maxHeapMb`) that agents have; 1. In all 8, or
   * `warmSpares` if that is more: the classes that were needed last have theirs. While runs make agents faster than threads
   * boot there are more of them, within the same bound; 0 keeps none at all. The others are not available in this version.
   */
  threads?: { max?: number; idleMs?: number; warmSpares?: number }
  /** For every agent; a role's own `supervision` goes first. */
  supervision?: SupervisionConfig
  /** Tokens that models may cost; no limit. */
  budget?: BudgetConfig
  /**
   * By the names that roles use (`model`); a role that names none has `default`, or else the first. A name that is not here is
   * one of a model of the default's provider. Left out: the model `DRAMATIS_MODEL` with the key of `OPENAI_API_KEY`, at
   * `OPENAI_BASE_URL`. With no model and no key, and for 'rehearsal', the rehearsal model answers: it asks nobody, and says so in
   * each answer, in events and in results (`rehearsed`). When `NODE_ENV` is production only 'rehearsal' gives it.
   */
  models?: ModelsConfig | 'rehearsal'
  /**
   * `realTools`: tools run also where the rehearsal model answers, with the arguments that it invents; false. Left out, only tools
   * that say `readOnly: true` do; the others are answered in their place, from their `output` schema.
   */
  rehearsal?: { realTools?: boolean }
  /**
   * The file from which names of packages in `module` are resolved, of agents, tools and a protocol: `import.meta.url`, in CommonJS
   * `__filename`; or a folder. Left out: the working directory in which the team is made. `loadTeam` and the command line give
   * the team's own file.
   */
  resolveFrom?: string | URL
  /**
   * Names of environment variables whose values are taken out of logs, errors, events, traces and results, whatever they are called.
   * Default: none beside those that are called like a secret. Add a variable whose name does not tell that it holds one.
   */
  secretVariables?: readonly string[]
  /** Every agent can call them. The protocol script can too, but for those in modules without `isolate`. */
  tools?: ToolReference[]
  /** Where agents come from that the team does not have yet, and what its agents define is kept: `loadTeam` gives one. */
  registry?: AgentRegistry
  /** Lines on stderr, from info up. A pino logger fits. */
  logger?: Logger
  /** Where the spans of runs, turns, model calls and tool calls go: `openTelemetry()` of `dramatis/opentelemetry`. None. */
  telemetry?: Telemetry
  /** The machine's. */
  clock?: Clock
}

export type Strategy = 'one_for_one' | 'one_for_all' | 'rest_for_one'

export type RestartType = 'permanent' | 'transient' | 'temporary'
