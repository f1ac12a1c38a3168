/**
 * Context of an agent's handler and of a protocol script. Verbs are grouped by subject: messages in conversation.ts,
 * tasks in task.ts. This file has state, the turn itself, its own work, and the team as a script sees it.
 */

import type { Immutable } from 'immer'
import type { ConversationContext, SyncResult } from './conversation.ts'
import type { Completion, CompletionRequest } from './model.ts'
import type { RoleInfo, ToolReference } from './role.ts'
import type {
  AgentStatus,
  Candidate,
  CandidateOptions,
  PendingTask,
  RouteOptions,
  TaskContext,
  TaskInput,
} from './task.ts'
import type { Logger, Schema, Tool } from './tool.ts'

export type {
  AgentRef,
  AskOptions,
  InputOf,
  Outcome,
  OutputOf,
  Recipient,
  RequestOptions,
  SyncResult,
} from './conversation.ts'
export type { EscalationOutcome } from './task.ts'

/**
 * A role that an agent creates at run time; JSON, since it is sent to other threads. `module`: an absolute path, the
 * href of a file, or a package. `lifetime` 'run' (the default): the agent is removed when the run is over and quiet,
 * its name is unique in the run, and no other run sees it. 'team': it stays, like an agent that `addAgent` has added.
 * `isolation`: as in the roles of the team.
 */
export type SpawnRole = Omit<RoleInfo, 'canHandoffTo'> & {
  module?: string
  tools?: readonly Exclude<ToolReference, Tool>[]
  lifetime?: 'run' | 'team'
  isolation?: 'thread' | 'shared'
}

/**
 * A type of agent that an agent defines; JSON, since it is sent to other threads. `class` and `module` are as in the
 * registry, an agents.yaml: the name of a class, and a path relative to the file. Without both, the type is only a
 * prompt.
 */
export type AgentType = Omit<RoleInfo, 'canHandoffTo'> & {
  class?: string
  module?: string
  tools?: readonly Exclude<ToolReference, Tool>[]
}

/**
 * Second argument of a handler: the agent, its state, and the verbs. A verb with an effect is a step: a turn that is
 * redelivered after a crash gets the step's result from the log. After the turn has ended, every verb rejects (or
 * throws) `TurnEndedError`. Verbs reject with a `DramatisError`; a verb that is not available yet with
 * `ConfigurationError`.
 *
 * @example
 * export default defineAgent({
 *   async receive(message, context) {
 *     const page = await context.step('fetch', async () => (await fetch(message.content)).text())
 *     await context.publish('page', { length: page.length }, 'fact')
 *     const summary = await context.request('summarizer', page)
 *     return summary.content
 *   },
 * })
 */
