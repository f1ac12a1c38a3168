/**
 * All that an agent's handler and a protocol script are given. The verbs stand by their subject: talk in
 * conversation.ts, tasks in tasks.ts, state in state.ts; here what a turn is, what it does by itself, and
 * the team in a script's sight.
 */
import type { Logger } from '../logger.ts'
import type { Completion, CompletionRequest } from '../model.ts'
import type { RoleInfo, ToolReference } from '../role.ts'
import type { Candidate, CandidateOptions, RouteOptions } from '../routing.ts'
import type { AgentStatus, TaskInput } from '../task.ts'
import type { Tool } from '../tool.ts'
import type { ConversationContext, SyncResult } from './conversation.ts'
import type { StateContext } from './state.ts'
import type { TaskContext } from './tasks.ts'

export type { AgentRef, AskOptions, Outcome, RequestOptions, SyncResult } from './conversation.ts'
export type { SharedScope, SharedState } from './state.ts'
export type { EscalationOutcome } from './tasks.ts'

/**
 * A role that an agent makes at run time; JSON, since it crosses threads. `module`: an absolute path, the href of a file or
 * a package. `lifetime` 'run' (the default): it is gone when the run is over and quiet, its name is unique in the run, and
 * nobody else sees it. 'team': it stays, like one that `addAgent` has added.
 */
export type SpawnRole = RoleInfo & {
  module?: string
  tools?: Exclude<ToolReference, Tool>[]
  lifetime?: 'run' | 'team'
}

/**
 * A type of agent as an agent defines it; JSON, since it crosses threads. `class` and `module` are as in the registry: of an
 * agents.yaml, the name of a class and a path relative to the file. Without both it is only a prompt.
 */
export type AgentType = RoleInfo & { class?: string; module?: string; tools?: Exclude<ToolReference, Tool>[] }

