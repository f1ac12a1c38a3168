/**
 * The object that handlers get as `context`. It offers the verbs of the public contract only. The turn behind it is in
 * a private field, so that no user code can end or commit a turn by hand.
 */
import type { Immutable } from 'immer'
import { v4 } from 'uuid'
import type { Blackboard, BlackboardEntry, WriteOptions } from '../../blackboard/entry.ts'
import { idText } from '../../mailbox/frame.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { describe, TaskRefusedError } from '../../shared/errors.ts'
import { seededRandom } from '../../shared/random.ts'
import { own } from '../../shared/values.ts'
import type {
  AgentContext,
  AgentType,
  AskOptions,
  EscalationOutcome,
  InputOf,
  Outcome,
  OutputOf,
  Recipient,
  RequestOptions,
  SharedScope,
  SharedState,
  SpawnRole,
  SyncResult,
} from '../definition/context.ts'
import type { Completion, CompletionRequest } from '../definition/model.ts'
import { handled, type KeptLimit, rejected } from '../definition/promises.ts'
import { LOOP_FOUND, type RoleInfo } from '../definition/role.ts'
import type { AgentTask, Executor, PendingTask, TaskInput } from '../definition/task.ts'
import type { Logger, Tool } from '../definition/tool.ts'
import { complete, type Thinking, thinkAloud } from '../model/think.ts'
import { AGENT_STATUS, BoardNews, DelegatedTasks, type ThinkingTurn } from '../model/verb-tools.ts'
import { NO_OPTIONS, type ResponseStream } from './calls.ts'
import { delegate, escalate, handoff } from './delegate.ts'
import { askPerson, defineType, observeMore, spawn, sync, turnBlackboard } from './host-calls.ts'
import { uploadsFor } from './run-views.ts'
import { SharedStates } from './state.ts'
import { toolNameOf } from './tools.ts'
import type { Turn } from './turn.ts'

let behind: (context: AgentContext) => Turn | undefined

/**
 * Returns the turn behind a context, for the runtime's own handlers; undefined if the object is no context of a turn.
 */
export const turnBehind = (context: AgentContext): Turn | undefined => behind(context)

/**
 * Sends requests like `requestAll`, `concurrency` at a time. What waits names the option `limitedBy` as its limit. An
 * object that is no context of a turn has its own `requestAll` called.
 */
export function requestAllWithin(
  context: AgentContext,
  limitedBy: KeptLimit,
  to: string[],
  content: string,
  options: RequestOptions & { concurrency: number },
): Promise<Outcome[]> {
  const turn = turnBehind(context)
  if (!turn || turn.ended) return context.requestAll(to, content, options)
  return handled(turn.groups.all(to, content, options, limitedBy))
}

/** Returns the turn as the model verbs use it. `context` supplies the verbs that the model has as tools. */
export function thinkingTurn(turn: Turn, context: AgentContext): ThinkingTurn {
  const { role, assignment, handlers, strategy, outbox } = turn.thread
  const { verbs, loops } = assignment
  const { buildContext } = handlers
  const { view, id } = turn.start
  return {
    role,
    context,
    verbs,
    loops,
    tools: turn.tools,
    partKeeper: uploadsFor(outbox, view),
    watchedMessage: view.streams ? idText(...id) : undefined,
    strategy,
    buildContext: buildContext && ((history) => buildContext(history, context)),
    delegate: (to, task, options) => delegate(turn, to, task, options),
    delegated: new DelegatedTasks(),
    executors: () => turn.call(AGENT_STATUS, { executors: true }) as Promise<Executor[]>,
    handoff: (to, task, summary, heard) => handoff(turn, to, task, summary, heard),
    news: new BoardNews(context),
    finish: () => turn.tellWithAnswer({ final: true }),
    refusal: () => turn.refusal(),
    others: () => turn.call(AGENT_STATUS, {}),
    loopFound: (step, signs) => turn.call(LOOP_FOUND, { step, signs }),
    limits: turn.limits,
    ask: (call, signal) => turn.askModel(call, signal),
  }
}

/** Returns the name of a recipient. Any other value is passed on, and refused where names are checked. */
const nameOf = (to: Recipient): string =>
  typeof to === 'string' ? to : unlessItThrows(to, () => (to?.name ?? to) as string)

