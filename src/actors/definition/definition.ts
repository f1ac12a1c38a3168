/** Defines agents: handlers, schemas and initial state. An agent's module exports one definition as its default. */

import type { TypedMessage } from '../../mailbox/message.ts'
import { ConfigurationError, shown } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import type { AgentContext, AgentRef } from './context.ts'
import type { ModelMessage } from './model.ts'
import type { RoleInfo } from './role.ts'
import { noSuchField, readingFor, type Schema } from './tool.ts'

/** A value, or a promise of one. */
export type Awaitable<T> = T | Promise<T>
/** Result of a handler. A string is the content; no value is an empty reply. `structuredData` is a JSON value. */
export type Reply<Out = unknown> = string | void | { content?: string; structuredData?: Out }
/** Data that the branches of a handler return, as a union. Inferred, `Out` would be that of the first branch alone. */
type DataOf<Said> = Said extends { structuredData: infer Data } ? Data : never
/** Output of an agent: that of its schema, of its named type, or else of its handler. */
type Produced<Out, Said> = unknown extends Out ? ([DataOf<Said>] extends [never] ? Out : DataOf<Said>) : Out

/** Result of `defineAgent`: an agent's code, with the types of its input, output, states and data. */
export interface AgentDefinition<In = unknown, Out = unknown, State = unknown, RunState = unknown, Data = unknown> {
  readonly '~types'?: { input: In; output: Out; state: State; runState: RunState; data: Data }
}

/** Argument of `defineAgent`. */
export interface AgentHandlers<
  In = unknown,
  Out = unknown,
  State extends object = object,
  RunState extends object = object,
  Data = unknown,
  Given = In,
  Said extends Reply<Out> = Reply<Out>,
> {
  /**
   * Checks the structured data of messages of type request and delegate only; `receive` gets the value that it returns.
   * An `agentRef` of the agent takes what the schema takes: fields with a default may be left out.
   */
  input?: Schema<Given, In> | Schema<unknown, In>
  /** Checks the structured data of each reply. If a reply misses the schema, the caller gets `ReplyInvalidError`. */
  output?: Schema<Out, unknown>
  /** Checks `data` of the role when the agent starts. */
  data?: Schema<unknown, Data>
  /**
   * A JSON object: the state when the agent starts for the first time. Refused if the role has `instances` or
   * `concurrency` above 1.
   */
  initialState?: State | ((role: RoleInfo) => State)
  /** A JSON object: the state at the beginning of each run. Refused if the role has `instances` above 1. */
  initialRunState?: RunState | (() => RunState)
  /** Runs once in each thread of the agent, before the first message. Limit: `limits.turnTimeoutMs` of the role. */
  start?(
    context: Pick<AgentContext<State, RunState, Data>, 'role' | 'data' | 'state' | 'setState' | 'log' | 'signal'>,
  ): Awaitable<void>
  /**
   * Handles requests, delegations, and messages without an answer. It handles one message at a time in each of the
   * role's `instances`; with `concurrency`, one of each run. If it throws, the turn fails.
   */
  receive(
    message: TypedMessage<In>,
    context: AgentContext<State, RunState, Data>,
  ): Awaitable<Said | Reply<NoInfer<Out>>>
  /** Handles messages of type broadcast, report and publish. */
  observe?(message: TypedMessage<unknown>, context: AgentContext<State, RunState, Data>): Awaitable<void>
  /**
   * Chooses the messages that the model sees with each call of `context.think`, in place of a strategy of the role
   * (`contextStrategy`). `history`: the messages that this `think` was given and has added since, without the system
   * prompt. The role's prompt is put before the returned messages, unless they have a system message of their own.
   *
   * A redelivered turn has to return the same messages, otherwise the model is called and paid again. Messages that no
   * model can be asked with are a `ConfigurationError`: a tool call without its result, or more than `maxTokens`.
   */
  buildContext?(
    history: readonly ModelMessage[],
    context: AgentContext<State, RunState, Data>,
  ): Awaitable<ModelMessage[]>
  /** Runs before the agent's thread ends in an orderly way. */
  stop?(): Awaitable<void>
}

