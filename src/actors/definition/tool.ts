/** What a tool is: a name and a description that a model reads, a schema of its input, and the code that runs. */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import { ConfigurationError, describe, shown } from '../../errors.ts'
import type { JsonForm } from '../../mailbox/json-form.ts'
import type { Logger } from './logger.ts'

/** A Standard Schema, of zod, arktype, valibot and others. Source: standardschema.dev. */
export type Schema<In = unknown, Out = In> = StandardSchemaV1<In, Out>
/** A model needs the JSON schema too: zod 4 and arktype have it, bare valibot does not. */
export type ModelSchema<In = unknown, Out = In> = StandardSchemaV1<In, Out> & StandardJSONSchemaV1<In, Out>

/** What a tool is given beside its input. */
export interface ToolContext {
  /** Who has called it. */
  readonly agent: string
  readonly runId: string
  /**
   * Aborted when its time is up, and when nobody waits for it any more: its turn was cancelled, its run is over. With `isolate`
   * it never is: there the thread is ended.
   */
  readonly signal: AbortSignal
  /**
   * The same for the same call, however often its turn is tried again, and for no other: for a service that does a thing once
   * for each key.
   */
  readonly idempotencyKey: string
  /** Lines in the team's log, with the names of the agent and the tool. */
  readonly log: Logger
  /** How far it has come, for people who watch: a `tool.progress` event, and an entry of the trace. */
  progress(note: string): void
}

/** What `defineTool` returns, with the types of what goes in and comes out. */
export interface Tool<In = unknown, Out = unknown> {
  readonly name: string
  readonly description: string
  readonly '~types'?: { input: In; output: Out }
}

/** What `defineTool` takes. */
export interface ToolOptions<In, Value, Out> {
  /** A letter or '_', then letters of ASCII, digits, '_' and '-'; at most 64. That is what all models accept. */
  name: string
  /** What it does and when to use it: models choose by that. */
  description: string
  /** Of an object. `run` gets what the schema returns. A call whose input misses it is a `ToolInputError`. */
  input: ModelSchema<In, Value>
  /**
   * Whether it may run again when the thread that it ran in has died half-way; false. In the agent's thread (`{ module }`) it
   * runs again with the next attempt of the message; where it may not, the message is not tried again, and its sender gets
   * `OutcomeUnknownError`. In a thread of its own (`isolate: true`) it runs again in another one, up to 3 times in all and within
   * `timeoutMs`; where it may not, the call fails with `ToolFailedError`.
   */
  idempotent?: boolean
  /**
   * What it returns, as a schema with a JSON schema. A rehearsal answers with a value of it where the tool does not run; what `run`
   * returns is not checked by it.
   */
  output?: ModelSchema
  /**
   * Whether it changes nothing, so that a call with invented input does no harm; false. Where the rehearsal model answers, only
   * such tools run; the others are answered in their place, from `output`.
   */
  readOnly?: boolean
  /**
   * Whether it works outside of this program's own threads and time: with a network, a file, a process; false. `rehearse` and
   * `dramatis rehearse`, whose time is virtual, answer in its place also where it is `readOnly`.
   */
  outside?: boolean
  /** How long it may take, in ms; 30,000. Then the call fails with `ToolTimeoutError`. */
  timeoutMs?: number
  /**
   * Whether a call runs alone among those that a model asks for in one answer; false. Calls before it end first, and calls after
   * it begin when it has ended. For tools that change what other tools see, such as files.
   */
  sequential?: boolean
  /**
   * Whether a person has to agree first: each call, or those of which the function says so. They get a `question` event of kind
   * approval, and `run.answer(questionId, 'yes')` lets the call begin; 'no' is a `ToolFailedError` for who has called it. What is
   * asked has the input in it. The time limit begins after that. Of a tool with a thread of its own a function counts as true.
   */
  approval?: boolean | ((input: Value) => boolean)
  /**
   * Its calls are polls: the same again and again, with the same result, is meant. Livelock detection (`supervision.livelock`)
   * leaves them alone. false. For tools that say how far something is.
   */
  polling?: boolean
  /**
   * Returns what can be said in JSON, or nothing: a Date is its text, an instance of a class is its fields or what its `toJSON` gives.
   * What JSON cannot say, a function, a bigint, a Map, a cycle, is a `ToolFailedError` with its path. So is what it throws, with
   * the cause.
   */
  run(input: Value, context: ToolContext): Out | Promise<Out>
}

