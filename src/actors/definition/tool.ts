/** Defines tools. A tool has a name and a description for models, a schema of its input, and the code that runs. */

import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import type { JsonForm } from '../../mailbox/json.ts'
import { ConfigurationError, DramatisError, describe, shown } from '../../shared/errors.ts'
import { optionMeant } from '../../shared/text.ts'
import { thrownData } from '../../shared/thrown.ts'
import type { AskOptions } from './conversation.ts'

/** People who may approve the call of a tool. */

export const APPROVERS = ['others', 'caller', 'anybody'] as const

/**
 * 'others': not the caller of the run. 'caller': the caller of the run alone, who confirms what is done for him.
 * 'anybody': both. A run without a caller is approved by whoever may approve.
 */
export type Approvers = (typeof APPROVERS)[number]

/** Rule that says which people, and how many, have to agree to a call of a tool. */
export interface ApprovalRule {
  readonly by: Approvers
  readonly groups: readonly string[]
  readonly quorum: number
}

/** Says which calls of a tool need approval, and whose. */
export interface ApprovalPolicy<Value = unknown> {
  /** Checks whether a call needs approval. Default: each call does. */
  when?: (input: Value) => boolean
  /** Default: 'others'. */
  by?: Approvers
  /** Groups of which an approver needs one (`Answerer.groups`, `Caller.groups`). Default: whoever may approve. */
  groups?: readonly string[]
  /** Number of different people who have to agree to the same input. Default: 1. One 'no' refuses the call. */
  quorum?: number
}

/**
 * The log that the runtime and the agents write to. The signature is pino's own, so a pino logger can be passed as it
 * is.
 *
 * @example
 * createTeam({ agents, orchestration, logger: pino() })
 */
export interface Logger {
  debug(fields: object, text: string): void
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** The four methods of a logger. */
export type LogLevel = keyof Logger

/** The levels in the order of the numbers by which LOG frames encode them. */
export const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error']

/** Returns the level that a LOG frame carries in its limit field. */
export const logLevel = (limit: number): LogLevel => LEVELS[limit] ?? 'info'

/**
 * Returns log fields as JSON. Values that JSON cannot represent become descriptions, since a log line must not make a
 * turn fail.
 */
export function logFields(fields: object): string {
  try {
    return (
      JSON.stringify(fields, (_key, value: unknown) => {
        if (value instanceof Error) return thrownData(value)
        return typeof value === 'bigint' || typeof value === 'function' ? String(value) : value
      }) ?? '{}'
    )
  } catch {
    return '{}'
  }
}

/** Says of a field that a definition does not have which one was meant, and which there are. */
export function noSuchField(field: string, known: readonly string[]): string {
  const meant = optionMeant(field, known)
  const advice = meant === undefined ? '' : ` (did you mean "${meant}"?)`
  return `there is no such field; there are ${known.join(', ')}${advice}`
}

/** Returns the result of `look`. Refuses the field at `path` of what `call` was given if reading it throws. */
export function readingFor<T>(call: string, path: string, look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (error instanceof DramatisError) throw error
    const text = `${call}: "${path}" throws when it is read (${describe(error)}); give it plain values.`
    throw new ConfigurationError(text, { path }, error)
  }
}

/** A Standard Schema, of zod, arktype, valibot and others. Source: standardschema.dev. */
export type Schema<In = unknown, Out = In> = StandardSchemaV1<In, Out>
/** A schema that also has a JSON schema, which models need. zod 4 and arktype have it, bare valibot does not. */
export type ModelSchema<In = unknown, Out = In> = StandardSchemaV1<In, Out> & StandardJSONSchemaV1<In, Out>

/** Options of a tool's question to a person. */
export interface ToolAskOptions extends Pick<AskOptions, 'choices' | 'answerWithinMs'> {
  /**
   * JSON schema of an object: then the answer is the JSON text of such an object, or "no". Another answer is refused,
   * and the question stays open. Not together with `choices`.
   */
  form?: object
  /** Tells the questions of one call apart over restarts. Default: their order. */
  key?: string
}

