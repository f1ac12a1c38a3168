/** The verbs: all that an agent's handler and a protocol script can do. */
import type { Immutable } from 'immer'
import type { Blackboard, BlackboardEntry, WriteOptions } from '../blackboard/entry.ts'
import type { DramatisError, TaskRefusedError } from '../errors.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import type { Logger } from './logger.ts'
import type { Completion, CompletionRequest } from './model.ts'
import type { RoleInfo, ToolReference } from './role.ts'
import type { Candidate, CandidateOptions, RouteOptions } from './routing.ts'
import type { AgentStatus, AgentTask, PendingTask, TaskInput } from './task.ts'
import type { Schema, Tool } from './tool.ts'

/** An agent's name that knows the types of what it takes and answers. */
export interface AgentRef<In = unknown, Out = unknown> {
  readonly name: string
  readonly '~types'?: { input: In; output: Out }
}

/** What goes with a message. Durations in ms. */
export interface RequestOptions<In = unknown> {
  /** A JSON value beside the content; anything else is refused with its path. -0 arrives as 0. */
  structuredData?: In
  /** Higher overtakes lower in a mailbox; 0. A 32-bit integer. */
  priority?: number
  /** From the start of the callee's turn; its `responseTimeoutMs` by default. */
  timeoutMs?: number
  /**
   * How often it is asked again when there is no answer by its deadline; as `communication.retries` of the sender's role
   * says. At most 126. It keeps its id, and waits for the same turn once more: nobody does it twice.
   */
  retries?: number
  /**
   * It may be done twice: a retry tells the turn that is late to stop, and has it begin again with the steps that it had
   * finished. false.
   */
  idempotent?: boolean
  /** The conversation that the message belongs to; the run's by default. */
  threadId?: string
  /**
   * A JSON object that travels with the message. Of what is in it a role that a model plays knows some: `answerSchema`, the JSON schema that its answer
   * has to fit; `inWords: true`, the content says all that the data says; `lastSpeaker: true`, its answer is the run's.
   */
  metadata?: object
  /** Withdraws the request: its promise rejects with `CancelledError`, and its turn is told to stop. */
  signal?: AbortSignal
  /**
   * true: repetition is meant, livelock detection (`supervision.livelock`) leaves this message alone. What its recipient asks
   * others because of it has to be marked by that one. false.
   */
  polling?: boolean
}

/** What came of one request of several: the answer, or why there is none. */
export type Outcome<Out = unknown> =
  | { agent: string; ok: true; message: AgentMessage<Out> }
  | { agent: string; ok: false; error: DramatisError }

/**
 * What came of an escalation: advice; the answer of who has done the task in this one's place; or nothing, and why. Source:
 * document 002, 2.6.2.
 */
export type EscalationOutcome =
  | { kind: 'guidance'; guidance: string }
  | { kind: 'reassigned' | 'taken_over'; to: string; result: AgentMessage }
  | { kind: 'unresolved'; reason: string }

/** Who met at a sync point, and what each brought. Source: document 002, 2.6.3. */
export interface SyncResult<T = unknown> {
  /** Counts the meetings at this point in this run, from 1. */
  generation: number
  /** In the order of `requiredAgents`, like `missing`. */
  arrived: string[]
  /** Required agents without which it ended. */
  missing: string[]
  /** It ended without some: their time was up, one of them is gone for good, or it was given up. */
  timedOut: boolean
  /** By the agent's name; of those that brought something. Empty with `dataExchange: false`. */
  data: Record<string, T>
}

/**
 * Whose a shared state is. 'agent_shared': one agent's, who writes it; others read it whose names are in its role's
 * `sharedWith`. 'team_shared': all agents of the team. 'persistent': the same, as long as the log store lasts. Source: document
 * 002, 2.4.1.
 */
export type SharedScope = 'agent_shared' | 'team_shared' | 'persistent'

/**
 * State that several agents read, and change one after the other: JSON values by keys of 1 to 256 characters, kept in the
 * host. A value may be as large as a message (`communication.maxMessageBytes`), and a state has up to 10,000 keys. What is read
 * is frozen. Both verbs are steps: a turn that is tried again reads what it read, and what it changed stays changed once.
 * Source: document 002, 2.4.1.
 */