/** A tool as the runtime sees it. */
export interface ToolDefinition extends Tool {
  readonly input: ModelSchema
  /** What a model is told of the input. */
  readonly inputSchema: object
  /** What a rehearsal answers in its place is of this JSON schema; without one it is a text. */
  readonly outputSchema?: object | undefined
  readonly readOnly: boolean
  readonly outside: boolean
  readonly idempotent: boolean
  readonly timeoutMs: number
  /** Whether its calls run alone among those of one answer. */
  readonly sequential: boolean
  readonly polling: boolean
  /** Whether some of its calls need approval. */
  readonly approval: boolean
  needsApproval(input: unknown): boolean
  run(input: unknown, context: ToolContext): unknown
  /** Checks the input where `run` would; left out, `input` does. */
  check?(input: unknown, context: ToolContext): Promise<unknown>
}

const brand = Symbol.for('dramatis.tool')
/** What providers take as the name of a function. */
export const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
/** Shorter than an agent has to answer by default, so that it can still say what went wrong. */
const DEFAULT_TIMEOUT_MS = 30_000
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1
/** Versions of JSON schema that models take, the best first. */
const TARGETS = ['draft-2020-12', 'draft-07'] as const

/**
 * Defines a tool. Given inline, in `tools` of a team or a role, it runs in the host; as the export of a module
 * (`{ module, export? }`) in the agent's thread, and with `isolate: true` in a thread of its own that is ended when its time is
 * up. What it returns is frozen.
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
  const { sequential = false, polling = false, approval = false } = tool
  const { output, readOnly = false, outside = false } = tool
  return Object.freeze({
    [brand]: true,
    name,
    description,
    input,
    inputSchema: inputSchemaOf(input['~standard'].jsonSchema, name),
    outputSchema: output && outputSchemaOf(output['~standard'].jsonSchema, name),
    readOnly,
    outside,
    idempotent,
    polling,
    timeoutMs,
    sequential,
    approval: approval !== false,
    needsApproval: (value: Value) => (typeof approval === 'function' ? approval(value) : approval),
    run: (value: Value, context: ToolContext) => tool.run(value, context),
  })
}

/** The tool as the runtime sees it, or undefined if the value did not come from `defineTool`. */
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
  run: ['a function (input, context) => output', (value) => typeof value === 'function'],
  idempotent: ['true or false', isFlag],
  polling: ['true or false', isFlag],
  timeoutMs: [
    'a number of milliseconds above 0, at most 2,147,483,647',
    (value) => value === undefined || (typeof value === 'number' && value > 0 && value <= LONGEST_TIMEOUT_MS),
  ],
  sequential: ['true or false', isFlag],
  approval: [
    'true, false or a function',
    (value) => value === undefined || typeof value === 'boolean' || typeof value === 'function',
  ],
}

function isFlag(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean'
}

function checkFields(tool: unknown): void {
  const given = Object(tool) as Record<string, unknown>
  const known = Object.keys(RULES)
  for (const path of Object.keys(given))
    if (!known.includes(path)) throw refused(path, `there is no such field; there are ${known.join(', ')}`)
  for (const [path, [accepted, passes]] of Object.entries(RULES))
    if (!passes(given[path])) throw refused(path, `it is ${shown(given[path])}; accepted: ${accepted}`)
}

/** Models call a function with an object, so its schema is of one. */
function inputSchemaOf(converter: StandardJSONSchemaV1.Converter, tool: string): object {
  const { $schema: _version, ...schema } = converted((options) => converter.input(options), 'input', tool)
  if (schema.type === 'object') return schema
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
      return JSON.parse(JSON.stringify(schemaFor({ target }))) // it crosses threads
    } catch (thrown) {
      error ??= thrown
    }
  }
  throw refused(path, `"${tool}" has no JSON schema for it: ${describe(error)}`, error)
}

const refused = (path: string, what: string, cause?: unknown) =>
  new ConfigurationError(`defineTool: "${path}": ${what}.`, { path }, cause)