const brand = Symbol.for('dramatis.agent')

/**
 * Defines an agent. Export it as the default of a module and name that module in the role. The agent's own thread
 * imports the module; each new thread after a restart imports it again.
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
  Given = In,
  Said extends Reply<Out> = Reply<Out>,
>(
  definition: AgentHandlers<In, Out, State, RunState, Data, Given, Said>,
): AgentDefinition<Given, Produced<Out, Said>, State, RunState, Data> {
  checkDefinition(definition)
  return Object.assign({ [brand]: true, '~types': undefined }, definition)
}

type Fields = Record<string, unknown>

function checkDefinition(definition: unknown): void {
  const { receive, ...others } = readingFor(
    'defineAgent',
    'definition',
    (): Fields => ({ ...Object(definition), receive: Object(definition).receive }),
  )
  if (typeof receive !== 'function') {
    throw new ConfigurationError('defineAgent: "receive" is missing; give it a function (message, context) => reply.', {
      path: 'receive',
    })
  }
  for (const [path, value] of Object.entries(others)) {
    if (value === undefined) continue
    const needed = own(FIELDS, path)
    if (needed === undefined) throw refused(path, noSuchField(path, ['receive', ...Object.keys(FIELDS)]))
    if (needed === 'a function' && typeof value !== 'function')
      throw refused(path, `it is ${shown(value)}; a function is needed`)
    if (needed === 'a schema' && !readingFor('defineAgent', path, () => isSchema(value)))
      throw refused(path, `it is ${shown(value)}; a Standard Schema (zod, arktype, ...) is needed`)
  }
}

const isSchema = (value: unknown): boolean => typeof (value as Schema)?.['~standard']?.validate === 'function'

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

/** Returns the handlers of a definition, or undefined if the value did not come from `defineAgent`. */
export function handlersOf(definition: unknown): AgentHandlers | undefined {
  return isBranded(definition) ? definition : undefined
}

/** Checks for the brand; `defineAgent` has checked every value that has it. */
const isBranded = (value: unknown): value is AgentHandlers =>
  typeof value === 'object' && value !== null && brand in value

/** Returns the initial state of an agent from its definition. */
export const initialStateOf = ({ initialState }: AgentHandlers, role: RoleInfo): unknown =>
  typeof initialState === 'function' ? initialState(role) : initialState

/**
 * Returns an agent's name with the types of its input and output, so that a request is typed.
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

/** Reads the exports of a user's module. Every place that imports such a module reads it through `exportsOf`. */

export interface Exports {
  default?: unknown
}

/**
 * Returns the exports as the author wrote them. `import()` gives a CommonJS module as its `default`. If a compiler
 * (`tsc`, Babel, esbuild) produced the CommonJS module, the mark `__esModule` says that the exports are inside
 * `default`.
 */
export function exportsOf(namespace: Exports): Exports {
  return isCompiled(namespace.default) ? namespace.default : namespace
}

/** Does the same for the result of `require`: without the mark, the whole value is the default export. */
export function exportsOfRequired(exported: unknown): Exports {
  return isCompiled(exported) ? exported : { ...Object(exported), default: exported }
}

export type Imports = (href: string) => Promise<Exports>

/** Imports one module after the other: Node 20 refuses a `require` of an ES module that another import is loading. */
export function oneByOne(imports: Imports): Imports {
  let last: Promise<unknown> = Promise.resolve()
  return (href) => {
    const next = last.then(() => imports(href))
    last = next.catch(() => undefined)
    return next
  }
}

function isCompiled(exported: unknown): exported is Exports {
  return typeof exported === 'object' && exported !== null && Reflect.get(exported, '__esModule') === true
}