export interface SharedState {
  /**
   * The value of a key; undefined where nobody has written it. With a schema: as the schema returns it. Rejects with
   * `MessageRejectedError` where it misses the schema, with `ConfigurationError` where this agent may not read it, and with
   * `UnknownAgentError` for an owner who is not there.
   */
  get<T = unknown>(key: string, schema?: Schema<unknown, T>): Promise<T | undefined>
  /**
   * Changes the value of a key and resolves to the new one. `change` is given the value as it stands (undefined: there is none)
   * and returns the new one, at once and without changing what it was given. Where another agent was faster it is called again
   * with what that one wrote, so no update is lost; let it depend on its argument alone. Await it: one that is still under way
   * when the handler fails, and is tried again (`onHandlerError`), may be made twice.
   *
   * Rejects with what `change` throws; with `MessageRejectedError` for what is no JSON value (undefined is none), for a wrong
   * key, for one key too many, and where others were faster 1,000 times in succession; with `ConfigurationError` for the state of
   * another agent.
   *
   * @example
   * const served = await context.shared('team_shared').update('served', (n: number = 0) => n + 1)
   */
  update<T>(key: string, change: (value: T | undefined) => T): Promise<T>
}

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
export interface AgentContext<State = object, RunState = object, Data = unknown> {
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
  /** The agent's, over all runs and restarts. A JSON value. */
  readonly state: Immutable<State>
  /**
   * Changes the state by a recipe over a draft. This turn sees it at once; it counts when the turn ends well, and is
   * dropped if it fails. Where a turn that ran within this one has committed meanwhile (`reentrancy: 'chain'`) the recipe is
   * run again on what that one left, so let it depend on its draft alone.
   *
   * @throws {MessageRejectedError} for what is no JSON value, with its path.
   */
  setState(recipe: (draft: State) => void): void
  /** This run's alone. */
  readonly runState: Immutable<RunState>
  /** The same for `runState`. */
  setRunState(recipe: (draft: RunState) => void): void
  /**
   * State that others may read or change, kept in the host over turns, runs and restarts.
   *
   * - `'agent_shared'`: this agent's own, or with `owner` that of another one, to read alone: where its role's `sharedWith`
   *   has this agent's name. It ends with its agent, like `state`. A protocol script reads everybody's, and has none itself.
   * - `'team_shared'`: all agents of the team and its protocol scripts read and write it. It ends with the team.
   * - `'persistent'`: the same, as long as the team's log store. In this version that is the memory of the team, so it ends
   *   with the team, too: nothing of it outlives `close()` or the process.
   *
   * @throws {MessageRejectedError} for another scope, or an `owner` of a state that is nobody's own.
   *
   * @example
   * await context.shared('agent_shared').update('draft', () => text)
   * const draft = await context.shared('agent_shared', 'writer').get<string>('draft')
   */
  shared(scope: SharedScope, owner?: string): SharedState
  /**
   * Asks an agent and waits for its answer, over restarts of the agent.
   *
   * Rejects with `UnknownAgentError`, `RequestTimeoutError`, `AgentFailedError` (its handler threw),
   * `AgentCrashedError` (the message killed it more often than it may), `OutcomeUnknownError`, `AgentTerminatedError`,
   * `TaskRefusedError`, `MailboxFullError`, `ChainDepthError` (a role's `reentrancy`), `CancelledError`, or with
   * `MessageRejectedError` for what is no message.
   */
  request<In = unknown, Out = unknown>(
    to: string | AgentRef<In, Out>,
    content: string,
    options?: RequestOptions<NoInfer<In>>,
  ): Promise<AgentMessage<Out>>
  /**
   * Asks for an answer in pieces, as the other side emits them. Leaving the loop withdraws the request. A turn that is
   * tried again reads every piece from the first one on.
   *
   * What a role without code says in pieces is its answer and nothing else; it comes as one piece where the model has tools, or
   * a schema to fit. Its turn is not tried again, by whatever option, when a part of its answer has been read: it would say another.
   */
  requestStream(
    to: string,
    content: string,
    options?: RequestOptions,
  ): AsyncIterable<string> & { readonly response: Promise<AgentMessage> }
  /**
   * Asks several, `concurrency` at a time (all by default). Never rejects for a failure of theirs; in the order of
   * `to`.
   */
  requestAll(to: string[], content: string, options?: RequestOptions & { concurrency?: number }): Promise<Outcome[]>
  /** The first answer of several; the other requests are withdrawn. Rejects when all have failed, naming each. */
  requestAny(to: string[], content: string, options?: RequestOptions): Promise<AgentMessage>
  /**
   * The first `count` answers of several, in order of arrival; the other requests are withdrawn. Rejects as soon as so many
   * have failed that `count` answers cannot come any more: with `AgentFailedError`, which names who failed and why, and in
   * `details.answered` who did answer. `count` is from 1 to the number of agents, and each agent is named once; else it is a
   * `MessageRejectedError`, and nobody is asked.
   */
  requestQuorum(to: string[], count: number, content: string, options?: RequestOptions): Promise<AgentMessage[]>
  /**
   * A message that nobody answers. Resolves when the mailbox has accepted it, rejects when it is refused; many may be
   * under way. `signal` withdraws it while it waits for room in a full mailbox.
   */
  send(to: string, content: string, options?: RequestOptions): Promise<void>
  /**
   * To the `observe` of every other agent: not to itself, not to the protocol script. History shows it once, with recipient
   * null. Resolves when each mailbox has accepted it. Rejects with `MessageRejectedError` when some were refused: its text
   * and `details.failures` name who and why, each of these is a dead letter, and the others have it; a turn that is tried
   * again does not send it again. `signal` withdraws it where it still waits for room. It comes to each after what this
   * turn had sent them before.
   */
  broadcast(content: string, options?: RequestOptions): Promise<void>
  /**
   * Gives an agent a task, and resolves with the task when it is done: status 'completed', and in `result` the structured data
   * of the answer, or its content. It comes to the other's `receive` as a message of type delegate, with the description as its
   * content and the rest of the task as `structuredData`. It is a task of the run's board whose id is the message's; meanwhile
   * the task of this turn is 'blocked'. Source: document 002, 2.5.
   *
   * The host holds to the delegation graph: `delegationAllowed` and `canDelegateTo` of this role, `canBeDelegatedTo` of the
   * other, never to itself; and delegations are nested 8 deep at most, or as deep as the strategy says. Else it rejects with `DelegationRefusedError`, which says
   * what is in the way, and the message is a dead letter. A `deadline` limits the wait: `RequestTimeoutError`. A task that was
   * refused rejects with `TaskRefusedError`, and all else as `request` does: then the duty is this turn's again, which goes on.
   *
   * With `dependencies`, ids of tasks of the same run, it comes to the other when these are completed, by whomever they were
   * given; one that was handed off is completed when the task is that it became. Until then it is 'blocked', and in no mailbox;
   * its deadline runs. It rejects with `DependencyFailedError` as soon as one of them has ended otherwise. The `id` of the promise
   * is the task's own, as soon as it is on its way: so several can be given at once.
   *
   * What can never be done as it is rejects with `DelegationRefusedError` at once: a deadline that is over, an agent that does not
   * declare all `requiredCapabilities`, a dependency that no task of the run is, or that waits for this turn. Tasks that wait for
   * each other in a larger circle are a deadlock, which is broken like any other.
   *
   * @example
   * const { result } = await context.delegate('surveyor', { description: 'Measure it.', deadline: context.now() + 60_000 })
   *
   * @example
   * const walls = context.delegate('mason', 'Build the walls.')
   * const roof = context.delegate('carpenter', { description: 'Put the roof on.', dependencies: [await walls.id] })
   * await Promise.all([walls, roof])
   */
  delegate(to: string, task: TaskInput): PendingTask
  /**
   * Says how it goes: to the `observe` of the agent that `escalateTo` names, else to '$orchestrator', the protocol script.
   * `data` is the message's `structuredData`. Resolves and rejects as `send` does.
   *
   * A script has no `observe`. What is reported to it stands in the run's history and trace, and is a `message` event of type
   * report: a script given as a function can read `run.messageHistory` or `team.events`.
   */
  report(content: string, data?: object): Promise<void>
  /** Writes an entry on the blackboard: `blackboard.write` for short. */
  publish(key: string, value: unknown, entryType: string, options?: WriteOptions): Promise<BlackboardEntry>
  /**
   * Entries whose key fits arrive at `observe` as messages of type publish, in order. `*` is one word, `**` any number
   * of them. Each comes once, however often an agent subscribes; the subscription survives its restart and ends with the
   * run. Rejects with `ConfigurationError` where there is no `observe`, as in a protocol script.
   */
  subscribe(pattern: string): Promise<void>
  /** The run's blackboard; rejects with `ConfigurationError` where the team has none (`enableBlackboard: false`). */
  readonly blackboard: Blackboard
  /**
   * When that agent is gone for good, `observe` gets one message of type report from `$runtime`, with `structuredData`
   * `{ event: 'terminated', agent, reason }`; at once, if it is gone already. A restart is no end: the agent is gone when it
   * has been stopped, as one that dies too often. One that is tried again after its cool-down can end again: whoever wants to
   * hear of that watches again. However often an agent watches, it is told once of each end. A watch survives the restart of
   * the watcher and ends with the run.
   *
   * Rejects with `UnknownAgentError`, and with `ConfigurationError` where there is no `observe`, as in a protocol script.
   */
  watch(agent: string): Promise<void>
  /**
   * Arrives at a sync point of the team (`syncPoints`) with `data`, a JSON value, and waits for the other required agents.
   * They have to meet in one run. When all are there, everybody gets the same result, and the next arrival opens the next
   * generation. A generation ends without some `timeoutMs` after its first arrival, or at once where one of those it still
   * waits for is gone for good (a restart is no end). Then `onTimeout` says what who waits gets: the result with `missing`
   * and `timedOut` ('proceed', 'notify'), or a rejection ('abort').
   *
   * An arrival is a step: it stays when the agent's thread dies, and the turn that is tried again takes up the same wait. It
   * is withdrawn with its turn.
   *
   * Rejects with `SyncPointTimeoutError` where 'abort' says so; and for an agent without which generations have ended since
   * it was last there: its next arrival is late and does not count, the one after that arrives in the generation that is open
   * then. Rejects with `ConfigurationError` for a point that is not declared and for an agent that it does not require, and
   * with `MessageRejectedError` for an agent that waits there already, and for what is no JSON.
   *
   * @example
   * const { data, missing } = await context.sync<number>('revealed', estimate)
   * const sum = Object.values(data).reduce((total, value) => total + value, 0)
   */
  sync<T = unknown>(point: string, data?: T): Promise<SyncResult<T>>
  /**
   * Gives the task of this turn away, with the duty to answer. Source: document 002, 2.6.1, whose six steps are events of the
   * trace (`eventType: 'handoff'`): the state is summarized (`summary`, else the task and what this turn has done), the target
   * identified (the delegation graph and its depth hold as for `delegate`), and asked by a message of type delegate whose
   * `metadata.handoff` is `{ from, summary, task }`. It acknowledges by going on: its `receive` has returned a promise that has
   * not settled when its event loop has turned once, or has answered. Then this promise resolves, the task of this turn is
   * 'handed_off', and the target proceeds with a task of its own, whose parent that is.
   *
   * From then on who asked this turn waits for the target: it gets the target's answer or error, its timeout runs from the start
   * of the target's turn, a deadline of the task stays, and withdrawing the request stops the target. What this turn returns or
   * emits is for nobody; who reads the answer in pieces gets no more of them, and the target's answer at the end. Where nobody had asked, nobody is answered, and a task that fails is a dead letter.
   *
   * A target that refuses before it has acknowledged, fails, or is gone for good leaves the duty here: it rejects with
   * `TaskRefusedError`, `AgentFailedError`, `AgentTerminatedError`, and this turn goes on. A target that refuses later refuses to
   * who had asked. Rejects with `DelegationRefusedError` outside of the graph, and when the duty was handed off before. It is one
   * step: a turn that is tried again does not hand off twice. Await it: a turn that ends before takes it back.
   *
   * @example
   * try {
   *   await context.handoff('night-shift', { description: message.content }, 'Half of the pages are read.')
   * } catch (error) {
   *   if (!(error instanceof TaskRefusedError)) throw error
   *   return readTheRest()
   * }
   */
  handoff(to: string, task: AgentTask | TaskInput, summary?: string): Promise<void>
  /**
   * Asks the manager (`escalateTo` of the role) what to do when this turn cannot go on. It gets a request whose
   * `metadata.escalation` is `{ from, reason, details, done, task: { id, description, structuredData }, passedBy }` (`done`: what
   * this turn has done so far, in words), and decides by its answer. A plain one is guidance. With `structuredData: { decision:
   * 'reassign', to }` what this turn was asked is delegated to `to`, whose answer is the result; with `{ decision: 'take_over' }`
   * its own answer is the result; with `{ decision: 'escalate' }` its own manager is asked, and so on, each once. Source: document
   * 002, 2.6.2.
   *
   * Who reassigns delegates: the manager's place in the delegation graph decides (see `delegate`), not this agent's. `to` gets a
   * message of type delegate with `metadata.reassigned` `{ from, by, reason, guidance }`, which is a task of the board; the task of
   * this turn is 'handed_off' when the answer is there. What came as a plain question with data keeps its data.
   *
   * 'unresolved', with the reason: the manager, or whom it named, has refused, failed, not answered in time, or is gone; or nobody
   * is left to ask, as for a protocol script, which is reported to '$orchestrator' too (see `report`); or the delegation graph
   * forbids it. Rejects only when this turn is to stop, and with `MessageRejectedError` for what is no text or no JSON.
   *
   * A manager that itself waits for this turn answers meanwhile if its role has `reentrancy: 'chain'`. Without, that is a deadlock,
   * which is named and broken like any other: one of the two waits rejects with `DeadlockError`, and where it is this one the
   * outcome is 'unresolved'.
   *
   * @example
   * const outcome = await context.escalate('the page is in Basque', { page: 3 })
   * if (outcome.kind === 'guidance') return translate(page, outcome.guidance)
   * if (outcome.kind === 'unresolved') throw context.refuse(outcome.reason)
   * return outcome.result
   */
  escalate(reason: string, details?: object): Promise<EscalationOutcome>
  /**
   * Asks a person: a `question` event of the run, which `run.answer(questionId, answer)` answers; meanwhile the run's status is
   * 'waiting'. With `choices` the answer is one of them. A question stays open when the agent's thread dies, and is asked once.
   *
   * Rejects with `RequestTimeoutError` when nobody has answered within `timeoutMs` (without it: until the run ends), with
   * `MessageRejectedError` for what is no question, and with `ConfigurationError` in a turn that a message from outside of any
   * run has caused: nobody has a handle of that.
   *
   * @example
   * const color = await context.ask('Which color?', { choices: ['red', 'blue'], timeoutMs: 60_000 })
   */
  ask(question: string, options?: { choices?: string[]; timeoutMs?: number }): Promise<string>
  /** The error that refuses the task: `throw context.refuse('why')`. Who asked gets it as `TaskRefusedError`. */
  refuse(reason: string): TaskRefusedError
  /**
   * Makes another agent, and resolves with its name when it is ready. For protocol scripts, and for agents with `trust:
   * 'privileged'`. Without a `module` a model plays it. It has the team's defaults, no environment, and up to 64 are made in one run. Rejects with
   * `ConfigurationError` for a wrong role, a name that an agent has already, or a module that cannot be loaded; with
   * `StartFailedError`; with `TeamOverloadedError` beyond the 64.
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
   * nobody to whom its maker may not, sees no environment, and counts among the 64 that a run may make. A type that cannot
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
   * spawn, and where the team has a registry define_agent, delegate; with any of them refuse) and as its `tools` name them. `tools` here: these alone. What a tool fails with is told to
   * the model. `refuse` ends the turn with `TaskRefusedError`; after `handoff` the answer is empty.
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
   * `ToolFailedError` for what it throws and for output that is no JSON, and with `ConfigurationError` for a name that no tool of
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
   * Runs I/O of your own so that it is not repeated: its result (a JSON value) is logged, and after a crash it is
   * answered from the log, not run again. Of a step that was under way when the thread died nobody knows whether it
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