/** Second argument of a tool's `run`. */
export interface ToolContext {
  /** Name of the agent that has called the tool. */
  readonly agent: string
  readonly runId: string
  /** `caller`, `tenant`: whom the run is for, if it was said (`RunOptions`). No model can change it. */
  readonly caller?: string | undefined
  readonly tenant?: string | undefined
  /**
   * Aborted when the call's time is up, and when its result is no longer needed because the turn was cancelled or the
   * run is over. With `isolate: true` it is never aborted: the runtime ends the tool's thread instead.
   */
  readonly signal: AbortSignal
  /**
   * A key that is the same for each attempt of one call, and different for every other call. Pass it to a service that
   * does a thing once for each key.
   */
  readonly idempotencyKey: string
  /** Writes lines into the team's log, with the names of the agent and the tool. */
  readonly log: Logger
  /** Reports progress for people who watch: a `tool.progress` event, and an entry of the trace. */
  progress(note: string): void
  /**
   * Asks a person, as the `ask` of an agent does. Only for tools that are given inline, which run in the host. The time
   * of the person counts for no limit of the call and its turn. A tool that is `idempotent` runs again after a restart,
   * and gets the answer that was given meanwhile: it is not asked a second time.
   *
   * Rejects with `RequestTimeoutError` if nobody has answered within `answerWithinMs` (default: that of the agent),
   * with `MessageRejectedError` for an invalid question, and with `ConfigurationError` in another thread, and where
   * nobody can answer because no run is under way.
   *
   * @example
   * const where = await context.ask('Which warehouse?', { choices: ['north', 'south'] })
   */
  ask(question: string, options?: ToolAskOptions): Promise<string>
}

/**
 * Notes of a call that later processes go on with, for tools of this library alone: a call that waits for somebody
 * outside survives a restart.
 */
export interface Held {
  /** The last note of an earlier process; undefined: there is none, and the call begins. */
  readonly state: unknown
  /**
   * Resolves when the note is in the log. A call with a note runs again after a restart, also one that may not run
   * twice. `mayHaveRun`: not that one, since from here on it may have done something.
   */
  note(state: unknown, more?: { mayHaveRun?: boolean }): Promise<void>
  /** Does something whose time does not count for the limit of the call. */
  untimed<T>(work: () => Promise<T>): Promise<T>
  /** Asks a person, as the context does. The question is withdrawn when the signal is aborted. */
  readonly ask?: (question: string, options: ToolAskOptions, until: AbortSignal) => Promise<string>
  /** The call in the trace of its team; undefined: the team has no telemetry. */
  readonly span?: CallSpan | undefined
}

/** Span of a call, for the tool that makes it. */
export interface CallSpan {
  /** Place of the call in the format of W3C Trace Context, for servers that the tool calls. */
  readonly headers: { readonly traceparent?: string; readonly tracestate?: string; readonly baggage?: string }
  set(attributes: Readonly<Record<string, string | number | undefined>>): void
}

/** By the contexts of the calls: a tool of users does not see them. */
const held = new WeakMap<object, Held>()

export function keepNotes(context: ToolContext, notes: Held): void {
  held.set(context, notes)
}

/** Returns the notes of a call; where no log is, they are forgotten. */
export const notesOf = (context: object): Held => held.get(context) ?? FORGOTTEN

const FORGOTTEN: Held = { state: undefined, note: async () => {}, untimed: (work) => work() }

/** Result of `defineTool`, with the types of the tool's input and output. */
export interface Tool<In = unknown, Out = unknown> {
  readonly name: string
  readonly description: string
  readonly '~types'?: { input: In; output: Out }
}

