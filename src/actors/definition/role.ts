/** Types of roles: the options that a user writes, and the part of them that a thread gets. */

import type { ModelOptions } from './model-options.ts'
import type { CommunicationConfig, RemoteAgent, SupervisionConfig } from './role-config.ts'
import type { ModelSchema, Tool } from './tool.ts'

/**
 * Decision of a guardrail: nothing to let it pass, a value in its place, or the reason why it is refused. The reason is
 * told to the caller, or to the model if it is about a tool.
 */
export type GuardrailVerdict<Value> = undefined | { change: Value } | { refuse: string }

/** Place of a check. `agent`: null for the query and the answer of a run. The signal ends the check. */
export interface GuardrailContext {
  agent: string | null
  runId: string
  signal: AbortSignal
}

/** Call of a tool. `input` is what the model, or code, calls it with. */
export interface GuardedCall {
  tool: string
  input: unknown
}

/**
 * A check. It runs in the host. A check that throws, or that takes longer than `timeoutMs` (120,000), counts as a
 * refusal. `when`, for an input: 'beside' (the default) runs beside the work, which ends if the check refuses;
 * 'before' runs before it, and may change the input.
 *
 * @example
 * const noCards: Guardrail = {
 *   name: 'no cards',
 *   check: (text) => (/\d{16}/.test(text) ? { refuse: 'Leave card numbers out.' } : undefined),
 * }
 */
export interface Guardrail<Value = string> {
  name: string
  when?: 'before' | 'beside'
  timeoutMs?: number
  check(value: Value, context: GuardrailContext): GuardrailVerdict<Value> | Promise<GuardrailVerdict<Value>>
}

/** Checks of a team or a role, each list in its order. */
export interface Guardrails {
  /** Checks of the query of each run; of a role: of what its model is asked. */
  input?: readonly Guardrail[]
  /** Checks of the answer of each run; of a role: of what its model answers. Nothing of it is streamed before. */
  output?: readonly Guardrail[]
  /** Checks of each call of a tool. A change is one of the input. */
  tool?: readonly Guardrail<GuardedCall>[]
}

/** Kinds of checks that a thread has to ask the host for. */
export interface GuardedBy {
  /** Checks before the model is asked, and beside it. */
  before: boolean
  beside: boolean
  output: boolean
  tool: boolean
}

/** Verb that runs checks. */
export const GUARD = 'guard'

/** Arguments of that verb, and its result: the value, changed or not. */
export type GuardArguments = { on: 'before' | 'beside' | 'output'; value: string } | ({ on: 'tool' } & GuardedCall)

/** Verb by which a turn asks the agent elsewhere that plays its role. */
export const REMOTE = 'remote'

/** Verbs that the host serves and that are a turn's own work: a turn that calls one does not wait for others. */
export const OWN_WORK: ReadonlySet<string> = new Set(['model', 'tool', REMOTE, GUARD])

/** A declared ability of an agent. Tasks find their agent by it (`orchestrator.route`, auctions). */
export interface Capability {
  /** Name by which a task requires it, in any letter case. */
  name: string
  /** Description for models that may give tasks to the agent, and for an auctioneer. */
  description?: string
  /** Accepted input types. Default: any. A task with other types does not match. */
  inputTypes?: readonly string[]
  /** Output types. Default: any. */
  outputTypes?: readonly string[]
  /**
   * Estimated tokens for one such task. An agent with fewer tokens left, of `maxTokens` or of its budget, gets none.
   */
  estimatedTokens?: number
  /** Confidence of the agent in this ability, from 0 to 1. Default: 1, as for a capability that is only a name. */
  confidence?: number
}

/**
 * The part of a role that a thread gets: data only. `context.role` has this type, never AgentRole. Options of its model
 * calls (`ModelOptions`) hold for all of them; a single call can set its own.
 */
