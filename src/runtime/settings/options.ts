/** Options of a team, as its user writes them. The settings made from them are in settings.ts. */
import type { AgentType } from '../../actors/definition/context.ts'
import type { AgentRole, Guardrails, ToolReference } from '../../actors/definition/role.ts'
import type { CommunicationConfig, SupervisionConfig } from '../../actors/definition/role-config.ts'
import type { TaskRouting } from '../../actors/definition/task.ts'
import type { Logger, ModelSchema } from '../../actors/definition/tool.ts'
import type { Clock } from '../../shared/clock.ts'
import type { ConfigurationError } from '../../shared/errors.ts'
import type { ModelsConfig } from '../providers/provider.ts'
import type { LogStore } from '../store/log-files.ts'
import type { PriceList } from './money.ts'

/** Source of agents that a team does not have yet, and store of the types that its agents define. */
export interface AgentRegistry {
  /** Roles that the team was made of. */
  readonly loaded: readonly AgentRole[]
  /**
   * Returns the roles that exist now; the same list again, as long as nothing has changed.
   *
   * @throws {ConfigurationError} for an error in the registry, also when nothing has changed since.
   */
  read(): readonly AgentRole[]
  /**
   * Returns the role that a type becomes. Nothing is stored yet.
   *
   * @param maker agent that defines the type, and may give it tasks from then on; null: no agent does.
   * @throws {ConfigurationError} for a type that cannot be added.
   */
  check(type: AgentType, maker: string | null): AgentRole
  /** Stores the type permanently. Throws as `check` does, and if the type cannot be written. */
  save(type: AgentType, maker: string | null): void
  /**
   * Adds the place where the role is written to an error about a role of `loaded` (`agents[0].module`). If the method
   * is left out, the error stays as it was.
   */
  located?(error: ConfigurationError): ConfigurationError
  /** Returns the same registry, but with saved types kept in memory only: for rehearsals. */
  rehearsed(): AgentRegistry
}

/**
 * Conversation of one agent with its model in a thread. `conversation` is JSON, to be given back as it was; it belongs
 * to the team. `version` counts its writes, from 1 on.
 */
export interface StoredConversation {
  agent: string
  version: number
  conversation: object
}

/**
 * Store of conversations. A team loads those of a thread when a run of it begins, and saves those that have changed
 * when the run ends. The signal is aborted when nobody waits any more.
 *
 * @example
 * const conversations: ConversationStore = {
 *   load: (threadId) => database.talksOf(threadId),
 *   save: (threadId, stored) => database.replaceIf(threadId, stored.agent, stored.version - 1, stored),
 * }
 */
export interface ConversationStore {
  /** Returns all conversations of a thread; an empty list if there is none. */
  load(threadId: string, signal: AbortSignal): Promise<readonly StoredConversation[]>
  /**
   * Writes a conversation if the version that is stored is the one before (none for version 1), in one step. Resolves
   * to false, and writes nothing, if it is another: then a run in another process was faster, and the team merges both.
   */
  save(threadId: string, stored: StoredConversation, signal: AbortSignal): Promise<boolean>
}

/** Place where agents of one run wait for each other, any number of times: `context.sync(name)`. */
export interface SyncPoint<Name extends string = string> {
  /** Name of the point, unique in the team. */
  name: string
  /** Agents of the team that must arrive: at least one, each once. No other agent may arrive. */
  requiredAgents: readonly Name[]
  /** Time limit of a generation, from its first arrival on. In ms, above 0. */
  timeoutMs: number
  /**
   * Behaviour when a generation ends without some agents. 'proceed' (the default): the waiting agents continue, and
   * learn which agents are missing. 'abort': they get `SyncPointTimeoutError`. 'notify': as 'proceed', and
   * `$orchestrator` gets a report, which is in the run's history.
   */
  onTimeout?: 'proceed' | 'abort' | 'notify'
  /**
   * True if each agent gets the data that the others brought; default true. With false nobody gets it: neither the
   * script nor readers of events.
   */
  dataExchange?: boolean
}

