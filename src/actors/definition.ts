/** What makes an agent: its handlers, its schemas, its initial state. A module exports one as its default. */
import { ConfigurationError } from '../errors.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import type { AgentContext, AgentRef } from './context.ts'
import type { ModelMessage } from './model.ts'
import type { RoleInfo } from './role.ts'
import type { Schema } from './tool.ts'

export type Awaitable<T> = T | Promise<T>
/** A string is the content; nothing is an empty reply. */
export type Reply<Out = unknown> = string | void | { content?: string; structuredData?: Out }

export interface AgentDefinition<In = unknown, Out = unknown, State = unknown, RunState = unknown, Data = unknown> {
  readonly '~types'?: { input: In; output: Out; state: State; runState: RunState; data: Data }
}

/** What `defineAgent` takes. */
export interface AgentHandlers<
  In = unknown,
  Out = unknown,
  State extends object = object,
  RunState extends object = object,
  Data = unknown,
> {
  /** Checks the structured data of request and delegate alone. */
  input?: Schema<unknown, In>
  output?: Schema<Out, unknown>
  data?: Schema<unknown, Data>
  initialState?: State | ((role: RoleInfo) => State)
  initialRunState?: RunState | (() => RunState)
  /** Runs once in each life, before the first message. */
  start?(
    context: Pick<AgentContext<State, RunState, Data>, 'role' | 'data' | 'state' | 'setState' | 'log' | 'signal'>,
  ): Awaitable<void>
  /** Requests, delegations, and messages that nobody waits for. */
  receive(message: AgentMessage<In>, context: AgentContext<State, RunState, Data>): Awaitable<Reply<Out>>
  /** broadcast, report, publish. */
  observe?(message: AgentMessage<unknown>, context: AgentContext<State, RunState, Data>): Awaitable<void>
  buildContext?(
    history: readonly ModelMessage[],
    context: AgentContext<State, RunState, Data>,
  ): Awaitable<ModelMessage[]>
  /** Runs before its thread ends in order. */
  stop?(): Awaitable<void>
}

const brand = Symbol.for('dramatis.agent')

/**
 * Defines an agent. Export it as the default of a module and name that module in the role.
 *
 * @example
 * export default defineAgent({
 *   initialState: { seen: 0 },
 *   receive(message, context) {
 *     context.setState((draft) => { draft.seen += 1 })
 *     return `seen ${context.state.seen}`
 *   },
 * })
 */
export function defineAgent<
  In = unknown,
  Out = unknown,
  State extends object = object,
  RunState extends object = object,
  Data = unknown,
>(definition: AgentHandlers<In, Out, State, RunState, Data>): AgentDefinition<In, Out, State, RunState, Data> {
  if (typeof definition?.receive !== 'function') {
    throw new ConfigurationError('defineAgent: "receive" is missing; give it a function (message, context) => reply.', {
      path: 'receive',
    })
  }
  return Object.assign({ [brand]: true, '~types': undefined }, definition)
}

/** The handlers in a definition, or undefined if the value did not come from `defineAgent`. */
export function handlersOf(definition: unknown): AgentHandlers | undefined {
  if (typeof definition !== 'object' || definition === null || !(brand in definition)) return undefined
  return definition as unknown as AgentHandlers
}

/** The state that an agent begins with. */
export function initialStateOf({ initialState }: AgentHandlers, role: RoleInfo): object {
  const made = typeof initialState === 'function' ? initialState(role) : initialState
  return structuredClone(made ?? {})
}

/** A typed name of an agent: `context.request(agentRef<typeof counter>('counter'), ...)` knows what goes in and out. */
export function agentRef<D extends AgentDefinition>(
  name: string,
): AgentRef<NonNullable<D['~types']>['input'], NonNullable<D['~types']>['output']> {
  return { name }
}