export interface RoleInfo<Name extends string = string, Data = unknown> extends ModelOptions {
  name: Name
  description?: string
  /**
   * Parts that it accepts beside text: 'image', 'audio', 'file'. A message with another is refused
   * (`MessageRejectedError`). Default: all of them.
   */
  accepts?: readonly ('image' | 'audio' | 'file')[]
  /**
   * System prompt, the first message to a model: for a role without code, and before each `prompt` of
   * `context.complete`.
   */
  systemPrompt?: string
  capabilities?: readonly (string | Capability)[]
  /**
   * Names that a task which mentions one is routed by, as by those of the tools, after the capabilities. No tool stands
   * behind them, and a model is not told of them.
   */
  skills?: readonly string[]
  /**
   * 'all': its model has every verb as a tool that the role has the rights for, whether `tools` names it or not. Each
   * takes tokens in each call. Default: the verbs that its rights give and `tools` names.
   */
  verbs?: 'all'
  /** A name in the team's `models`. Default: `default`, or else the first name. */
  model?: string
  /**
   * Context window of its model, in tokens, answer included. Default: 128,000. `contextStrategy` respects it. It does
   * not go to the provider: `maxOutputTokens` is the limit of an answer.
   */
  maxTokens?: number
  /**
   * Limit of one completion, in tokens, as the provider gets it; less than `maxTokens`. An answer that it cuts
   * off is used as it is, with a warning in the log.
   */
  maxOutputTokens?: number
  /**
   * Rounds of model and tools in one turn, before the turn escalates. Default: 12. Each sub-task that the model names
   * by `decompose_task` has as many, until it calls `mark_subtask_complete`; so have the first 20 of a turn.
   * A round in which a person answered does not count, up to 200 of them.
   */
  maxRounds?: number
  /**
   * Number of tool and verb calls that run at a time, among those that the model asks for in one answer. Default: 32.
   * With 1 they run one after the other in the order of the answer, for tools that must not run side by side. For a
   * single such tool use `sequential: true` (`defineTool`).
   */
  maxParallelToolCalls?: number
  /**
   * Permission to delegate tasks to others. Default: true. The tools for it cost tokens in each call of a model. So its
   * model has them if this is written as true, or `canDelegateTo` names agents, or `tools` names the verbs, or the
   * strategy lets agents act by themselves (`workerAutonomy: 'high'`).
   */
  delegationAllowed?: boolean
  /** Names of the only agents of the team that it may delegate to. Default: all agents. */
  canDelegateTo?: readonly string[]
  /**
   * Names of the only agents to which it may hand its duty to answer off. Its model has the tool `handoff` then.
   * Default: those of `canDelegateTo`.
   */
  canHandoffTo?: readonly string[]
  /** Says whether others may delegate tasks to it, or `collaborate` broadcast them. Default: true. */
  canBeDelegatedTo?: boolean
  /** Name of its manager, which is asked when the agent cannot go on, and which gets its reports. */
  escalateTo?: string
  /** Names of agents that may read its agent_shared state. */
  sharedWith?: readonly string[]
  /** Priority when permits are scarce; higher goes first. Default: 0. */
  priority?: number
  /** Weight of its vote, 0 or more. Default: 1. null, NaN and Infinity are legal and mean that the majority decides. */
  weight?: number | null
  /**
   * Trust level of the agent.
   *
   * - 'untrusted': it may answer, and report to `escalateTo` and the protocol script, nothing else.
   * - 'internal' (the default): it may also send and request, delegate along the delegation graph, use the blackboard,
   *   sync points and its tools.
   * - 'privileged': it may also use `spawn` and `defineAgent`.
   *
   * The host enforces this: a refused message is a dead letter, any other refusal is a line in the log.
   */
  trust?: 'untrusted' | 'internal' | 'privileged'
  /** A JSON value for the agent's own use: `context.data`. */
  data?: Data
}

/**
 * A tool, in one of three forms.
 *
 * - The result of `defineTool`: it runs in the host.
 * - A tool in a module (`export`: 'default' by default): it is loaded with the agent and runs in the agent's thread.
 *   With `isolate: true` it runs in a thread of its own, which is ended when its time is up. That thread has at most
 *   `limits.maxHeapMb` of heap, and sees only the environment variables that `env` names.
 * - A string: the name of a tool of the team, or of a verb that a model is given as a tool: `delegate`, `send`, `sync`,
 *   `ask_user` (or `clarify_with_user`), `delegate_to_executor`, and others (docs/reference/verbs.md).
 *
 * A name that is neither, and none of the role's `skills`, is a `ConfigurationError` at the start; under `collaborate`,
 * which routes by such names, it is a skill.
 *
 * @example
 * const parse = { module: new URL('./parse.js', import.meta.url), isolate: true }
 * const tools: ToolReference[] = [search, parse, 'delegate']
 */
export type ToolReference =
  | string
  | Tool
  | {
      module: URL | string
      export?: string
      isolate?: boolean
      env?: readonly string[]
      limits?: { maxHeapMb?: number }
    }