export interface AgentContext<State = object, RunState = object, Data = unknown>
  extends StateContext<State, RunState>,
    ConversationContext,
    TaskContext {
  /** This agent's role in the team: data only, frozen. */
  readonly role: RoleInfo
  /** `data` of the role, as the agent's schema returned it. */
  readonly data: Data
  readonly runId: string
  /** `caller`, `tenant`: whom the run is for, if it was said (`RunOptions`). */
  readonly run: {
    metadata: Readonly<Record<string, string>>
    threadId?: string
    caller?: string
    tenant?: string
  }
  /** Aborted when the request is cancelled, the run ends, the turn times out or the agent is stopped. */
  readonly signal: AbortSignal
  /** Number of this attempt: 1, plus one for each time that this message's turn was interrupted. */
  readonly attempt: number
  /** Writes lines into the team's log, with the agent's name. */
  readonly log: Logger
  /**
   * Creates another agent, and resolves with its name when it is ready. For protocol scripts, and for agents with
   * `trust: 'privileged'`. Without a `module` a model plays it. The new agent has the team's defaults and no
   * environment variables. A run may create up to `maxSpawnedAgents` (64). With a durable log it is there again after a
   * restart.
   *
   * Rejects with `ConfigurationError` for a wrong role, a name that an agent has already, or a module that cannot be
   * loaded; with `StartFailedError`; with `TeamOverloadedError` beyond `maxSpawnedAgents`.
   *
   * @example
   * const name = await context.spawn({ name: 'reader-1', module: new URL('./reader.js', import.meta.url).href })
   * const { content } = await context.request(name, 'Read chapter 1.')
   */
  spawn(role: SpawnRole): Promise<string>
  /**
   * Defines a type of agent permanently, and resolves with its name when an agent of it is ready. The agent joins the
   * team, and the type is written into the team's registry, the agents.yaml that `loadTeam` has read. For protocol
   * scripts, and for agents with `trust: 'privileged'`. The agent that defines it may delegate to it from then on. The
   * new agent is trusted no more than its creator, delegates to no agent that its creator may not delegate to, sees no
   * environment variables, and counts among `maxSpawnedAgents`. A type that cannot be loaded or started is not written.
   *
   * Rejects with `ConfigurationError` for a team without a registry, a wrong type, a name that is taken, or a file that
   * cannot be written; with `DelegationRefusedError`, `UnknownAgentError`, `StartFailedError` and
   * `TeamOverloadedError`.
   *
   * @example
   * const name = await context.defineAgent({ name: 'tester', class: 'TestAgent', systemPrompt: 'Write tests first.' })
   * const { result } = await context.delegate(name, 'Test the calculator.')
   */
  defineAgent(type: AgentType): Promise<string>
  /**
   * Makes one call of a model, through the gateway in the host: a thread never has an API key. The call is a step: a
   * redelivered turn gets the answer from the log, and a turn that was interrupted during the call takes it up again.
   * The call counts as work of the turn, so the turn keeps its permit (`maxConcurrentAgents`).
   *
   * A `prompt` comes after the role's `systemPrompt`; `messages` are sent as they are. One of the two is required.
   * `temperature`, `maxOutputTokens` and `model` default to those of the role. With `output` the answer is JSON that
   * fits the schema. An answer that misses it is requested once more, with a description of the error. `stream: true`
   * emits the text piece by piece as `emit` does, even of an answer that misses its schema. `signal` withdraws the
   * call.
   *
   * Rejects with `ModelError` if the provider answers wrongly or not at all, or if the second answer misses the schema
   * too; with `MessageRejectedError` for a wrong request; with `ConfigurationError` for a model that the team does not
   * have; with `CancelledError`.
   *
   * @example
   * const place = z.object({ x: z.number(), y: z.number() })
   * const { output } = await context.complete({ prompt: 'Where is it?', output: place })
   */
  complete<T = undefined>(request: CompletionRequest<T>): Promise<Completion<T>>
  /**
   * Runs the loop that plays a role without code: the model is called, its tool calls are executed, and their results
   * go back to it, until it answers without a tool call. Each model call and each tool call is a step. A string is a
   * `prompt`; the other options are those of `complete`. `stream: true` emits the answer and nothing else: piece by
   * piece if the model has no tools and no `output` to fit, otherwise as a whole when it is known.
   *
   * The model's tools are the verbs of this context that the role's rights allow, and those that its `tools` name. With
   * `verbs: 'all'` they are every one that it may use. `tools` of this request limits them to the named ones. The
   * rights give these verbs:
   *
   * - `delegationAllowed: true` or `canDelegateTo`: request, delegate, handoff;
   * - `escalateTo`: escalate;
   * - the team's `enableBlackboard`: publish, read_blackboard;
   * - `trust: 'privileged'`: spawn, and if the team has a registry define_agent, delegate;
   * - any of these: refuse.
   *
   * Calls of one answer run side by side, at most `maxParallelToolCalls` (the role's, 32) at a time. The model gets
   * their results in the order of its calls. Tools with `sequential: true` run alone, and so do handoff, escalate,
   * refuse, finish, sync, publish, subscribe, write_shared, delegate_to_executor, spawn and define_agent: calls before
   * them end first, calls after them wait. The model is told the error of a failed tool; the failure ends no other
   * call. `signal` withdraws all calls. `refuse` ends the turn with `TaskRefusedError`; after `handoff` the answer is
   * empty.
   *
   * After `maxRounds` (the role's, 12) rounds without an answer the manager is asked (`escalate`). With its guidance
   * the model gets as many rounds again, once. If another agent does the task instead, its answer is the answer.
   * Otherwise `think` rejects with `TaskRefusedError`; a handler that does not catch it refuses its task.
   *
   * @example
   * const { text } = await context.think({ prompt: message.content, tools: ['request'], maxRounds: 4 })
   */
  think<T = undefined>(
    request: string | (CompletionRequest<T> & { tools?: readonly string[]; maxRounds?: number }),
  ): Promise<Completion<T>>
  /**
   * Calls a tool of this role or of the team (`tools`), by its name or its definition, and resolves to its output, a
   * JSON value. An inline tool runs in the host, a tool in a module in this thread, one with `isolate: true` in a
   * thread of its own.
   *
   * A call is a step: a redelivered turn gets its output from the log. If this thread ends during a call of a tool in
   * the host, the call continues, and the next attempt gets its result. A tool in this thread is interrupted with the
   * thread. Unless it is `idempotent`, the message is then not redelivered, and its sender gets `OutcomeUnknownError`.
   *
   * Rejects with `ToolInputError` for input that misses the tool's schema; with `ToolTimeoutError` after its
   * `timeoutMs`; with `ToolFailedError` if the tool throws, and for output that JSON cannot represent; with
   * `ConfigurationError` for a name that no tool of this agent has. Whatever stops the turn also aborts the tool's
   * `signal`.
   *
   * @example
   * const { celsius } = await context.tool(weather, { city: 'Oslo' })
   */
  tool<In, Out>(tool: Tool<In, Out>, input: NoInfer<In>): Promise<Out>
  tool<T extends Tool = Tool>(
    name: string,
    input: NonNullable<T['~types']>['input'],
  ): Promise<NonNullable<T['~types']>['output']>
  /**
   * Runs I/O of your own so that it is not repeated. Its result is logged as JSON; after a crash the step returns the
   * logged result and does not run again. You get the JSON form of the result in every attempt, the first included: a
   * Date is its text, an instance of a class is its fields or the result of its `toJSON`, a Map is an object. A result
   * that JSON cannot represent (a function, a bigint, a cycle) makes the step fail with `MessageRejectedError` and its
   * path.
   *
   * If a thread ends during a step, it is unknown whether the step happened. So the message is not redelivered, and its
   * sender gets `OutcomeUnknownError`. `idempotent: true` lets the step run again.
   *
   * A step that threw has finished: after a crash it throws the same error again. If the handler itself failed and runs
   * again (`onHandlerError: 'retry' | 'restart'`), failed steps run again, and successful ones do not. The same holds
   * for requests and sends that were answered with an error.
   *
   * Verbs can be awaited in a step. A step that waits only for verbs is no work: its turn gives up its permit
   * (`maxConcurrentAgents`) meanwhile, and a deadlock in which it waits is found. A step with work of its own keeps the
   * permit. A step that does both at a time may lose it until its next answer comes. Await a verb in the step that
   * calls it: that a step waits for a verb that was called before the step is known only when the thread has nothing
   * else open.
   *
   * @example
   * const rows = await context.step('read the rows', () => database.query('select * from rows'), { idempotent: true })
   */
  step<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T>
  /**
   * Emits a piece of the answer, before the answer itself. `requestStream` reads the pieces; `run.text()` reads those
   * of the script. While the reader is far behind, the next verb waits for it, and so does a loop over a stream that
   * this turn reads.
   */
  emit(chunk: string): void
  /** Current time in epoch ms. A redelivered turn gets the same values again. */
  now(): number
  /** Random number from 0 up to 1. A redelivered turn gets the same numbers again. */
  random(): number
  /** Version 4 UUID, made with `random()`. */
  uuid(): string
  /**
   * Waits for `ms` milliseconds, at most 2^31 - 1; rejects when the turn is to stop. It is a step, with its end by wall
   * clock: a turn that is tried again, also in a later process, sleeps only what is left, or not at all.
   *
   * A turn that sleeps continues by itself, so it counts as working, even if it also waits for other agents: it keeps
   * its permit (`maxConcurrentAgents`). With a limit of 1 the sleep always wins
   * `Promise.race([context.request(to, text), context.sleep(ms)])`, since no other agent may run until it is over.
   * To limit the wait for an answer, give the request a signal instead: that wait holds no permit.
   *
   * @example
   * const { content } = await context.request('oracle', 'go or stay?', { signal: AbortSignal.timeout(5_000) })
   */
  sleep(ms: number): Promise<void>
}