/**
 * What a turn is given: who it is, its state, and the verbs. A verb with an effect is a step: a turn that is tried again
 * after a crash gets its result from the log. After its turn has ended every verb rejects (or throws) `TurnEndedError`.
 * Verbs reject with a `DramatisError`; a verb that is not there yet with `ConfigurationError`.
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
  /** What the team says of this agent: data alone, frozen. */
  readonly role: RoleInfo
  /** `data` of the role, as the agent's schema returned it. */
  readonly data: Data
  readonly runId: string
  readonly run: { metadata: Readonly<Record<string, string>>; threadId?: string }
  /** Aborted when the request is cancelled, the run ends, the turn times out or the agent is stopped. */
  readonly signal: AbortSignal
  /** 1, and one more for each time that this message's turn was cut off. */
  readonly attempt: number
  /** Lines in the team's log, with the agent's name. */
  readonly log: Logger
  /**
   * Makes another agent, and resolves with its name when it is ready. For protocol scripts, and for agents with `trust:
   * 'privileged'`. Without a `module` a model plays it. It has the team's defaults, no environment, and a run makes up to
   * `maxSpawnedAgents` (64). Rejects with
   * `ConfigurationError` for a wrong role, a name that an agent has already, or a module that cannot be loaded; with
   * `StartFailedError`; with `TeamOverloadedError` beyond `maxSpawnedAgents`.
   *
   * @example
   * const name = await context.spawn({ name: 'reader-1', module: new URL('./reader.js', import.meta.url).href })
   * const { content } = await context.request(name, 'Read chapter 1.')
   */
  spawn(role: SpawnRole): Promise<string>
  /**
   * Defines a type of agent for good, and resolves with its name when an agent of it is ready: it joins the team, and is
   * written into the team's registry, the agents.yaml that `loadTeam` has read. For protocol scripts, and for agents with
   * `trust: 'privileged'`. Who defines it may give it tasks from then on. It is trusted no more than its maker, delegates to
   * nobody to whom its maker may not, sees no environment, and counts among `maxSpawnedAgents`. A type that cannot
   * be loaded or started is not written. Source: document 003, self-modifiable.
   *
   * Rejects with `ConfigurationError` for a team without a registry, a wrong type, a name that is taken, or a file that cannot
   * be written; with `DelegationRefusedError`, `UnknownAgentError`, `StartFailedError` and `TeamOverloadedError`.
   *
   * @example
   * const name = await context.defineAgent({ name: 'tester', class: 'TestAgent', systemPrompt: 'Write tests first.' })
   * const { result } = await context.delegate(name, 'Test the calculator.')
   */
  defineAgent(type: AgentType): Promise<string>
  /**
   * One call of a model, by the gateway in the host: a thread never has a key. It is a step: a turn that is tried again gets
   * the answer from the log, and one that was cut off in the middle of a call takes it up. It counts as work of its own, so
   * the turn keeps its place among `maxConcurrentAgents`.
   *
   * A `prompt` is said after the role's `systemPrompt`; `messages` go as they are, and one of the two has to be given.
   * `temperature`, `maxOutputTokens` and `model` are the role's by default. With `output` the answer is JSON that fits the
   * schema: one that does not is asked for once more, with what is wrong. `stream: true` emits the text piece by piece as
   * `emit` does, also of an answer that misses its schema. `signal` withdraws the call.
   *
   * Rejects with `ModelError` where the provider answers wrongly or not at all, or where the second answer misses the schema
   * too; with `MessageRejectedError` for a wrong request; with `ConfigurationError` for a model that the team does not have;
   * with `CancelledError`.
   *
   * @example
   * const { output } = await context.complete({ prompt: 'Where is it?', output: z.object({ x: z.number(), y: z.number() }) })
   */
  complete<T = undefined>(request: CompletionRequest<T>): Promise<Completion<T>>
  /**
   * The loop that plays a role without code: the model is asked, what tools it calls are called, it is told what came of
   * them, until it answers without. Each call of the model and of a tool is a step. A string is a `prompt`; the rest is as
   * for `complete`. `stream: true` emits the answer and nothing else: piece by piece where the model has no tools and no
   * `output` to fit, else as a whole when it is known.
   *
   * Its tools are verbs of this context, as the role's rights say (`delegationAllowed: true` or `canDelegateTo`: request,
   * delegate, handoff; `escalateTo`: escalate; the team's `enableBlackboard`: publish, read_blackboard; `trust: 'privileged'`:
   * spawn, and where the team has a registry define_agent, delegate; with any of them refuse) and as its `tools` name them. `tools` here: these alone. Calls of one
   * answer run side by side, at most `maxParallelToolCalls` (the role's, 32) at a time, and the model is told what came of them in
   * the order of its calls. Tools with `sequential: true` run alone, and so do handoff, escalate, refuse, publish, spawn and
   * define_agent: calls before them end first, those behind them wait. What a tool fails with is told to the model, and ends no
   * other call; `signal` withdraws all of them. `refuse` ends the turn with `TaskRefusedError`; after `handoff` the answer is empty.
   *
   * After `maxRounds` (the role's, 12) rounds without an answer the manager is asked (`escalate`): with its guidance there are
   * as many rounds again, once; who does the task in this one's place has answered it; else it rejects with
   * `TaskRefusedError`, and who lets that pass refuses its task. Source: document 003.
   *
   * @example
   * const { text } = await context.think({ prompt: message.content, tools: ['request'], maxRounds: 4 })
   */
  think<T = undefined>(
    request: string | (CompletionRequest<T> & { tools?: string[]; maxRounds?: number }),
  ): Promise<Completion<T>>
  /**
   * Calls a tool of this role or of the team (`tools`), by its name or as it was defined, and resolves to its output, a JSON
   * value. One given inline runs in the host, one in a module in this thread, one with `isolate: true` in a thread of its own.
   *
   * A call is a step: a turn that is tried again gets its output from the log. A tool in the host that was under way when this
   * thread died goes on, and the next attempt gets what it comes to. One in this thread is cut off with it: unless it is
   * `idempotent` the message is not tried again, and its sender gets `OutcomeUnknownError`.
   *
   * Rejects with `ToolInputError` for input that misses the tool's schema, with `ToolTimeoutError` after its `timeoutMs`, with
   * `ToolFailedError` for what it throws and for output that JSON cannot say, and with `ConfigurationError` for a name that no tool of
   * this agent has. What stops the turn stops the tool's `signal`, too.
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
   * Runs I/O of your own so that it is not repeated: its result is logged as JSON, and after a crash it is answered from the
   * log, not run again. What JSON makes of the result is what you get, in the first attempt as in a later one: a Date is its
   * text, an instance of a class is its fields or what its `toJSON` gives. What JSON cannot say (a function, a bigint, a Map, a
   * cycle) makes the step fail with `MessageRejectedError` and its path. Of a step that was under way when the thread died nobody knows whether it
   * happened: the message is not tried again, and its sender gets `OutcomeUnknownError`; `idempotent: true` lets the
   * step run again.
   *
   * A step that threw has finished: after a crash it throws the same again. When the handler itself failed and is tried
   * again (`onHandlerError: 'retry' | 'restart'`), what had failed runs again, and what had succeeded does not; the same
   * holds for requests and sends that were answered with an error.
   *
   * Verbs can be awaited in a step. A step that waits for nothing but what it has asked of others is no work: its turn gives
   * its place among `maxConcurrentAgents` up meanwhile, and a deadlock in which it waits is found. A step that is at something
   * of its own keeps that place; one that does both at a time may lose it until its next answer comes. Await a verb in the
   * step that calls it: of a step that waits for what was begun before it this is known only when the thread has nothing else
   * open.
   *
   * @example
   * const rows = await context.step('read the rows', () => database.query('select * from rows'), { idempotent: true })
   */
  step<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T>
  /**
   * A piece of the answer, before the answer; `requestStream` reads it; `run.text()` reads the script's. While its reader
   * is far behind, the next verb waits for it, and so does the loop over a stream that this turn reads.
   */
  emit(chunk: string): void
  /** Epoch ms; the same again when the turn is tried again. */
  now(): number
  /** From 0 up to 1; the same numbers again when the turn is tried again. */
  random(): number
  /** A version 4 UUID, made with `random()`. */
  uuid(): string
  /**
   * Waits; rejects when the turn is to stop. A turn that sleeps goes on by itself, so it counts as one that works, also while
   * it waits for others beside that: it keeps its place among `maxConcurrentAgents`. With a limit of 1 the sleep always wins
   * `Promise.race([context.request(to, text), context.sleep(ms)])`, since nobody else may run until it is over. To wait for an
   * answer so long and no longer give the request a signal: that wait takes no place.
   *
   * @example
   * const { content } = await context.request('oracle', 'go or stay?', { signal: AbortSignal.timeout(5_000) })
   */
  sleep(ms: number): Promise<void>
}