const namesOf = (to: readonly Recipient[]): string[] =>
  unlessItThrows(to, () => (Array.isArray(to) ? to.map(nameOf) : (to as string[])))

/** Returns the result of `look`; where it throws (a proxy), the value itself, which is refused with its path later. */
function unlessItThrows<T>(value: unknown, look: () => T): T {
  try {
    return look()
  } catch {
    return value as T
  }
}

export class TurnContext implements AgentContext {
  readonly #turn: Turn
  #blackboard: Blackboard | undefined
  #shared: SharedStates | undefined
  #random: (() => number) | undefined

  static {
    behind = (context) => (#turn in context ? context.#turn : undefined)
  }

  constructor(turn: Turn) {
    this.#turn = turn
  }

  // ---- identity of the turn

  get role(): RoleInfo {
    return this.#turn.role
  }
  get data(): unknown {
    return this.#turn.data
  }
  get runId(): string {
    return this.#turn.runId
  }
  get run(): AgentContext['run'] {
    const { metadata, threadId, tenant } = this.#turn.start.view
    const caller = own(metadata, 'caller')
    return {
      metadata,
      ...(threadId !== undefined && { threadId }),
      ...(caller !== undefined && { caller }),
      ...(tenant !== undefined && { tenant }),
    }
  }
  get attempt(): number {
    return this.#turn.start.attempt
  }
  get signal(): AbortSignal {
    return this.#turn.signal
  }
  get log(): Logger {
    return this.#turn.log
  }

  // ---- state

  get state(): Immutable<object> {
    return this.#turn.state
  }
  setState(recipe: (draft: object) => void): void {
    this.#turn.setState(recipe)
  }
  get runState(): Immutable<object> {
    return this.#turn.runState
  }
  setRunState(recipe: (draft: object) => void): void {
    this.#turn.setRunState(recipe)
  }
  shared(scope: SharedScope, owner?: string): SharedState {
    const turn = this.#turn
    turn.assertOpen()
    this.#shared ??= new SharedStates(turn.role.name, (...given) => turn.call(...given))
    return this.#shared.of(scope, owner)
  }

  // ---- messages

  send(to: Recipient, content: string, options: RequestOptions = NO_OPTIONS): Promise<void> {
    return this.#turn.messages.send(typeof to === 'string' ? to : nameOf(to), content, options)
  }
  broadcast(content: string, options: RequestOptions = NO_OPTIONS): Promise<void> {
    return this.#turn.messages.broadcast(content, options)
  }
  report(content: string, data?: object): Promise<void> {
    return this.#turn.report(content, data)
  }
  request<In = unknown, Out = unknown>(
    to: Recipient<In, Out>,
    content: string,
    options: RequestOptions<NoInfer<In>> = NO_OPTIONS as RequestOptions<NoInfer<In>>,
  ): Promise<AgentMessage<Out>> {
    return this.#turn.messages.request(typeof to === 'string' ? to : nameOf(to), content, options) as Promise<
      AgentMessage<Out>
    >
  }
  requestStream<In = unknown, Out = unknown>(
    to: Recipient<In, Out>,
    content: string,
    options: RequestOptions<NoInfer<In>> = NO_OPTIONS as RequestOptions<NoInfer<In>>,
  ): AsyncIterable<string> & { readonly response: Promise<AgentMessage<Out>> } {
    return this.#turn.messages.requestStream(
      typeof to === 'string' ? to : nameOf(to),
      content,
      options,
    ) as ResponseStream & {
      readonly response: Promise<AgentMessage<Out>>
    }
  }
  requestAll<To extends Recipient>(
    to: readonly To[],
    content: string,
    options?: RequestOptions<InputOf<To>> & { concurrency?: number },
  ): Promise<Outcome<OutputOf<To>>[]> {
    const turn = this.#turn
    if (turn.ended) return rejected(turn.refusal())
    const outcomes = handled(turn.groups.all(namesOf(to), content, options))
    return outcomes as Promise<Outcome<OutputOf<To>>[]>
  }
  requestAny<To extends Recipient>(
    to: readonly To[],
    content: string,
    options?: RequestOptions<InputOf<To>>,
  ): Promise<AgentMessage<OutputOf<To>>> {
    const turn = this.#turn
    if (turn.ended) return rejected(turn.refusal())
    const answer = handled(turn.groups.any(namesOf(to), content, options))
    return answer as Promise<AgentMessage<OutputOf<To>>>
  }
  requestQuorum<To extends Recipient>(
    to: readonly To[],
    count: number,
    content: string,
    options?: RequestOptions<InputOf<To>>,
  ): Promise<AgentMessage<OutputOf<To>>[]> {
    const turn = this.#turn
    if (turn.ended) return rejected(turn.refusal())
    const answers = handled(turn.groups.quorum(namesOf(to), count, content, options))
    return answers as Promise<AgentMessage<OutputOf<To>>[]>
  }
  emit(chunk: string): void {
    this.#turn.emit(chunk)
  }