/**
 * Context of a protocol script: the verbs of an agent, and the team's agents.
 *
 * @example
 * const orchestration = {
 *   strategy: 'custom',
 *   async run(orchestrator, query) {
 *     const names = orchestrator.agents.map(({ name }) => name)
 *     const outcomes = await orchestrator.requestAll(names, query)
 *     const answered = outcomes.filter((outcome) => outcome.ok)
 *     const ballots = answered.map(({ agent, message }) => ({ agent, value: message.content }))
 *     return orchestrator.vote(ballots).winner
 *   },
 * }
 */
export interface OrchestratorContext<Name extends string = string> extends AgentContext {
  /**
   * All agents of the team, in the order of the options. `playedByModel`: the role has no code. `keys`: profiles of API
   * keys that it holds, if there are any. `inherits`: what its role inherits of who gives it a task, if anything.
   */
  readonly agents: readonly (RoleInfo<Name> & {
    status: AgentStatus
    playedByModel: boolean
    keys?: readonly string[]
    inherits?: 'summary' | 'full'
  })[]
  /**
   * Chooses the agent for a task, by the team's `taskRouting` or by `options.by`; null if no agent matches. It does not
   * give the task to the agent: use `request` or `delegate` for that. Stopped agents, and agents with
   * `canBeDelegatedTo: false`, are never chosen. The choice is in the trace, and a script that runs again gets the same
   * one.
   *
   * - 'explicit': the task's `assignedTo`, which the other ways ignore.
   * - 'capability_match': with `requiredCapabilities`, among the agents that have all of them. Otherwise among the
   *   agents with a capability that occurs in the task's text, in any letter case; otherwise among those with a tool
   *   that does; otherwise among those whose capabilities declare the types in `options`. Of several the one with the
   *   highest `confidence`, then the first.
   * - 'load_balance': among the agents that 'capability_match' considers, the one with the fewest messages that wait
   *   for it or are in progress, over all runs. If the text matches no agent, it considers all that can do the task.
   *   Equal ones are ordered by `priority`.
   * - 'round_robin': among the agents that can do it, in order, the one whose last choice in this run is longest ago.
   *
   * An agent cannot do a task if it lacks a required capability, if its capabilities have other types than `options`
   * names, or if it has fewer tokens left (`maxTokens`, `budget`) than their `estimatedTokens`.
   *
   * Rejects with `MessageRejectedError` for a task without a text, with `UnknownAgentError` for an unknown name in
   * `among` or `assignedTo`, with `ConfigurationError` for an unknown option.
   *
   * @example
   * const agent = await orchestrator.route('search for the weather', { among: ['scout', 'clerk'] })
   * const reply = agent === null ? undefined : await orchestrator.request(agent, 'search for the weather')
   */
  route(task: TaskInput, options?: RouteOptions<Name>): Promise<Name | null>
  /**
   * Gives a task as `context.delegate` does. With `as` it is given in the name of that agent: the agent is the `sender`
   * of the message, and its role decides whether it may delegate to `to`. The script gets the result. `metadata` goes
   * with the task's message.
   *
   * Rejects with `UnknownAgentError` if the team has no agent with the name in `as`.
   *
   * @example
   * const { result } = await orchestrator.delegate('mason', 'Build the walls.', { as: 'architect' })
   */
  delegate(to: string, task: TaskInput, options?: { as?: Name; metadata?: Record<string, unknown> }): PendingTask
  /** Returns the agents that can get a task now, in order, each with its fit and its load. Rejects as `route` does. */
  candidates(task: TaskInput, options?: CandidateOptions<Name>): Promise<Candidate<Name>[]>
  /** Writes a decision into the trace. */
  decide(question: string, choice: string, reason: string): void
  /**
   * Returns the result of a sync point: of the generation that ended last, if `synced` has not returned it to this
   * script yet, otherwise of the next one that ends. A script does not arrive, and sync points do not wait for it. The
   * wait has no limit of its own. If no agent arrives, it ends with the run, or when all required agents are gone for
   * good.
   *
   * Rejects with `SyncPointTimeoutError` if the generation was aborted (`onTimeout: 'abort'`), and with
   * `ConfigurationError` for a point that is not declared.
   *
   * @example
   * await orchestrator.requestAll(['ann', 'bob'], 'Estimate, then sync on "revealed".')
   * const { data, missing } = await orchestrator.synced<number>('revealed')
   */
  synced<T = unknown>(point: string): Promise<SyncResult<T>>
  /**
   * Returns the value with the highest score by the voters' weights; by majority if a weight is null or not finite.
   * Values are compared by structure. On a tie the first value wins, and `tied` is true.
   *
   * @throws {ConsensusError} when there is no ballot, or a value is not JSON.
   * @throws {MessageRejectedError} when a ballot is not one of an agent of the team, or has a weight of its own.
   */
  vote<T>(ballots: readonly { agent: string; value: T }[]): { winner: T; scores: Record<string, number>; tied: boolean }
}