/**
 * Chooses the part of its conversation that a model sees when the conversation grows. Default: 'append_until_full'.
 *
 * - 'append_until_full': the whole conversation, until it takes `threshold` (0.8) of `maxTokens`, tools counted. Then
 *   the last `keepRecent` (20) messages, and one summary of the others. The role's model writes the summary, in a step
 *   that is paid like any other. If that fails, an excerpt takes its place and says that it is one.
 * - 'hierarchical': the goal, the task and the sub-task, and the last `historyKeep` (12) exchanges. An exchange is a
 *   message of the model with the results of its tool calls. Sub-tasks are those that the model has given to its tools
 *   `decompose_task` and `mark_subtask_complete` in the turn.
 * - 'custom': the messages that `buildContext` of the definition returns.
 *
 * A tool call and its results stay together, the system prompt stays, and a message tells how much is left out. If the
 * rest still does not fit into `maxTokens`, older exchanges are left out, then the longest results of tools are
 * shortened, with a note. If the newest message alone does not fit, the turn fails with `ConfigurationError`.
 *
 * `inherit`: the part of another model's conversation that this agent's model gets when that model asks it or gives it
 * a task, also by its plan (`hierarchical`, `supervisor`). 'none' (the default): the request only. 'summary': a
 * summary, or the conversation itself if it is short. 'full': the last 32,768 characters of it, and a summary of what
 * was before. It is sent as `metadata.inherited`.
 */
export type ContextStrategy = { inherit?: 'none' | 'summary' | 'full' } & (
  | { strategy: 'append_until_full'; threshold?: number; keepRecent?: number }
  | { strategy: 'hierarchical'; historyKeep?: number }
  | { strategy: 'custom' }
)

/**
 * Options of an agent of a team. Its thread sees the data fields (`RoleInfo`) as `context.role`.
 *
 * @example
 * const role: AgentRole = {
 *   name: 'critic',
 *   module: new URL('./critic.js', import.meta.url),
 *   data: { strictness: 3 },
 *   limits: { maxHeapMb: 256 },
 *   env: ['CRITIC_KEY'],
 * }
 */