  // ---- host verbs: blackboard, sync points, people, new agents

  get blackboard(): Blackboard {
    this.#blackboard ??= turnBlackboard(this.#turn)
    return this.#blackboard
  }
  publish(key: string, value: unknown, entryType: string, options?: WriteOptions): Promise<BlackboardEntry> {
    return this.blackboard.write(key, value, entryType, options)
  }
  subscribe(pattern: string): Promise<void> {
    return handled(observeMore(this.#turn, 'subscribe', { pattern }))
  }
  watch(agent: string): Promise<void> {
    return handled(observeMore(this.#turn, 'watch', { agent }))
  }
  sync<T = unknown>(point: string, data?: T): Promise<SyncResult<T>> {
    return handled(sync(this.#turn, point, data))
  }
  ask(question: string, options: AskOptions = {}): Promise<string> {
    return handled(askPerson(this.#turn, question, options))
  }
  spawn(role: SpawnRole): Promise<string> {
    return handled(spawn(this.#turn, role))
  }
  defineAgent(type: AgentType): Promise<string> {
    return handled(defineType(this.#turn, type))
  }

  // ---- tasks

  delegate(to: string, task: TaskInput): PendingTask {
    return delegate(this.#turn, to, task)
  }
  handoff(to: string, task: AgentTask | TaskInput, summary?: string): Promise<void> {
    return handled(handoff(this.#turn, to, task, summary))
  }
  escalate(reason: string, details?: object): Promise<EscalationOutcome> {
    return handled(escalate(this.#turn, reason, details))
  }
  refuse(reason: string): TaskRefusedError {
    const agent = this.role.name
    const why = describe(reason)
    return new TaskRefusedError(`Agent "${agent}" refused: ${why}`, { agent, reason: why })
  }

  // ---- models and tools

  complete<T = undefined>(request: CompletionRequest<T>): Promise<Completion<T>> {
    return handled(complete(thinkingTurn(this.#turn, this), request))
  }
  think<T = undefined>(request: string | Thinking<T>): Promise<Completion<T>> {
    return handled(thinkAloud(thinkingTurn(this.#turn, this), request).then(({ completion }) => completion))
  }
  tool<In, Out>(tool: Tool<In, Out>, input: NoInfer<In>): Promise<Out>
  tool<T extends Tool = Tool>(
    name: string,
    input: NonNullable<T['~types']>['input'],
  ): Promise<NonNullable<T['~types']>['output']>
  tool(tool: Tool | string, input: unknown): Promise<unknown> {
    return handled(this.#callTool(tool, input))
  }
  async #callTool(tool: Tool | string, input: unknown): Promise<unknown> {
    return this.#turn.tools.run(toolNameOf(tool), input)
  }

  // ---- steps, time, random values

  step<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T> {
    return handled(this.#turn.stepRunner.own(name, run, options))
  }
  now(): number {
    return this.#turn.now()
  }
  random(): number {
    this.#turn.check()
    this.#random ??= seededRandom(this.#turn.start.id)
    return this.#random()
  }
  uuid(): string {
    return v4({ random: Uint8Array.from({ length: 16 }, () => this.random() * 256) })
  }
  sleep(ms: number): Promise<void> {
    return handled(this.#turn.sleep(ms))
  }
}