/**
 * Owner of a shared state. 'agent_shared': one agent, which writes it; agents that its role's `sharedWith` names may
 * read it. 'team_shared': all agents of the team. 'persistent': the same, as long as the log or file exists.
 */
export type SharedScope = 'agent_shared' | 'team_shared' | 'persistent'

/**
 * State that several agents read, and change one after the other: JSON values by keys of 1 to 256 characters, kept in
 * the host. A value may be as large as a message (`communication.maxMessageBytes`), and a state has up to 10,000 keys.
 * Read values are frozen. Both verbs are steps: a redelivered turn reads the same value again, and does not repeat its
 * change.
 */
export interface SharedState {
  /**
   * Returns the value of a key, undefined if nobody has written it; with a schema, the value that the schema returns.
   * Rejects with `MessageRejectedError` if the value misses the schema, with `ConfigurationError` if this agent may not
   * read it, and with `UnknownAgentError` for an owner that does not exist.
   */
  get<T = unknown>(key: string, schema?: Schema<unknown, T>): Promise<T | undefined>
  /**
   * Changes the value of a key and resolves to the new one. `change` gets the current value (undefined: there is none)
   * and returns the new one, synchronously and without changing its argument. If another agent was faster, `change` is
   * called again with that agent's value, so no update is lost. So let `change` depend on its argument alone. Await the
   * update: one that is still open when the handler fails and runs again (`onHandlerError`) may be made twice.
   *
   * Rejects with the error that `change` throws; with `MessageRejectedError` for a value that is not JSON (undefined is
   * none), for a wrong key, for one key too many, and if others were faster 1,000 times in succession; with
   * `ConfigurationError` for the state of another agent.
   *
   * @example
   * const served = await context.shared('team_shared').update('served', (n: number = 0) => n + 1)
   */
  update<T>(key: string, change: (value: T | undefined) => T): Promise<T>
}

