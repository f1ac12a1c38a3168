/** Shape of one role: every field of the contract, with the values that it takes. */

import type { AgentType, SpawnRole } from '../../actors/definition/context.ts'
import { MODEL_OPTION_NAMES, MODEL_OPTIONS, type ModelOptions } from '../../actors/definition/model-options.ts'
import type {
  AgentRole,
  Capability,
  ContextStrategy,
  GuardedBy,
  Guardrail,
  Guardrails,
  RoleInfo,
} from '../../actors/definition/role.ts'
import {
  type CommunicationConfig,
  OVERFLOWS,
  type Overflow,
  type SlowMs,
  type SupervisionConfig,
} from '../../actors/definition/role-config.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { laterSchema } from '../../json-schema/later-schema.ts'
import { MAX_CONCURRENCY } from '../../mailbox/channel.ts'
import { isName, jsonIssue } from '../../mailbox/message.ts'
import { remoteShape } from '../../remote/role.ts'
import {
  type Check,
  type Fields,
  finite,
  flag,
  integer,
  isObject,
  listOf,
  number,
  oneOf,
  option,
  pause,
  reading,
  refused,
  refusedAs,
  rule,
  shape,
  text,
  wait,
} from '../../shared/checks.ts'
import { describe } from '../../shared/errors.ts'
import { moduleFrom } from './module.ts'
import type { Strategy, TeamOptions } from './options.ts'
import { spawnToolsShape, toolsShape, variableName } from './tools.ts'

type Shapes = { [Name in ContextStrategy['strategy']]: Check }

const common = {
  strategy: oneOf('append_until_full', 'hierarchical', 'custom'),
  inherit: oneOf('none', 'summary', 'full'),
}

/** Shapes by strategy. Each strategy has its own options: an option of another strategy has no effect. */
const shapes: Shapes = {
  append_until_full: shape({ ...common, threshold: number(0.01, 1), keepRecent: integer(1) }, 'strategy'),
  hierarchical: shape({ ...common, historyKeep: integer(1) }, 'strategy'),
  custom: shape(common, 'strategy'),
}

const contextStrategyShape: Check = (value, path) => {
  if (!isObject(value)) throw refused(path, value, 'an object with a strategy')
  const strategy: unknown = reading(path, () => Reflect.get(value, 'strategy'))
  common.strategy(strategy, `${path}.strategy`)
  shapes[strategy as keyof Shapes](value, path)
}

/** Returns a copy of the strategy of the role at `path`. Throws if the rest of the role leaves it without effect. */
export function contextStrategyOf(role: AgentRole, path: string, playedByModel: boolean): ContextStrategy | undefined {
  const { contextStrategy, maxTokens, maxOutputTokens } = role
  if (maxTokens !== undefined && maxOutputTokens !== undefined && maxOutputTokens >= maxTokens)
    throw refusedAs(
      `${path}.maxOutputTokens`,
      String(maxOutputTokens),
      `less than maxTokens (${maxTokens})`,
      'The answer and what the model reads share its window.',
    )
  if (!contextStrategy) return undefined
  if (contextStrategy.strategy === 'custom' && playedByModel)
    throw refusedAs(
      `${path}.contextStrategy.strategy`,
      '"custom"',
      '"append_until_full", "hierarchical"',
      'Custom is what buildContext of a definition does: give the role a module.',
    )
  return { ...contextStrategy }
}

const someName = rule('a text that is not empty', (value) => typeof value === 'string' && value !== '')
const aFunction = rule('a function', (value) => typeof value === 'function')

const guardrail = shape<Guardrail>(
  { name: someName, when: oneOf('before', 'beside'), timeoutMs: wait(), check: aFunction },
  'name',
  'check',
)

const afterwards: Check = (value, path) => {
  guardrail(value, path)
  if ((value as Guardrail).when !== undefined)
    throw refusedAs(`${path}.when`, 'a value', 'nothing: it is for input', 'Outputs and calls of tools always wait.')
}

export const guardrailsShape = shape<Guardrails>({
  input: listOf(guardrail),
  output: listOf(afterwards),
  tool: listOf(afterwards),
})

/** Checks of one agent: its own, and those of the team for tools. Each list is a copy. */
export interface AgentGuards {
  readonly input: readonly Guardrail[]
  readonly output: readonly Guardrail[]
  readonly tool: NonNullable<Guardrails['tool']>
}