/** Options of `defineTool`. */
export interface ToolOptions<In, Value, Out> {
  /**
   * Name of the tool: an ASCII letter or '_', then ASCII letters, digits, '_' and '-'; at most 64 characters. All
   * models accept such a name.
   */
  name: string
  /** Describes what the tool does and when to use it: models choose tools by this text. */
  description: string
  /**
   * Schema of the input, which is an object. `run` gets the value that the schema returns. A call whose input misses
   * the schema fails with `ToolInputError`.
   */
  input: ModelSchema<In, Value>
  /**
   * Says whether a call may run again after its thread ended in the middle of it. Default: false.
   *
   * In the agent's thread (`{ module }`) the call runs again with the next attempt of the message. If it may not, the
   * message is not redelivered, and its sender gets `OutcomeUnknownError`. In a thread of its own (`isolate: true`) it
   * runs again in another thread, at most 3 times in all and within `timeoutMs`. If it may not, the call fails with
   * `ToolFailedError`.
   */
  idempotent?: boolean
  /**
   * Schema of the output; it needs a JSON schema. When a rehearsal does not run the tool, it answers with a value of
   * this schema. The value that `run` returns is not checked by it.
   */
  output?: ModelSchema
  /**
   * Says that the tool changes nothing, so a call with invented input does no harm. Default: false. If the rehearsal
   * model plays the agent, only such tools run. For the others the runtime returns a value of `output` instead.
   */
  readOnly?: boolean
  /**
   * Says that the tool works outside of this program's own threads and time: with a network, a file or a process.
   * Default: false. `rehearse` and `dramatis rehearse` have a virtual time, so they answer in its place even if it is
   * `readOnly`.
   */
  outside?: boolean
  /** Path of the folder that the tool works in, for those who look at an agent (`workspace` of `AgentInstance`). */
  workspace?: string
  /** Limit of one call, in ms. Default: 30,000. After it the call fails with `ToolTimeoutError`. */
  timeoutMs?: number
  /**
   * Says that a call runs alone among the calls that a model asks for in one answer. Default: false. Calls before it
   * end first, and calls after it begin when it has ended. Use it for tools that change what other tools see, such as
   * files.
   */
  sequential?: boolean
  /**
   * Requires the approval of a person before a call begins: for each call, or for those for which the function returns
   * true. The person gets a `question` event of kind approval, which contains the input.
   * `run.answer(questionId, 'yes')` lets the call begin, `{ approved: true, input }` with another input; 'no', or
   * `{ approved: false, reason }`, is a `ToolFailedError` for the caller. The time limit begins after the approval. For
   * a tool with a thread of its own, a function counts as true. `{ when, by, groups, quorum }` says who may approve,
   * too, and how many have to: by default one, somebody else than the caller of the run.
   */
  approval?: boolean | ((input: Value) => boolean) | ApprovalPolicy<Value>
  /**
   * Time for the answer of the person, in ms: below 2^31. Default: `communication.answerWithinMs` of the agent. After
   * it the call fails with `RequestTimeoutError`.
   */
  answerWithinMs?: number
  /**
   * Says that the tool's calls are polls: equal calls with equal results are intended. Default: false. Livelock
   * detection (`supervision.livelock`) ignores them. Use it for tools that report progress.
   */
  polling?: boolean
  /**
   * Throws if the tool cannot work here, before any model calls it: because a package or a program is not installed,
   * say. Called when a team is created with the tool inline, and when a thread loads the tool's module. That then fails
   * with a `ConfigurationError` that names the tool and has the thrown value as its cause.
   */
  precondition?(): void
  /**
   * Runs the tool. Its result is `toolParts(...)`, or has to be representable as JSON, or is nothing. A Date becomes
   * its text, an instance of a class its fields or the result of its `toJSON`, a Map an object, a Set a list. A value
   * that JSON cannot represent (a function, a bigint, a cycle) is a `ToolFailedError` with its path. A thrown value is
   * a `ToolFailedError` with that value as its cause.
   */
  run(input: Value, context: ToolContext): Out | Promise<Out>
}

/** A tool in the form that the runtime uses. */
export interface ToolDefinition extends Tool {
  readonly input: ModelSchema
  /** JSON schema of the input, for models. */
  readonly inputSchema: object
  /**
   * JSON schema of the values that a rehearsal returns in place of the tool; without it, a rehearsal returns a text.
   */
  readonly outputSchema?: object | undefined
  readonly readOnly: boolean
  readonly outside: boolean
  readonly workspace?: string | undefined
  readonly idempotent: boolean
  readonly timeoutMs: number
  /** True if its calls run alone among the calls of one answer. */
  readonly sequential: boolean
  readonly polling: boolean
  /** True if some of its calls need approval. */
  readonly approval: boolean
  readonly approvers: ApprovalRule
  readonly answerWithinMs?: number | undefined
  needsApproval(input: unknown): boolean
  run(input: unknown, context: ToolContext): unknown
  /** Throws if the tool cannot work here. */
  precondition?(): void
  /** Checks the input in the thread in which `run` would run; if absent, the schema `input` checks it. */
  check?(input: unknown, context: ToolContext): Promise<unknown>
}

const brand = Symbol.for('dramatis.tool')
/** Pattern that providers require for the name of a function. */
export const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
/** Shorter than an agent's default time for an answer, so the agent can still report the failure. */
const DEFAULT_TIMEOUT_MS = 30_000
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1
/** Versions of JSON schema that models accept, the best first. */
const TARGETS = ['draft-2020-12', 'draft-07'] as const