/** Budget in tokens, the input and the output of models together, and in money by the team's `prices`. */
export interface TokenLimit {
  /** Limit for all agents together. At least 1. */
  tokens?: number
  /** Limit for each agent. At least 1. */
  perAgentTokens?: number
  /** Limit for all agents together, in the currency of `prices`. Above 0. */
  money?: number
  /** Limit for each agent, in the currency of `prices`. Above 0. */
  perAgentMoney?: number
}

/**
 * Time that a limit counts: any `windowMs` (ms), which slide, or a `period` of the calendar, which begins anew at its
 * boundary in the `timeZone` (default UTC): an hour, a day, a week from Monday on, a month.
 */
export type Period =
  | { windowMs: number; period?: undefined; timeZone?: undefined }
  | { period: 'hour' | 'day' | 'week' | 'month'; timeZone?: string; windowMs?: undefined }

/**
 * Budget of a team. `perRun`: in each run. `perTeam`: in all runs together, within its time. `perTenant`: in all runs
 * of one tenant together (`RunOptions.tenant`); `each` for every tenant, `of` for those that it names, in place of
 * `each`. Runs without a tenant count in no such limit.
 *
 * Before a call of a model, its possible cost is reserved: the counted tokens of its prompt, and its `maxOutputTokens`;
 * in money, the most that these can cost. A call without that limit gets 4,096, or what is left if that is 256 or more.
 * After the call its real cost is used. A call that does not fit waits for calls under way, since they can cost less
 * than they might. If that cannot help, the call fails with `BudgetExceededError`. A run whose tenant has nothing left
 * is refused before it begins.
 *
 * So a limit is only exceeded by what a provider counts beyond the reservation: a prompt that it counts differently, or
 * an answer beyond its limit. Agents at work have fair shares of what is left, and borrow what idle agents do not use.
 */
export interface BudgetConfig {
  perRun?: TokenLimit
  perTeam?: TokenLimit & Period
  perTenant?: { each?: TokenLimit; of?: Readonly<Record<string, TokenLimit>> } & Period
}

/**
 * Turns of tenants. Runs that wait for their start, and calls of models that wait for a provider or for room in a
 * budget, are given to the tenants in turns by their weights, and within a tenant by priority, then by age.
 */
export interface TenantsConfig {
  /** Weights of tenants: one with 4 gets four times as much as one with 1. Default: 1 each. */
  weights?: Readonly<Record<string, number>>
  /** Maximum number of runs of one tenant at the same time. Default: only that of the team. */
  maxConcurrentRuns?: number
  /** Maximum number of runs of one tenant that wait for their start. Default: only that of the team. */
  maxQueuedRuns?: number
}

/** Place of a durable log. */
export type LogPlace =
  | {
      /** Folder of the log; it is made if there is none. One process at a time has it. */
      path: string
      store?: undefined
    }
  | {
      /** Store of your own, in place of a folder. The team opens it at its start, once, and closes it. */
      store: LogStore
      path?: undefined
    }

/** Durable log of a team. Times in ms. */
export type StateManagement = LogPlace & StateOptions

export interface StateOptions {
  /**
   * 'write_behind', the default: what was logged survives the death of the process, and that of the machine up to the
   * last sync. 'commit': nothing leaves the process before it would survive the death of the machine too.
   */
  durability?: 'write_behind' | 'commit'
  /** Time from a write to its sync, for 'write_behind'. Default: 1,000. */
  syncMs?: number
  /**
   * Time for which the start waits while another process has the log, for deployments that start the new process before
   * the old one has ended. Default: 0, which is `LogHeldError` at once.
   */
  waitForLogMs?: number
  /**
   * States that end when the team is closed and no run is open then: 'private'
   * (`context.state`), 'shared' (`agent_shared`, `team_shared`), 'board' (a blackboard with `scope: 'team'`). After a
   * death of the process, or with an open run, they are there in the next process all the same. Default: none of them
   * ends, all stay in the log.
   */
  endsWithSession?: readonly ('private' | 'shared' | 'board')[]
  /**
   * 'start', the default: runs that an earlier process has not ended go on at the start. 'manual': they stay
   * 'interrupted', and nothing of them runs, until `team.resume` or `team.resumePending` goes on with them.
   */
  resume?: 'start' | 'manual'
  /**
   * Fate of a run of an earlier process whose code has changed, so that it comes to a step that the log does
   * not have, and does not ask again for steps that the log has. 'refuse', the default: nothing of that is done, and
   * the run stays 'interrupted' with a `StepMismatchError`. 'continue': the run goes on, and what is the same still
   * comes from the log.
   */
  onMismatch?: 'refuse' | 'continue'
  /**
   * Finished runs that the log keeps: so long their results can be had, and their `runId` joins them. A run goes when
   * one of the limits is exceeded; the one that ended first goes first. What is not finished is always kept.
   */
  keep?: {
    /** Number of runs. Default: 1,000. */
    runs?: number
    /** Days since their end. Default: 30. */
    days?: number
    /**
     * Time in ms for which the idempotency key of a task over HTTP is known after the end of its run, also if the run
     * itself is forgotten: sent again, it does not begin the task a second time. Default: 86,400,000, a day.
     */
    keysMs?: number
    /** Bytes of the log that they take, all together. Default: 1 GiB. */
    bytes?: number
  }
  /**
   * Folder that gets a JSON file for each finished run before the log forgets it: the run itself, its messages and its
   * trace. A run that cannot be written there is not forgotten. Default: none.
   */
  archive?: string
}