/** State that a turn keeps, and state that it shares with other agents. */
export interface StateContext<State, RunState> {
  /** The agent's state, over all runs and restarts. A JSON value. */
  readonly state: Immutable<State>
  /**
   * Changes the state by a recipe over a draft. This turn sees the change at once. The change is kept when the turn
   * ends well, and dropped if it fails. If a turn within this one has committed meanwhile (`reentrancy: 'chain'`), the
   * recipe runs again on the state that it left, so let the recipe depend on its draft alone.
   *
   * @throws {MessageRejectedError} for what is no JSON value, with its path.
   */
  setState(recipe: (draft: State) => void): void
  /** The agent's state in this run only. */
  readonly runState: Immutable<RunState>
  /** Changes `runState` as `setState` changes `state`. */
  setRunState(recipe: (draft: RunState) => void): void
  /**
   * Returns state that others may read or change, kept in the host over turns, runs and restarts.
   *
   * - `'agent_shared'`: this agent's own. With `owner` that of another agent, read-only, if that agent's role names
   *   this one in `sharedWith`. It ends with its agent, like `state`. A protocol script may read that of every agent,
   *   and has none itself.
   * - `'team_shared'`: all agents of the team and its protocol scripts read and write it. It ends with the team. A team
   *   with `stateManagement` goes on in the next process, unless `endsWithSession` says otherwise.
   * - `'persistent'`: the same, as long as the log of `stateManagement` or the file of `persistentFile`. Without both
   *   it ends with the team. With a file an update resolves when the file is written, and both verbs reject with
   *   `ConfigurationError` if the file cannot be read or written.
   *
   * @throws {MessageRejectedError} for another scope, or an `owner` for a state that has no single owner.
   *
   * @example
   * await context.shared('agent_shared').update('draft', () => text)
   * const draft = await context.shared('agent_shared', 'writer').get<string>('draft')
   */
  shared(scope: SharedScope, owner?: string): SharedState
}