/**
 * Defines a tool. Where it runs depends on how it is given. A tool inline in `tools` of a team or a role runs in the
 * host. A tool that a module exports (`{ module, export? }`) runs in the agent's thread. With `isolate: true` it runs
 * in a thread of its own, which is ended when its time is up. The returned tool is frozen.
 *
 * @throws {ConfigurationError} for a definition that no model and no agent could use, with the field's path.
 *
 * @example
 * export const add = defineTool({
 *   name: 'add',
 *   description: 'Adds two numbers.',
 *   input: z.object({ a: z.number(), b: z.number() }),
 *   run: ({ a, b }) => a + b,
 * })
 */
export function defineTool<In, Value, Out>(tool: ToolOptions<In, Value, Out>): Tool<In, JsonForm<Out>> {
  checkFields(tool)
  const { name, description, input, idempotent = false, timeoutMs = DEFAULT_TIMEOUT_MS } = tool
  const { sequential = false, polling = false } = tool
  const { when, ...approvers } = policyOf(tool.approval)
  const { output, readOnly = false, outside = false, workspace } = tool
  return Object.freeze({
    [brand]: true,
    name,
    description,
    input,
    inputSchema: inputSchemaOf(input['~standard'].jsonSchema, name),
    outputSchema: output && outputSchemaOf(output['~standard'].jsonSchema, name),
    readOnly,
    outside,
    workspace,
    idempotent,
    polling,
    timeoutMs,
    sequential,
    approval: when !== false,
    approvers,
    answerWithinMs: tool.answerWithinMs,
    precondition: () => tool.precondition?.(),
    needsApproval: (value: Value) => (typeof when === 'function' ? when(value) : when),
    run: (value: Value, context: ToolContext) => tool.run(value, context),
  })
}

type GivenApproval<Value> = ToolOptions<unknown, Value, unknown>['approval']

export function policyOf<Value>(approval: GivenApproval<Value> = false): {
  when: boolean | ((input: Value) => boolean)
} & ApprovalRule {
  if (typeof approval !== 'object') return { when: approval, ...ANY_OTHER }
  const { when = true, by = ANY_OTHER.by, groups = [], quorum = ANY_OTHER.quorum } = approval
  return { when, by, groups: [...groups], quorum }
}

/** Rule where a tool says no other: one person, but for the caller. */
export const ANY_OTHER: ApprovalRule = { by: 'others', groups: [], quorum: 1 }

/**
 * Returns the tool, which is able to work here. `path` is the option that names it.
 *
 * @throws ConfigurationError with what the tool's precondition says.
 */
export function usable(tool: ToolDefinition, path: string): ToolDefinition {
  try {
    tool.precondition?.()
  } catch (error) {
    const text = `${path}: the tool "${tool.name}" cannot work here: ${error instanceof Error ? error.message : describe(error)}`
    throw new ConfigurationError(text, { path, tool: tool.name }, error)
  }
  return tool
}

/** Returns the tool in the runtime's form, or undefined if the value did not come from `defineTool`. */
export function toolDefinitionOf(tool: unknown): ToolDefinition | undefined {
  return isDefinition(tool) ? tool : undefined
}

const isDefinition = (value: unknown): value is ToolDefinition =>
  typeof value === 'object' && value !== null && brand in value

type Rule = readonly [accepted: string, passes: (value: unknown) => boolean]