export interface AgentRole<Name extends string = string> extends RoleInfo<Name> {
  /**
   * Tools that it can call in addition to those of the team, each with a name of its own. Also verbs that its model
   * gets as tools, in addition to those that its rights give it (`context.think`).
   */
  tools?: readonly ToolReference[]
  /**
   * Module with its code; the default export is `defineAgent(...)`. A URL, an absolute path or a bare specifier.
   * Without it a model plays the role: it answers each message by `context.think`, with the earlier messages of the
   * same run.
   */
  module?: URL | string
  /**
   * Another program plays the role: it gets each message as a prompt, and what it says is the answer. Then the role has
   * no prompt, model, tools, output or code of its own.
   */
  remote?: RemoteAgent
  /**
   * Number of threads that take from one mailbox, from 1 to 256. Default: 1.
   *
   * Each thread restarts on its own, and is stopped on its own if it crashes more often than `maxRestarts`. The agent
   * is stopped when all of them are. A message goes to the thread that is free next, in the order of the mailbox, so
   * two messages of one run can be handled at once. `maxConcurrentAgents` counts each turn. A turn that a crash of one
   * thread interrupts may run again in another, with the steps that were done.
   *
   * With more than 1 the agent has no state: `initialState` and `initialRunState` are a `ConfigurationError`, and so
   * are `setState` and `setRunState`. Shared data belongs on the blackboard. A model that plays the role then takes
   * each message without the earlier ones. For `supervision.strategy` the threads stand one after the other.
   */
  instances?: number
  /**
   * Number of runs whose turns may be open in its thread at a time, from 1 to 256. Default: 1; for model agents 32.
   *
   * Each run has one turn at a time, and `maxConcurrentAgents` counts each. It is for handlers that mostly wait: a
   * handler that blocks the thread blocks all of them. A turn that waits for a person does not count. With more than 1
   * the agent has no state of its own: `initialState` is a `ConfigurationError`, and so is `setState`. The state of a
   * run (`initialRunState`, `setRunState`) works.
   *
   * After a crash with several open turns they are redelivered one at a time, until the guilty one is found: the next
   * one when the turn before it has ended, or only waits for others. A message never passes an earlier waiting one of
   * the same sender and priority.
   */
  concurrency?: number
  /**
   * Schema of the answers of its model, whoever asks: a Standard Schema with JSON schema (zod, arktype, ...), or a JSON
   * Schema. An answer that misses it is asked for once more, then the turn
   * fails. The schema of a request goes first: that of the run for its last speaker, and that of `askFor`. A run that
   * has no schema has its `data` from that of the role that speaks last. An agent with a `module` has its `output` in
   * `defineAgent`.
   */
  output?: ModelSchema | object
  /** Chooses the part of its conversation that its model sees, in a role without code and in `context.think`. */
  contextStrategy?: ContextStrategy
  /**
   * 'thread': the agent has a thread for itself. 'shared': it shares one with other model agents. Default:
   * `threads.isolation` of the team, else 'thread'.
   *
   * Up to 256 agents share a thread. An agent then takes a few hundred KB instead of some 8 MB. 'shared' is a
   * `ConfigurationError` for a role with a module, with tools in modules without `isolate`, with `env`,
   * `limits.maxHeapMb` or `limits.maxExternalMb`. Everything else is the same: mailboxes, turns, permits, deadlines,
   * kills. If a shared thread ends, all of its agents restart, each by its own `supervision`. The agent that the thread
   * worked for is charged with the crash; the others, and their messages, are not.
   */
  isolation?: 'thread' | 'shared'
  /**
   * Decides how this agent handles a request that comes back: a turn of this agent has caused it by its own requests,
   * so the turn waits for its result.
   *
   * - 'none' (the default of code agents): the request waits in the mailbox for the end of that turn, which waits for
   *   it: a deadlock.
   * - 'chain' (the default of model agents): the request runs within that turn as soon as that turn only waits for
   *   others. It is a turn with its own end, deadlines and commit. So a worker can ask the manager that waits for it.
   *
   * Of the open turns of a run one works at a time. An answer that another of them waits for is delivered when the
   * working turn waits itself, or has ended. They share a permit (`maxConcurrentAgents`). The request passes all
   * waiting messages of the mailbox, also earlier ones of its own sender, and a full mailbox accepts it: those messages
   * would wait for the turn that waits for it. Up to 8 turns of one chain run within each other; one more is refused
   * with `ChainDepthError`.
   *
   * When the outer turn ends, everything that it waits for ends, and so does the turn within it. After a crash both are
   * redelivered, each with its steps; the turn that was working is charged.
   *
   * The handler may therefore run again between a request and its answer. Its variables may have changed, and so may
   * `state` (`setState` loses nothing by it). A handler that holds its own lock during a request locks itself out.
   * Source: Orleans' call-chain reentrancy.
   */
  reentrancy?: 'chain' | 'none'
  /**
   * Limits of the agent's thread and turns.
   *
   * - `maxHeapMb`: heap of its thread. Default: Node's own limit, or half of the memory that the process may use if
   *   that is less.
   * - `turnTimeoutMs` (300,000): limit of a turn. The time in which it waits for models and people does not count, as
   *   for `responseTimeoutMs`. It also limits a start: the import of the module and the start hook. A longer start is a
   *   `StartFailedError`.
   * - `maxExternalMb` (no limit): memory that its thread holds outside of the heap: buffers, memories of WebAssembly
   *   and the like. SharedArrayBuffers and shared memories do not count, and before Node 22 neither does the growth of
   *   a resizable buffer, since Node does not count them. Nor do memories of WebAssembly from Node 26 on.
   * - `messagesPerTurn` (1,000 for a role that a model plays, no limit for code, which back-pressure bounds): messages
   *   that one turn may send; one more is refused with `MessageRejectedError`. A message to all counts once.
   *
   * `maxExternalMb` is checked after turns, and every 250 ms during a turn. A thread that holds more after a garbage
   * collection is ended, which counts as a crash. So a thread can exceed the limit by as much as it allocates in 250
   * ms. A thread that blocks cannot report its memory. From Node 22.16 on it is still ended at twice the limit plus 256
   * MiB, with garbage counted. On an older Node it is ended when it continues, or by `supervision.watchdogMs`.
   */
  limits?: {
    maxHeapMb?: number
    maxExternalMb?: number
    turnTimeoutMs?: number | false
    messagesPerTurn?: number
  }
  /** Names of the environment variables that its thread may see; no others exist there. */
  env?: readonly string[]
  /** Profiles of API keys that it holds, by their names in the team's `keys`. Its thread sees their variables too. */
  keys?: readonly string[]
  /**
   * Takes precedence over the team's `supervision`. An agent that does not restart is stopped: callers that wait for it
   * get `AgentTerminatedError`, and its messages are dead letters. Source: OTP's `supervisor`.
   *
   * `restart`:
   *
   * - 'permanent' (the default): it restarts after every end of its thread.
   * - 'transient': it restarts only after a crash. `process.exit(0)` is a normal end, unless another agent makes this
   *   one restart later (`strategy`).
   * - 'temporary': it never restarts.
   */
  supervision?: Pick<
    SupervisionConfig,
    | 'maxRestarts'
    | 'withinMs'
    | 'backoff'
    | 'poisonAttempts'
    | 'onHandlerError'
    | 'watchdogMs'
    | 'stopGraceMs'
    | 'slowMs'
  > & { restart?: 'permanent' | 'transient' | 'temporary' }
  /**
   * Checks of what its model is asked (`input`) and answers (`output`), and of its calls of tools (`tool`), which come
   * after those of the team. An agent with code has those of tools alone.
   */
  guardrails?: Guardrails
  /** Takes precedence over the team's `communication`. */
  communication?: CommunicationConfig
}