/** Threads of the agents of a team, and of tools that have a thread of their own. */
export interface ThreadsConfig {
  /**
   * Number of threads that agents may have at the same time. Default: no limit. An agent that has a message and no
   * thread waits for one; the idle agent that was used least recently loses its own. If the agents do not fit, none of
   * them starts before its first message. The bound is exceeded while every thread belongs to an agent whose turn waits
   * for others. Spare threads, threads that model agents share and the thread of a protocol script do not count.
   */
  max?: number
  /**
   * Time in ms after which an agent without a message, a timer or a connection loses its thread, until its next
   * message. Default: it keeps the thread.
   */
  idleMs?: number
  /**
   * Number of threads kept ready for a restart, for each heap class (`limits.maxHeapMb`) that agents have. Default: 1.
   * The total is at most 8, or `warmSpares` if that is more: the most recently needed classes have theirs. While runs
   * make agents faster than threads boot, there are more of them, within the same bound; 0 keeps none at all.
   */
  warmSpares?: number
  /**
   * Number of calls of isolated tools at a time, for each set of limits (`maxHeapMb`, `env`) that tools have. Each call
   * has a thread alone. Default: the number of processors, at least 2.
   */
  tools?: number
  /** Number of calls that may wait for such a thread. Default: 256. Beyond that: `ToolFailedError`. */
  toolQueue?: number
  /**
   * Default for roles without an `isolation` of their own. 'thread' (the default): each agent has its own. 'shared':
   * model agents share threads, up to 256 to a thread; a role that has code for its thread, or limits or environment
   * variables of it, keeps a thread of its own.
   */
  isolation?: 'thread' | 'shared'
}