/** Returns the checks of a role at `path`. Throws if code plays it and the role has checks that only models have. */
export function guardsOf(role: AgentRole, path: string, team: Guardrails | undefined, byModel: boolean): AgentGuards {
  const { input = [], output = [], tool = [] } = role.guardrails ?? {}
  for (const [name, list] of Object.entries({ input, output }))
    if (!byModel && list.length > 0)
      throw refusedAs(
        `${path}.guardrails.${name}`,
        'checks of an agent with code',
        'checks of a role that a model plays',
        'Check it in the code.',
      )
  return { input: [...input], output: [...output], tool: [...(team?.tool ?? []), ...tool] }
}

export function guardedBy({ input, output, tool }: AgentGuards): GuardedBy | undefined {
  const before = input.some(({ when }) => when === 'before')
  const beside = input.some(({ when }) => when !== 'before')
  const guarded = { before, beside, output: output.length > 0, tool: tool.length > 0 }
  return Object.values(guarded).some(Boolean) ? guarded : undefined
}

type Profiles = TeamOptions['keys']

/** Checks the `keys` of a team. No error shows a value: a user may have written the key in the place of its name. */
export const keyProfilesShape: Check = (value, path) => {
  const accepted = 'a list of the names of environment variables for each profile'
  if (!isObject(value)) throw refusedAs(path, `a ${typeof value}`, accepted)
  for (const [name, variables] of reading(path, () => Object.entries(value))) {
    if (!Array.isArray(variables) || variables.length === 0)
      throw refusedAs(`${path}.${name}`, 'no such list', 'a list with at least one name of an environment variable')
    listOf(variableName)(variables, `${path}.${name}`)
  }
}

export const variablesIn = (profiles: Profiles): string[] => Object.values(profiles ?? {}).flat()

export interface HeldKeys {
  /** Profiles that the agent holds; undefined in a team without any. */
  readonly keys: readonly string[] | undefined
  readonly env: string[]
}

/** Returns what the role at `path` holds. Throws `ConfigurationError` for a profile that the team does not have. */
export function heldKeys({ keys = [], env = [] }: AgentRole, path: string, profiles: Profiles): HeldKeys {
  const known = new Map(Object.entries(profiles ?? {}))
  const held = keys.flatMap((name, i) => {
    const variables = known.get(name)
    if (variables) return variables
    const accepted = [...known.keys()].join(', ') || "a profile in the team's keys, which has none"
    throw refused(`${path}.keys[${i}]`, name, accepted)
  })
  return { keys: profiles && [...keys], env: [...new Set([...env, ...held])] }
}

export const modelOptionFields = Object.fromEntries(
  MODEL_OPTION_NAMES.map((name): [string, Check] => {
    const { accepted, accepts } = MODEL_OPTIONS[name]
    return [name, rule(accepted, accepts)]
  }),
) as unknown as Record<keyof ModelOptions, Check>

const ACCEPTED = 'a Standard Schema with JSON schema (zod, arktype, ...), or a JSON Schema'

export const outputShape: Check = (value, path) => {
  if (!isObject(value) && typeof value !== 'function') throw refused(path, value, ACCEPTED)
  reading(path, () => schemaFrom(value, path))
}

export function schemaFrom(given: ModelSchema | object, path: string): ModelSchema {
  try {
    if (!isCode(given)) return schemaBy(given)
    given['~standard'].jsonSchema.input({ target: 'draft-2020-12' })
    return given
  } catch (error) {
    throw refusedAs(path, `what cannot be asked of a model (${describe(error)})`, ACCEPTED)
  }
}

/** Matches zod's words for a type that code checks: JSON may well fit it, though no model can be asked for it. */
const BY_CODE = /Custom types/

/** Throws if no JSON can fit a schema, such as one of a date. */
export function assertPossible(schema: ModelSchema, path: string): void {
  if (!('jsonSchema' in schema['~standard'])) return
  try {
    schemaFrom(schema, path)
  } catch (error) {
    if (!BY_CODE.test(describe(error))) throw error
  }
}

const isCode = (schema: ModelSchema | object): schema is ModelSchema => '~standard' in schema

/**
 * Returns a JSON Schema as an `output` of a run, for which there is no code: the answer is checked by it, and models
 * get it as it is. `T` is what you say of the data.
 *
 * @throws {ConfigurationError} for what is no JSON Schema.
 *
 * @example
 * await team.execute('How many?', { output: jsonOutput<{ n: number }>({ type: 'object', required: ['n'] }) })
 */
