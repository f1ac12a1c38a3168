/** What makes an agent: its handlers, its schemas, its initial state. A module exports one as its default. */
import { ConfigurationError, shown } from '../../errors.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import type { AgentContext, AgentRef } from './context/context.ts'
import type { ModelMessage } from './model.ts'
import type { RoleInfo } from './role.ts'
import type { Schema } from './tool.ts'

/** A value, or a promise of one. */
export type Awaitable<T> = T | Promise<T>
/** What a handler returns. A string is the content; nothing is an empty reply. `structuredData` is a JSON value. */
export type Reply<Out = unknown> = string | void | { content?: string; structuredData?: Out }

/** What `defineAgent` returns: an agent's code, with the types of what it takes, answers and keeps. */
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
  /** Checks the structured data of request and delegate alone; `receive` gets what the schema returns. */
  input?: Schema<unknown, In>
  /** Checks the structured data of each reply. One that misses it is a `ReplyInvalidError` for who asked. */
  output?: Schema<Out, unknown>
  /** Checks `data` of the role when the agent starts. */
  data?: Schema<unknown, Data>
  /** A JSON object, for the agent's first life. Refused where the role has `instances` or `concurrency` > 1. */
  initialState?: State | ((role: RoleInfo) => State)
  /** A JSON object, for each run. Refused where the role has `instances` > 1. */
  initialRunState?: RunState | (() => RunState)
  /** Runs once in each life, before the first message; within `limits.turnTimeoutMs` of its role. */
  start?(
    context: Pick<AgentContext<State, RunState, Data>, 'role' | 'data' | 'state' | 'setState' | 'log' | 'signal'>,
  ): Awaitable<void>
  /**
   * Requests, delegations, and messages that nobody waits for. One message at a time in each of the role's `instances`; one
   * of each run with its `concurrency`. What it throws fails the turn.
   */
  receive(message: TypedMessage<In>, context: AgentContext<State, RunState, Data>): Awaitable<Reply<Out>>
  /** broadcast, report, publish. */
  observe?(message: TypedMessage<unknown>, context: AgentContext<State, RunState, Data>): Awaitable<void>
  /**
   * What the model sees with each call of `context.think`, in place of a strategy of the role (`contextStrategy`). `history`: what that
   * `think` was given and has said since, without the system prompt. The role's prompt comes before what it returns, unless
   * that has a system message of its own. A turn that is tried again has to come to the same, or its model is paid again.
   * `ConfigurationError` for what no model can be asked: a call of a tool without its result, or more than `maxTokens`.
   */
  buildContext?(
    history: readonly ModelMessage[],
    context: AgentContext<State, RunState, Data>,
  ): Awaitable<ModelMessage[]>
  /** Runs before its thread ends in order. */
  stop?(): Awaitable<void>
}

const brand = Symbol.for('dramatis.agent')

/**
 * Defines an agent. Export it as the default of a module and name that module in the role. The module is imported by the
 * agent's own thread, once in each of its lives.
 *
 * @throws {ConfigurationError} when `receive` is missing.
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
  checkDefinition(definition)
  return Object.assign({ [brand]: true, '~types': undefined }, definition)
}

type Fields = Record<string, unknown>

function checkDefinition(definition: unknown): void {
  const { receive, ...others } = Object(definition) as Fields
  if (typeof receive !== 'function') {
    throw new ConfigurationError('defineAgent: "receive" is missing; give it a function (message, context) => reply.', {
      path: 'receive',
    })
  }
  for (const [path, value] of Object.entries(others)) {
    if (value === undefined) continue
    const needed = FIELDS[path]
    if (needed === undefined)
      throw refused(path, `there is no such field; there are receive, ${Object.keys(FIELDS).join(', ')}`)
    if (needed === 'a function' && typeof value !== 'function')
      throw refused(path, `it is ${shown(value)}; a function is needed`)
    if (needed === 'a schema' && typeof (value as Schema)?.['~standard']?.validate !== 'function')
      throw refused(path, `it is ${shown(value)}; a Standard Schema (zod, arktype, ...) is needed`)
  }
}

const FIELDS: Readonly<Record<string, string>> = {
  input: 'a schema',
  output: 'a schema',
  data: 'a schema',
  initialState: 'a state',
  initialRunState: 'a state',
  start: 'a function',
  buildContext: 'a function',
  observe: 'a function',
  stop: 'a function',
}

const refused = (path: string, what: string) => new ConfigurationError(`defineAgent: "${path}": ${what}.`, { path })

/** The handlers in a definition, or undefined if the value did not come from `defineAgent`. */
export function handlersOf(definition: unknown): AgentHandlers | undefined {
  return isBranded(definition) ? definition : undefined
}

/** Who has the brand was checked by `defineAgent`. */
const isBranded = (value: unknown): value is AgentHandlers =>
  typeof value === 'object' && value !== null && brand in value

/** The state that an agent begins with, as its definition gives it. */
export const initialStateOf = ({ initialState }: AgentHandlers, role: RoleInfo): unknown =>
  typeof initialState === 'function' ? initialState(role) : initialState

/**
 * A typed name of an agent, so that a request knows what goes in and what comes out.
 *
 * @example
 * const counter = agentRef<typeof import('./counter.js').default>('counter')
 * const { structuredData } = await context.request(counter, 'add', { structuredData: { by: 2 } })
 */
export function agentRef<D extends AgentDefinition>(
  name: string,
): AgentRef<NonNullable<D['~types']>['input'], NonNullable<D['~types']>['output']> {
  return { name }
}