const RULES: Readonly<Record<keyof ToolOptions<unknown, unknown, unknown>, Rule>> = {
  name: [
    "a letter or '_', then letters of ASCII, digits, '_' and '-', at most 64 characters",
    (value) => typeof value === 'string' && TOOL_NAME.test(value),
  ],
  description: [
    'what it does, in words, for a model to choose by',
    (value) => typeof value === 'string' && value.trim() !== '',
  ],
  input: [
    'a Standard Schema that has a JSON schema too (zod 4, arktype)',
    (value) => {
      const standard: Partial<ModelSchema['~standard']> = Object(Object(value)['~standard'])
      return typeof standard.validate === 'function' && typeof standard.jsonSchema?.input === 'function'
    },
  ],
  output: [
    'a Standard Schema that has a JSON schema too (zod 4, arktype)',
    (value) => value === undefined || typeof Object(Object(value)['~standard']).jsonSchema?.output === 'function',
  ],
  readOnly: ['true or false', isFlag],
  outside: ['true or false', isFlag],
  workspace: ['the path of a folder', (value) => value === undefined || (typeof value === 'string' && value !== '')],
  run: ['a function (input, context) => output', (value) => typeof value === 'function'],
  idempotent: ['true or false', isFlag],
  polling: ['true or false', isFlag],
  timeoutMs: [
    'a number of milliseconds above 0, at most 2,147,483,647',
    (value) => value === undefined || (typeof value === 'number' && value > 0 && value <= LONGEST_TIMEOUT_MS),
  ],
  sequential: ['true or false', isFlag],
  approval: [
    `true, false, a function, or { when, by, groups, quorum }: a function, one of ${APPROVERS.join(', ')}, a list of 1 to 100 different names, and a whole number from 1 to 100`,
    (value) => value === undefined || typeof value === 'boolean' || typeof value === 'function' || isPolicy(value),
  ],
  answerWithinMs: [
    'a number of milliseconds above 0, at most 2,147,483,647',
    (value) => value === undefined || (typeof value === 'number' && value > 0 && value <= LONGEST_TIMEOUT_MS),
  ],
  precondition: ['a function that throws', (value) => value === undefined || typeof value === 'function'],
}

export function isPolicy(value: unknown): value is ApprovalPolicy {
  if (!isFields(value)) return false
  const { when, by = ANY_OTHER.by, groups, quorum = 1, ...more }: Partial<Record<keyof ApprovalPolicy, unknown>> = value
  const isKnown = APPROVERS.some((approvers) => approvers === by)
  const isWhole = (when === undefined || typeof when === 'function') && Object.keys(more).length === 0
  return isKnown && isWhole && (groups === undefined || isListOfNames(groups)) && isQuorum(quorum)
}

const MOST_APPROVERS = 100
const LONGEST_GROUP = 256

const isQuorum = (quorum: unknown): boolean =>
  typeof quorum === 'number' && Number.isInteger(quorum) && quorum >= 1 && quorum <= MOST_APPROVERS

const isListOfNames = (names: unknown): boolean =>
  Array.isArray(names) &&
  names.length > 0 &&
  names.length <= MOST_APPROVERS &&
  new Set(names).size === names.length &&
  names.every((name) => typeof name === 'string' && name !== '' && name.length <= LONGEST_GROUP)

const isFields = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function isFlag(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean'
}

function checkFields(tool: unknown): void {
  const given = Object(tool) as Record<string, unknown>
  const known = Object.keys(RULES)
  for (const path of readingFor('defineTool', 'tool', () => Object.keys(given)))
    if (!known.includes(path)) throw refused(path, noSuchField(path, known))
  for (const [path, [accepted, passes]] of Object.entries(RULES))
    if (!readingFor('defineTool', path, () => passes(Reflect.get(given, path))))
      throw refused(path, `it is ${shown(Reflect.get(given, path))}; accepted: ${accepted}`)
}

/**
 * Returns the JSON schema of the input. It has to describe an object, because models call a function with an object.
 * Providers also want `properties`, which records and servers in other languages leave out.
 */
function inputSchemaOf(converter: StandardJSONSchemaV1.Converter, tool: string): object {
  const { $schema: _version, ...schema } = converted((options) => converter.input(options), 'input', tool)
  if (schema.type === 'object') return isFields(schema.properties) ? schema : { ...schema, properties: {} }
  const text = `"${tool}" takes ${typeof schema.type === 'string' ? schema.type : 'something else'}; a tool takes an object. Put it into a field of one`
  throw refused('input', text)
}

function outputSchemaOf(converter: StandardJSONSchemaV1.Converter, tool: string): object {
  const { $schema: _version, ...schema } = converted((options) => converter.output(options), 'output', tool)
  return schema
}

function converted(
  schemaFor: (options: { target: (typeof TARGETS)[number] }) => object,
  path: 'input' | 'output',
  tool: string,
): Record<string, unknown> {
  let error: unknown
  for (const target of TARGETS) {
    try {
      return JSON.parse(JSON.stringify(schemaFor({ target }))) // plain JSON: it is sent to other threads
    } catch (thrown) {
      error ??= thrown
    }
  }
  throw refused(path, `"${tool}" has no JSON schema for it: ${describe(error)}`, error)
}

const refused = (path: string, what: string, cause?: unknown) =>
  new ConfigurationError(`defineTool: "${path}": ${what}.`, { path }, cause)