export function jsonOutput<T = unknown>(jsonSchema: object): ModelSchema<unknown, T> {
  outputShape(jsonSchema, 'jsonSchema')
  return schemaBy(jsonSchema) as ModelSchema<unknown, T>
}

/** Returns a schema that checks by a JSON Schema of the program's own, and gives that to models as it is. */
function schemaBy(jsonSchema: object): ModelSchema {
  const at = wrongTypeIn(jsonSchema, '')
  if (at !== undefined) throw new TypeError(`${at}: no type of JSON Schema`)
  return laterSchema(jsonSchema, (error) => [{ message: describe(error), path: [] }])
}

const TYPES: ReadonlySet<unknown> = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])

/** Returns the place of a `type` that JSON Schema does not have. What else is wrong shows when the schema checks. */
function wrongTypeIn(schema: unknown, path: string): string | undefined {
  if (!isObject(schema)) return undefined
  const { type, properties, items, anyOf } = schema as Readonly<Record<string, unknown>>
  if (type !== undefined && ![type].flat().every((name) => TYPES.has(name))) return `${path}/type`
  const inner = [
    ...Object.entries(Object(properties)).map(([name, each]) => [`${path}/properties/${name}`, each] as const),
    ...(Array.isArray(anyOf) ? anyOf.map((each, at) => [`${path}/anyOf/${at}`, each] as const) : []),
    [`${path}/items`, items] as const,
  ]
  for (const [at, each] of inner) {
    const found = wrongTypeIn(each, at)
    if (found !== undefined) return found
  }
  return undefined
}

export type SlowTimes = Required<SlowMs>

const DEFAULTS: SlowTimes = { turn: 30_000, step: 30_000, tool: 30_000, model: 120_000, queued: 30_000 }

const time = wait('off')
const byKind = shape<SlowMs>({ turn: time, step: time, tool: time, model: time, queued: time })

const slowMs: Check = (value, path) => (isObject(value) ? byKind(value, path) : time(value, path))

export function slowTimes(own: Given, all: Given): SlowTimes {
  return { ...DEFAULTS, ...timesIn(all), ...timesIn(own) }
}

type Given = number | false | SlowMs | undefined

function timesIn(given: Given): Partial<SlowTimes> {
  if (given === undefined) return {}
  const named =
    typeof given === 'object' ? given : { turn: given, step: given, tool: given, model: given, queued: given }
  return Object.fromEntries(Object.entries(named).filter(([, ms]) => ms !== undefined))
}

const MAX_INSTANCES = 256

export const someText = rule('a string that is not empty', (value) => typeof value === 'string' && value !== '')

/**
 * Checks for a capability name that is not blank. Tasks are searched for the name: one of spaces would be in almost all
 * of them.
 */
const isCapabilityName = (value: unknown) => typeof value === 'string' && value.trim() !== ''

const capabilityShape = shape<Capability>(
  {
    name: rule('a string that is not blank', isCapabilityName),
    description: text,
    inputTypes: listOf(text),
    outputTypes: listOf(text),
    estimatedTokens: integer(0),
    confidence: number(0, 1),
  },
  'name',
)

const capability: Check = (value, path) => {
  if (isObject(value)) return capabilityShape(value, path)
  if (!isCapabilityName(value)) throw refused(path, value, 'a string that is not blank, or a Capability')
}

const agentName: Check = (value, path) => {
  if (typeof value === 'string' && isName(value)) return
  const own = typeof value === 'string' && value.startsWith('$')
  const advice = own ? "Names that begin with '$' are the runtime's own." : ''
  throw refused(path, value, "a letter, then letters, digits, '_' and '-', at most 64 characters", advice)
}

const json: Check = (value, path) => {
  const issue = reading(path, () => jsonIssue(value, path))
  if (issue) throw refusedAs(issue.path, issue.got, 'a JSON value', "Only JSON reaches an agent's thread.")
}

export const communicationFields = {
  mailboxCapacity: option(integer(1), 1_024),
  mailboxBytes: option(integer(1), 2 ** 20),
  maxMessageBytes: option(integer(1), 2 ** 24),
  overflow: option<Overflow>(oneOf(...OVERFLOWS), 'block'),
  responseTimeoutMs: option(wait(), 60_000),
  modelTimeoutMs: option(wait(), 300_000),
  answerWithinMs: option<number | false>(wait('off'), false),
  queueTimeoutMs: option<number | false>(wait('off'), false),
  retries: option(integer(0), 0),
  turnRetries: integer(0),
} satisfies Fields<CommunicationConfig>
export const communicationShape = shape<CommunicationConfig>(communicationFields)

