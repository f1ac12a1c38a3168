/** The verbs: all that an agent's handler and a protocol script can do. */
import type { Immutable } from 'immer'
import type { Blackboard, BlackboardEntry, WriteOptions } from '../blackboard/entry.ts'
import type { DramatisError, TaskRefusedError } from '../errors.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import type { Logger } from './logger.ts'
import type { Completion, CompletionRequest } from './model.ts'
import type { RoleInfo, ToolReference } from './role.ts'
import type { AgentStatus, AgentTask, TaskInput } from './task.ts'
import type { Schema, Tool } from './tool.ts'

/** An agent's name that knows the types of what it takes and answers. */
export interface AgentRef<In = unknown, Out = unknown> {
  readonly name: string
  readonly '~types'?: { input: In; output: Out }
}

export interface RequestOptions<In = unknown> {
  structuredData?: In
  /** Higher overtakes lower in a mailbox; 0. A 32-bit integer. */
  priority?: number
  /** From the start of the callee's turn. */
  timeoutMs?: number
  retries?: number
  idempotent?: boolean
  threadId?: string
  metadata?: object
  signal?: AbortSignal
  /** true: repetition is meant, livelock detection leaves it alone. */
  polling?: boolean
}

export type Outcome<Out = unknown> =
  | { agent: string; ok: true; message: AgentMessage<Out> }
  | { agent: string; ok: false; error: DramatisError }

export type EscalationOutcome =
  | { kind: 'guidance'; guidance: string }
  | { kind: 'reassigned' | 'taken_over'; to: string; result: AgentMessage }
  | { kind: 'unresolved'; reason: string }

export interface SyncResult<T = unknown> {
  generation: number
  arrived: string[]
  missing: string[]
  timedOut: boolean
  data: Record<string, T>
}

export interface SharedState {
  get<T = unknown>(key: string, schema?: Schema<unknown, T>): Promise<T | undefined>
  update<T>(key: string, change: (value: T | undefined) => T): Promise<T>
}

/** A role that an agent makes at run time. 'run': gone with it, its name unique in it. */
export type SpawnRole = RoleInfo & {
  module?: string
  tools?: Exclude<ToolReference, Tool>[]
  lifetime?: 'run' | 'team'
}

/** What a turn is given. After its turn has ended every verb rejects (or throws) `TurnEndedError`. */
export interface AgentContext<State = object, RunState = object, Data = unknown> {
  readonly role: RoleInfo
  readonly data: Data
  readonly runId: string
  readonly run: { metadata: Readonly<Record<string, string>>; threadId?: string }
  /** Aborted when the request is cancelled, the run ends, the turn times out or the agent is stopped. */
  readonly signal: AbortSignal
  /** 1, and one more for each time that this message's turn was cut off. */
  readonly attempt: number
  readonly log: Logger
  /** The agent's, over all runs and restarts. */
  readonly state: Immutable<State>
  setState(recipe: (draft: State) => void): void
  /** This run's alone. */
  readonly runState: Immutable<RunState>
  setRunState(recipe: (draft: RunState) => void): void
  shared(scope: 'agent_shared' | 'team_shared' | 'persistent', owner?: string): SharedState
  request<In = unknown, Out = unknown>(
    to: string | AgentRef<In, Out>,
    content: string,
    options?: RequestOptions<NoInfer<In>>,
  ): Promise<AgentMessage<Out>>
  requestStream(
    to: string,
    content: string,
    options?: RequestOptions,
  ): AsyncIterable<string> & { readonly response: Promise<AgentMessage> }
  requestAll(to: string[], content: string, options?: RequestOptions & { concurrency?: number }): Promise<Outcome[]>
  requestAny(to: string[], content: string, options?: RequestOptions): Promise<AgentMessage>
  requestQuorum(to: string[], count: number, content: string, options?: RequestOptions): Promise<AgentMessage[]>
  /** Resolves when the mailbox has accepted it, rejects when it is refused; many may be under way. */
  send(to: string, content: string, options?: RequestOptions): Promise<void>
  broadcast(content: string, options?: RequestOptions): Promise<void>
  delegate(to: string, task: TaskInput): Promise<AgentTask>
  /** To `escalateTo`, else to '$orchestrator'. */
  report(content: string, data?: object): Promise<void>
  publish(key: string, value: unknown, entryType: string, options?: WriteOptions): Promise<BlackboardEntry>
  /** Matches arrive at `observe` as messages of type publish. */
  subscribe(pattern: string): Promise<void>
  readonly blackboard: Blackboard
  watch(agent: string): Promise<void>
  sync<T = unknown>(point: string, data?: T): Promise<SyncResult<T>>
  handoff(to: string, task: AgentTask, summary?: string): Promise<void>
  escalate(reason: string, details?: object): Promise<EscalationOutcome>
  ask(question: string, options?: { choices?: string[]; timeoutMs?: number }): Promise<string>
  /** `throw context.refuse('why')`. */
  refuse(reason: string): TaskRefusedError
  spawn(role: SpawnRole): Promise<string>
  complete<T = undefined>(request: CompletionRequest<T>): Promise<Completion<T>>
  think<T = undefined>(
    request: string | (CompletionRequest<T> & { tools?: string[]; maxRounds?: number }),
  ): Promise<Completion<T>>
  tool<In, Out>(tool: Tool<In, Out>, input: NoInfer<In>): Promise<Out>
  tool<T extends Tool = Tool>(
    name: string,
    input: NonNullable<T['~types']>['input'],
  ): Promise<NonNullable<T['~types']>['output']>
  /** Its result is logged; after a crash it is answered from the log, not run again. */
  step<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T>
  /** A piece of the answer, before the answer. */
  emit(chunk: string): void
  now(): number
  random(): number
  uuid(): string
  sleep(ms: number): Promise<void>
}

/** What a protocol script is given. */
export interface OrchestratorContext<Name extends string = string> extends AgentContext {
  readonly agents: readonly (RoleInfo<Name> & { status: AgentStatus })[]
  route(task: string | AgentTask): Promise<Name | null>
  /** Writes a decision into the trace. */
  decide(question: string, choice: string, reason: string): void
  synced<T = unknown>(point: string): Promise<SyncResult<T>>
  vote<T>(ballots: { agent: string; value: T }[]): { winner: T; scores: Record<string, number>; tied: boolean }
}