/*
 * Defines which verbs an agent may use by its trust level. Host and threads share one table: the host refuses verbs by
 * it, and threads offer verbs to models by it. Source: requirement P31.
 */

/** Verb that reports that a model repeats itself in a loop. */
export const LOOP_FOUND = 'model.loop'

/** Verb that tells a model's turn about the agents that it may turn to. */
export const MODEL_TURN = 'model.turn'

/** Part of a shared conversation that the next speaker sees; 'filter': a function of the team returns it. */
export type FloorHistory = 'conversation' | 'summary' | 'task' | 'filter'

/** Verb by which the target of a handoff confirms that it has not refused the task. */
export const ACKNOWLEDGE = 'handoff.acknowledge'

/** Verb that asks an agent where its key is: a request with a `key`. */
export const KEYED = 'request.keyed'

type Trust = NonNullable<RoleInfo['trust']>

const RANKS: Readonly<Record<Trust, number>> = { untrusted: 0, internal: 1, privileged: 2 }

/**
 * The least trust for each verb. A key is the verb's name, or the name of the call that serves it. Answering a message
 * is not a verb: every agent may answer.
 */
const LEAST = {
  report: 'untrusted',
  model: 'untrusted', // a model agent cannot answer without this verb and the next two
  [MODEL_TURN]: 'untrusted',
  [REMOTE]: 'untrusted', // an agent elsewhere cannot answer without it
  'run.output': 'untrusted',
  [GUARD]: 'untrusted',
  [LOOP_FOUND]: 'untrusted',
  [ACKNOWLEDGE]: 'untrusted', // for a task that it was given
  send: 'internal',
  request: 'internal',
  [KEYED]: 'internal', // a request with a key
  broadcast: 'internal',
  delegate: 'internal',
  handoff: 'internal',
  managers: 'internal', // used by `escalate`
  reassign: 'internal',
  'blackboard.write': 'internal',
  'blackboard.read': 'internal',
  'blackboard.query': 'internal',
  'blackboard.history': 'internal',
  'blackboard.waitFor': 'internal',
  'shared.get': 'internal',
  'shared.update': 'internal',
  subscribe: 'internal',
  watch: 'internal',
  sync: 'internal',
  synced: 'internal',
  decide: 'internal',
  route: 'internal',
  candidates: 'internal',
  approve: 'internal', // asks for the approval of a call of a tool
  ask: 'internal', // a person would take the question for one of the whole team
  agents: 'internal',
  tool: 'internal',
  'tool.simulated': 'internal',
  // The new agent can have any trust, and no agent may create one that is more trusted than itself.
  spawn: 'privileged',
  define: 'privileged',
} as const satisfies Record<string, Trust>

export type Verb = keyof typeof LEAST

export const isVerb = (name: string): name is Verb => Object.hasOwn(LEAST, name)

/** Returns the least trust that this verb requires. */
export const trustFor = (verb: Verb): Trust => LEAST[verb]

/** Checks whether an agent with that trust may use this verb. Without a trust the agent counts as 'internal'. */
export function isTrustedTo(trust: Trust | undefined, verb: Verb): boolean {
  return RANKS[trust ?? 'internal'] >= RANKS[LEAST[verb]]
}