/** Options of the runtime. The protocol is chosen elsewhere: the runtime knows none. Durations in ms. */
export interface TeamOptions<Name extends string = string> {
  /** Roles of the team: at least one, each with a unique name. */
  agents: readonly AgentRole<Name>[]
  /** Communication settings for every agent; a role's own `communication` comes first. */
  communication?: CommunicationConfig
  /**
   * Routing of a task whose agent is not given: the default of `orchestrator.route`, in scripts and in strategies that
   * give tasks to agents which no option names ('collaborate', 'custom'). Default: 'capability_match'. It is not used
   * if a message or an option names the agent; under a strategy that routes nothing it is refused.
   */
  taskRouting?: TaskRouting
  /** true: one blackboard for each run. false: none. Left out: one for each run whose agents use it. */
  enableBlackboard?: boolean | { scope: 'run' | 'team' }
  /** Places where agents wait for each other. Default: none. */
  syncPoints?: readonly SyncPoint<NoInfer<Name>>[]
  /**
   * Number of turns of one run that work at the same time. Default: 32. A turn that waits for its model or a tool
   * counts; one that only waits for other agents or a person does not. Before such a turn resumes it gets its place
   * again, whatever ends the wait: an answer, a timeout, a cancellation, a signal of the caller's own. When the run
   * itself is cancelled or its time is over, or an agent is removed from the team, turns are asked to stop at once.
   *
   * The runtime does not see work that a handler starts by itself, such as a timer or a `fetch`, while a request of the
   * turn is open. The turn then counts as waiting, and such work runs beside the turns of others until its next verb.
   * Await it first, or wrap it in `context.step`.
   */
  maxConcurrentAgents?: number
  /**
   * Bytes of the images, sounds and files of 64 KiB and more that the team stores at a time, for all runs that it has
   * in memory. Default: 1 GiB. Beyond that, a run or a message that brings another one is refused with `PartLostError`.
   */
  maxStoredBytes?: number
  /** Number of handoffs in one run, under each strategy. Default: 10. Who speaks then has to answer. */
  maxHandoffs?: number
  /** Number of concurrent runs of the team. Default: 100. */
  maxConcurrentRuns?: number
  /**
   * Number of runs that may queue for their start. Default: 1,000. Beyond that, `execute` resolves with
   * `TeamOverloadedError` and `launch` throws it.
   */
  maxQueuedRuns?: number
  /**
   * Number of agents that one run may make, by `spawn` and `defineAgent` together: 0 to 10,000. Default: 64. Beyond
   * that: `TeamOverloadedError`. Each agent has a thread.
   */
  maxSpawnedAgents?: number
  /**
   * Time limit of one run in ms, from `execute` on, the time of models included. Default: 600,000. Raise it for slow
   * models. It stands still while a person is asked in the run.
   */
  globalTimeoutMs?: number
  /** Threads of the agents: how many there may be, how long an idle agent keeps its own, how many stand ready. */
  threads?: ThreadsConfig
  /** Supervision settings for every agent; a role's own `supervision` comes first. */
  supervision?: SupervisionConfig
  /** Budget for models, in tokens and in money. Default: no limit. */
  budget?: BudgetConfig
  /** Prices of models, for `result.money` and for limits in money. Default: none, and no money is counted. */
  prices?: PriceList
  /** Turns and bounds of tenants. Default: all weigh the same, and none has bounds of its own. */
  tenants?: TenantsConfig
  /**
   * Models by the names that roles use (`model`). A role that names none gets `default`, or else the first one. A name
   * that is not in the list means a model of the default's provider.
   *
   * Left out: the model `DRAMATIS_MODEL` with the key of `OPENAI_API_KEY`, at `OPENAI_BASE_URL`. With no model and no
   * key, and for 'rehearsal', the rehearsal model answers: it asks nobody, and says so in each answer, in events and in
   * results (`rehearsed`). When `NODE_ENV` is production, only 'rehearsal' selects it.
   */
  models?: ModelsConfig | 'rehearsal'
  /**
   * `realTools`: true runs tools even if the rehearsal model calls them, with the arguments that it invents. Default:
   * false. Left out, only tools with `readOnly: true` run; the others are answered in their place, from their `output`
   * schema.
   */
  rehearsal?: { realTools?: boolean }
  /**
   * File from which package names in `module` are resolved, for agents, tools and a protocol: `import.meta.url`, in
   * CommonJS `__filename`; or a folder. Left out: the file that calls `createTeam` or `defineTeam`, an `agents.yaml`,
   * or the team file of a command; the working directory where no file calls, as in a REPL.
   */
  resolveFrom?: string | URL
  /**
   * Names of environment variables whose values are removed from logs, errors, events, traces and results, whatever the
   * names are. Default: only variables that are named like a secret. Add a variable if its name does not show that it
   * holds a secret.
   */
  secretVariables?: readonly string[]
  /**
   * Profiles of API keys: the names of environment variables under the name of each profile. A role holds those that
   * its `keys` name, and its thread sees their variables. A sub-task that names one (`apiKeysConfigRef`) goes only to
   * an agent that holds it. The values are secrets, as those of `secretVariables`.
   *
   * @example
   * keys: { free: ['SEARCH_KEY_FREE'], paid: ['SEARCH_KEY_PAID'] }
   */
  keys?: Readonly<Record<string, readonly string[]>>
  /**
   * Tools that every agent can call. The protocol script can call them too, except those in modules without `isolate`.
   */
  tools?: readonly ToolReference[]
  /**
   * Source of agents that the team does not have yet, and store of the types that its agents define. `loadTeam` sets
   * one.
   */
  registry?: AgentRegistry
  /**
   * Keeps the log of the team on the disk, in a folder of its own. When the process has died, the same program takes
   * all unfinished runs up where they were, at `start` or with the first run. No model call, tool call or step whose
   * outcome stands in the log is made a second time. Left out: the log is in memory. A test team and a rehearsal keep
   * it in memory too.
   */
  stateManagement?: StateManagement
  /**
   * File of the state 'persistent' (`context.shared('persistent')`), for a team without `stateManagement`: the state
   * outlives the session and the process. It is JSON, and made with the first value. An update resolves when it is
   * written. Default: none, the state ends with the team.
   */
  persistentFile?: string
  /**
   * Checks of the query (`input`) and the answer (`output`) of each run, and of all calls of tools (`tool`). A role can
   * have its own.
   */
  guardrails?: Guardrails
  /**
   * Schema of the answer of every run of the team that brings none of its own: see `output` of a run. Runs of one agent
   * alone do not have it. A JSON Schema will do.
   */
  output?: ModelSchema | object
  /**
   * Store of the conversations of threads (`threadId`), which several processes can share: a run loads them when it
   * begins, and saves them when it ends. Default: they are in memory, and in the log of `stateManagement`.
   */
  conversations?: ConversationStore
  /** Logger. Default: lines on stderr, from info up. A pino logger fits. */
  logger?: Logger
  /**
   * Target of the spans of runs, turns, model calls and tool calls: `openTelemetry()` of `dramatis/opentelemetry`.
   * Default: none.
   */
  telemetry?: Telemetry
  /** Clock of the team. Default: the machine's clock. */
  clock?: Clock
}