export const backoffFields = { baseMs: option(pause, 200), capMs: option(pause, 10_000) }

const restarts = rule(
  'an integer from 0 on, or Infinity',
  (value) => value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && Number(value) >= 0),
)

export const restartFields = {
  maxRestarts: option(restarts, 3),
  withinMs: option(wait(), 60_000),
  backoff: shape<NonNullable<SupervisionConfig['backoff']>>(backoffFields),
  poisonAttempts: option(integer(1), 3),
  onHandlerError: option<'fail' | 'retry' | 'restart'>(oneOf('fail', 'retry', 'restart'), 'fail'),
  watchdogMs: option<number | false>(wait('off'), 5_000),
  stopGraceMs: option(pause, 5_000),
  slowMs,
}

export const groupFields = {
  strategy: option<Strategy>(oneOf('one_for_one', 'one_for_all', 'rest_for_one'), 'one_for_one'),
  coolDownMs: option(pause, 60_000),
}
export const deadlockFields = {
  deadlock: option<'break' | 'report' | false>(oneOf('break', 'report', false), 'break'),
  confirmMs: option(pause, 250),
}

/** Bounds of signs of a livelock. */
export const livelockFields = {
  maxStalledRounds: option(integer(1), 24),
  maxRepeats: option(integer(2), 24),
  maxMessagesWithoutProgress: option(integer(2), 100),
}

/** Data of a role: its thread sees a copy. */
export const roleInfo = {
  ...modelOptionFields,
  name: agentName,
  description: text,
  systemPrompt: text,
  capabilities: listOf(capability),
  skills: listOf(rule('a string that is not blank', isCapabilityName)),
  verbs: oneOf('all'),
  model: someText,
  maxTokens: integer(1),
  maxRounds: integer(1),
  maxParallelToolCalls: integer(1),
  delegationAllowed: flag,
  canDelegateTo: listOf(text),
  canHandoffTo: listOf(text),
  canBeDelegatedTo: flag,
  escalateTo: text,
  sharedWith: listOf(text),
  priority: finite,
  weight: rule(
    'a number from 0 (NaN and Infinity too) or null',
    (value) => value === null || (typeof value === 'number' && !(Number.isFinite(value) && value < 0)),
  ),
  trust: oneOf('untrusted', 'internal', 'privileged'),
  data: json,
  accepts: listOf(oneOf('image', 'audio', 'file')),
} satisfies Fields<RoleInfo>

/** An agent that an agent makes hands off to whom it may delegate to: no further than its maker. */
const { canHandoffTo: _, ...madeInfo } = roleInfo

/** Shape of a role that an agent makes. It takes data alone, since the role comes from a thread. */
export const spawnShape = shape<SpawnRole>(
  {
    ...madeInfo,
    module: (value, path) => void moduleFrom(value, path),
    tools: spawnToolsShape,
    lifetime: oneOf('run', 'team'),
    isolation: oneOf('thread', 'shared'),
  },
  'name',
)

/** The module is checked by the registry, which knows the place that it is relative to. */
export const typeShape = shape<AgentType>(
  { ...madeInfo, class: someText, module: text, tools: spawnToolsShape },
  'name',
)

export const roleFields = {
  ...roleInfo,
  tools: toolsShape,
  module: (value, path) => void moduleFrom(value, path),
  remote: remoteShape,
  instances: integer(1, MAX_INSTANCES),
  concurrency: integer(1, MAX_CONCURRENCY),
  contextStrategy: contextStrategyShape,
  output: outputShape,
  reentrancy: oneOf('chain', 'none'),
  isolation: oneOf('thread', 'shared'),
  limits: shape<NonNullable<AgentRole['limits']>>({
    maxHeapMb: integer(8), // a thread cannot even boot with 4
    maxExternalMb: integer(1),
    turnTimeoutMs: wait('off'),
    messagesPerTurn: integer(1),
  }),
  env: listOf(variableName),
  keys: listOf(someText),
  supervision: shape<NonNullable<AgentRole['supervision']>>({
    ...restartFields,
    restart: oneOf('permanent', 'transient', 'temporary'),
  }),
  guardrails: guardrailsShape,
  communication: communicationShape,
} satisfies Fields<AgentRole>

export const roleShape = shape<AgentRole>(roleFields, 'name')