/**
 * What a protocol script is given: the verbs of an agent, and the team in sight.
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
  /** Everybody in the team, in the order in which they were given. `playedByModel`: its role has no code. */
  readonly agents: readonly (RoleInfo<Name> & { status: AgentStatus; playedByModel: boolean })[]
  /**
   * Who should get a task, by the team's `taskRouting` or by `options.by`; null: nobody matches. It gives nobody the task: that is
   * for `request` or `delegate`. Agents that are stopped, and those with `canBeDelegatedTo: false`, are never chosen. The
   * choice is in the trace, and a script that is tried again is told the same.
   *
   * - 'explicit': the task's `assignedTo`, which the others do not look at.
   * - 'capability_match': with `requiredCapabilities`, of those that have them all the surest (`confidence`). Else the first one of
   *   whose capabilities occurs in the task's text, in any letter case; else the first one of whose tools does; else the first
   *   whose capabilities declare the types in `options`.
   * - 'load_balance': of those that 'capability_match' looks at the one with the fewest messages that wait for it or are under way, in
   *   all runs; of those that can do it where the text speaks for nobody. Then by `priority`.
   * - 'round_robin': of those that can do it the one that was chosen so longest ago in this run, in order.
   *
   * Nobody can do a task without the capabilities that it requires, with capabilities of other types than `options` names, or with
   * fewer tokens left (`maxTokens`, `budget`) than their `estimatedTokens`. Source: document 000, task routing; document 002, 2.5.1.
   *
   * Rejects with `MessageRejectedError` for a task without a text, with `UnknownAgentError` for a name in `among` or `assignedTo` that
   * nobody has, with `ConfigurationError` for an option that there is not.
   *
   * @example
   * const agent = await orchestrator.route('search for the weather', { among: ['scout', 'clerk'] })
   * const reply = agent === null ? undefined : await orchestrator.request(agent, 'search for the weather')
   */
  route(task: TaskInput, options?: RouteOptions<Name>): Promise<Name | null>
  /** Who can get a task now, in order, each with how well it fits and how much it has to do. Rejects as `route` does. */
  candidates(task: TaskInput, options?: CandidateOptions<Name>): Promise<Candidate<Name>[]>
  /** Writes a decision into the trace. */
  decide(question: string, choice: string, reason: string): void
  /**
   * What came of a sync point: the result of the generation that ended last, if this script has not had it from `synced` yet;
   * else of the next one that ends. A script does not arrive and is not waited for. The wait has no limit of its own: where
   * nobody arrives it ends with the run, or when all required agents are gone for good.
   *
   * Rejects with `SyncPointTimeoutError` where the generation was aborted (`onTimeout: 'abort'`), and with
   * `ConfigurationError` for a point that is not declared.
   *
   * @example
   * await orchestrator.requestAll(['ann', 'bob'], 'Estimate, then sync on "revealed".')
   * const { data, missing } = await orchestrator.synced<number>('revealed')
   */
  synced<T = unknown>(point: string): Promise<SyncResult<T>>
  /**
   * The value with the highest score by the voters' weights; by majority where a weight is null or not finite. Values are
   * compared by structure. On a tie the first one seen wins, and `tied` says so. Source: document 000, consensus.
   *
   * @throws {ConsensusError} when there is no ballot, or a value is not JSON.
   */
  vote<T>(ballots: { agent: string; value: T }[]): { winner: T; scores: Record<string, number>; tied: boolean }
}