export type Strategy = 'one_for_one' | 'one_for_all' | 'rest_for_one'

export type RestartType = 'permanent' | 'transient' | 'temporary'

/*
 * Target of the spans of a team, as the runtime sees it. It is an interface of its own, so that the runtime does not
 * depend on OpenTelemetry: `openTelemetry()` of `dramatis/opentelemetry` implements it.
 */

/** Attributes of a span. An attribute that is undefined is left out. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>

/** Place in a trace where spans can have their parent. Only the telemetry that made it knows what it is. */
export type TracePlace = object

/** Place in a trace in the format of W3C Trace Context, with what the caller passes along as W3C Baggage. */
export interface TraceHeaders {
  traceparent?: string
  tracestate?: string
  baggage?: string
}

/** Start of a span. `at` is epoch ms. */
export interface SpanStart {
  name: string
  kind: 'internal' | 'client' | 'server'
  at: number
  /** Parent of the span; undefined: it begins a trace of its own. */
  parent: TracePlace | undefined
  /** Another place that it belongs to: the request that brought it. */
  link?: TracePlace | undefined
  attributes: SpanAttributes
}

/** Span that has begun. Times are epoch ms. */
export interface TelemetrySpan {
  /** Place under this span. */
  readonly place: TracePlace
  /** Place under this span for other systems. */
  readonly headers: TraceHeaders
  set(attributes: SpanAttributes): void
  event(name: string, at: number, attributes: SpanAttributes): void
  /** Ends the span. `message`: the text of a failure, if it may be shown. */
  end(at: number, failed: boolean, message?: string): void
  /** Runs the task with the span as the active one. */
  within<T>(task: () => T): T
}

/** Receives the spans of a team. Errors that it throws are logged and have no other effect. */
export interface Telemetry {
  /** Name of the team's runs in `gen_ai.workflow.name`; if left out, they have none. */
  readonly workflowName?: string | undefined
  /**
   * True if queries, prompts, answers, the input and output of tools, and the texts of errors may be in attributes.
   * Default: false.
   */
  readonly captureContent?: boolean | undefined
  /** Returns the caller's present place in a trace. */
  active(): TracePlace | undefined
  /** Returns the place that the headers name; undefined if they name none. */
  continued(headers: TraceHeaders): TracePlace | undefined
  startSpan(start: SpanStart): TelemetrySpan
}
