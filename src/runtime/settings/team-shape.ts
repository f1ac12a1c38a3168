/** Shape of a team's options: every field of the contract, with the values that it takes. */

import type { AgentRole } from '../../actors/definition/role.ts'
import type { SupervisionConfig } from '../../actors/definition/role-config.ts'
import { TASK_ROUTINGS, type TaskRouting } from '../../actors/definition/task.ts'
import type { OnMismatch } from '../../mailbox/mailbox.ts'
import { isTimeZone, PERIODS } from '../../shared/calendar.ts'
import {
  anyList,
  byName,
  type Check,
  type Fields,
  flag,
  integer,
  isObject,
  listOf,
  methods,
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
import { type ConfigurationError, shown } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import { type FailoverEntry, SWITCH_REASONS } from '../providers/failover.ts'
import { type AddressEntry, type ClientEntry, isAddress } from '../providers/provider.ts'
import { checkMeets } from './agent-settings.ts'
import { folderFrom, mustExist } from './module.ts'
import type { ModelPrice, PriceList } from './money.ts'
import type {
  BudgetConfig,
  Period,
  StateManagement,
  SyncPoint,
  TeamOptions,
  TenantsConfig,
  ThreadsConfig,
  TokenLimit,
} from './options.ts'
import {
  communicationShape,
  deadlockFields,
  groupFields,
  guardrailsShape,
  keyProfilesShape,
  livelockFields,
  modelOptionFields,
  outputShape,
  restartFields,
  roleShape,
  someText,
} from './role-shape.ts'
import { toolsShape, variableName } from './tools.ts'

/*
 * Shape of budgets, of a team and of a run. A budget without any limit is refused: its author believes that it limits
 * something.
 */

const MOST_TOKENS = 2 ** 52
const tokens = integer(1, MOST_TOKENS)
const MOST_MONEY = 1e12
const money = rule(
  'an amount from 0.000000001 to 1,000,000,000,000',
  (value) => typeof value === 'number' && value >= 1e-9 && value <= MOST_MONEY,
)
const price = rule(
  'a price of 0, or from 0.000000001 to 1,000,000,000', // a smaller one would count as none
  (value) => value === 0 || (typeof value === 'number' && value >= 1e-9 && value <= 1e9),
)

const LIMITS = ['tokens', 'perAgentTokens', 'money', 'perAgentMoney']
const limitFields = { tokens, perAgentTokens: tokens, money, perAgentMoney: money }

export const tokenLimit: Check = limiting(LIMITS, shape<TokenLimit>(limitFields))

const periodFields = {
  windowMs: wait(),
  period: oneOf(...PERIODS),
  timeZone: rule('a time zone, such as Europe/Berlin', isTimeZone),
}

/** Checks that a limit counts in a window or in a period, and not in both. */
function timed(check: Check): Check {
  return (value, path) => {
    check(value, path)
    if (!isObject(value)) return
    const { windowMs, period, timeZone }: Partial<Record<keyof Period, unknown>> = value
    if (windowMs !== undefined && (period !== undefined || timeZone !== undefined))
      throw refusedAs(path, 'a windowMs beside a period', 'one of windowMs and period')
    if (windowMs === undefined && period === undefined)
      throw refusedAs(`${path}.windowMs`, 'nothing', 'a windowMs, or a period', 'Say for which time the limit is.')
  }
}

const budget: Check = limiting(
  ['perRun', 'perTeam', 'perTenant'],
  shape<BudgetConfig>({
    perRun: tokenLimit,
    perTeam: timed(
      limiting(LIMITS, shape<{ [Key in keyof (TokenLimit & Period)]: unknown }>({ ...limitFields, ...periodFields })),
    ),
    perTenant: timed(
      limiting(
        ['each', 'of'],
        shape<{ [Key in keyof NonNullable<BudgetConfig['perTenant']>]: unknown }>({
          each: tokenLimit,
          of: byName('an object with limits by tenant', tokenLimit),
          ...periodFields,
        }),
      ),
    ),
  }),
)

const tokenPrice = { input: price, cachedInput: price, output: price }
const tier = shape<NonNullable<ModelPrice['above']>[number]>(
  { ...tokenPrice, tokens: integer(0, MOST_TOKENS) },
  'tokens',
  'input',
  'output',
)
export const modelPrice = shape<ModelPrice>({ ...tokenPrice, perCall: price, above: listOf(tier) }, 'input', 'output')

const LONGEST_CURRENCY = 16
const prices = shape<PriceList>(
  {
    currency: rule(
      `the name of a currency, such as EUR, of 1 to ${LONGEST_CURRENCY} characters`,
      (value) => typeof value === 'string' && /^\S{1,16}$/.test(value) && value !== 'tokens',
    ),
    models: byName('an object with prices by model', modelPrice),
  },
  'currency',
  'models',
)

const MOST_WEIGHT = 1_000_000
const tenants = shape<TenantsConfig>({
  weights: byName(
    'an object with weights by tenant',
    rule(
      'a weight from 0.000001 to 1,000,000',
      (value) => typeof value === 'number' && value >= 1 / MOST_WEIGHT && value <= MOST_WEIGHT,
    ),
  ),
  maxConcurrentRuns: integer(1),
  maxQueuedRuns: integer(0),
})

/** Limits in money of a budget, by their paths. */
function* moneyLimits({ perRun, perTeam, perTenant }: BudgetConfig): IterableIterator<string> {
  const all: [string, TokenLimit | undefined][] = [
    ['perRun', perRun],
    ['perTeam', perTeam],
    ['perTenant.each', perTenant?.each],
    ...Object.entries(perTenant?.of ?? {}).map(([name, limit]): [string, TokenLimit] => [
      `perTenant.of.${name}`,
      limit,
    ]),
  ]
  for (const [path, limit] of all)
    for (const name of ['money', 'perAgentMoney'] as const)
      if (limit?.[name] !== undefined) yield `budget.${path}.${name}`
}

/**
 * Checks that each limit in money can be held: that there are prices, and one for each model that an entry of `models`
 * or a role names.
 */
export function checkMoney(
  { budget = {}, prices }: Pick<TeamOptions, 'budget' | 'prices'>,
  named: () => Iterable<{ path: string; model: string }>,
): void {
  const [path] = moneyLimits(budget)
  if (path === undefined) return
  if (!prices) throw withoutPrices(path)
  for (const { path: where, model } of named())
    if (own(prices.models, model) === undefined)
      throw refusedAs(where, `"${model}", which has no price`, 'a model with a price', pricesNeeded(path))
}

export const pricesNeeded = (path: string): string => `${path} is a limit in money: add the model to prices.models.`

/** Returns the error of a limit in money in a team without prices. */
export const withoutPrices = (path: string): ConfigurationError =>
  refusedAs(path, 'a limit in money without prices', 'tokens, or money beside prices', 'Give the team prices.')

function limiting(fields: readonly string[], check: Check): Check {
  return (value, path) => {
    check(value, path)
    const isNone = (limit: unknown) => limit === undefined || (isObject(limit) && Object.keys(limit).length === 0)
    if (isObject(value) && fields.every((field) => isNone(Reflect.get(value, field))))
      throw refusedAs(path, 'no limit', `an object with ${fields.join(' or ')}`, 'Or leave it out.')
  }
}

/**
 * States that a durable log can end with a session: 'private' (`state`), 'shared' (`agent_shared`, `team_shared`) and
 * 'board' (a blackboard of the whole team).
 */
export type EndingState = 'private' | 'shared' | 'board'
const ENDING_STATES: readonly EndingState[] = ['private', 'shared', 'board']

const ADDRESS = 'an address like https://host/v1, without user, query and fragment'

const WRAP = "Wrap it: fromAiSdk(model), from 'dramatis/ai-sdk'."

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const isFunction = (value: unknown) => typeof value === 'function'
const isField = (name: unknown) => typeof name === 'string' && /^\w{1,64}$/.test(name)

/** A rule whose error shows the kind of a value instead of the value, since it can be a key. */
function hiding(accepted: string, passes: (value: unknown) => boolean, advice = ''): Check {
  return (value, path) => {
    if (!passes(value)) throw refusedAs(path, kindOf(value), accepted, advice)
  }
}

const callFields = {
  maxConcurrent: integer(1),
  maxRetryAfterMs: pause,
  middleware: hiding(
    'a function, or a list of functions',
    (value) => isFunction(value) || (Array.isArray(value) && value.every(isFunction)),
  ),
  thinks: flag,
}

const described = shape<AddressEntry>(
  {
    model: someText,
    baseURL: hiding(ADDRESS, (value) => isText(value) && isAddress(value)),
    api: oneOf('chat', 'responses'),
    apiKeyEnv: variableName,
    apiKey: hiding(
      'a key, or a function that gives one',
      (value) => isFunction(value) || isText(value),
      'Leave it out where no key is needed.',
    ),
    ...callFields,
    giveBack: rule('a list of names of fields', (value) => Array.isArray(value) && value.every(isField)),
    ...modelOptionFields,
  },
  'model',
)

const withClient = shape<ClientEntry>(
  {
    client: methods('complete'),
    model: someText,
    secrets: hiding('a list of texts that are not empty', (value) => Array.isArray(value) && value.every(isText)),
    ...callFields,
    ...modelOptionFields,
  },
  'client',
)

const list = shape<FailoverEntry>(
  {
    anyOf: rule(
      'a list of two names of other models, or more',
      (value) =>
        Array.isArray(value) && value.length > 1 && new Set(value).size === value.length && value.every(isText),
    ),
    switchOn: listOf(oneOf(...SWITCH_REASONS)),
    patienceMs: pause,
    silenceMs: wait('off'),
    returnAfterMs: pause,
  },
  'anyOf',
)

const model: Check = (value, path) => {
  if (!isObject(value)) throw refusedAs(path, kindOf(value), 'a client, or an object with a client or a model')
  if (reading(path, () => 'complete' in value)) return methods('complete')(value, path)
  if (reading(path, () => 'doGenerate' in value)) throw refusedAs(path, 'a model of the AI SDK', 'a client', WRAP)
  if (reading(path, () => 'client' in value)) return withClient(value, path)
  if (reading(path, () => 'anyOf' in value)) return list(value, path)
  described(value, path)
  if (
    reading(
      path,
      () => 'apiKey' in value && 'apiKeyEnv' in value && value.apiKey !== undefined && value.apiKeyEnv !== undefined,
    )
  )
    throw refusedAs(path, 'both apiKey and apiKeyEnv', 'one of them')
}

export const modelsShape: Check = (value, path) => {
  if (value === 'rehearsal') return
  const accepted = '"rehearsal", or an object with at least one model by its name'
  if (!isObject(value)) throw refused(path, value, accepted)
  const entries = reading(path, () => Object.entries(value))
  if (entries.length === 0) throw refusedAs(path, 'an object without models', accepted)
  for (const [name, entry] of entries) model(entry, `${path}.${name}`)
}

/** Checks the `models` of a run: replacement models by the names that roles use. */
export const modelNamesShape: Check = (value, path) => {
  if (!isObject(value)) throw refused(path, value, 'an object of names')
  for (const [name, instead] of reading(path, () => Object.entries(value))) someText(instead, `${path}.${name}`)
}

function kindOf(value: unknown): string {
  if (typeof value === 'string') return 'another text'
  return typeof value === 'object' || value === undefined ? shown(value) : `a ${typeof value}`
}

export type SyncPointSettings = Readonly<Required<SyncPoint>>

const someNames = rule('a list of the name of at least one agent', (value) => Array.isArray(value) && value.length > 0)

const requiredAgents: Check = (value, path) => {
  someNames(value, path)
  listOf(text)(value, path)
}

const syncPointsShape = listOf(
  shape<SyncPoint>(
    {
      name: someText,
      requiredAgents,
      timeoutMs: wait(),
      onTimeout: oneOf('proceed', 'abort', 'notify'),
      dataExchange: flag,
    },
    'name',
    'requiredAgents',
    'timeoutMs',
  ),
)

/** Throws for the first name that two points have, that a point requires twice, or that no agent has. */
export function syncPointsFrom(points: readonly SyncPoint[], agents: readonly AgentRole[]): SyncPointSettings[] {
  const known = new Map(agents.map((role) => [role.name, role]))
  const first = new Map<string, number>()
  return points.map(({ name, requiredAgents, timeoutMs, onTimeout = 'proceed', dataExchange = true }, i) => {
    once(first, name, i, `syncPoints[${i}].name`, `which syncPoints[${first.get(name)}] has already`)
    const required = new Map<string, number>()
    for (const [j, agent] of requiredAgents.entries()) {
      const path = `syncPoints[${i}].requiredAgents[${j}]`
      mustExist(agent, path, known)
      checkMeets(known.get(agent), path)
      once(required, agent, j, path, 'which it requires already')
    }
    return { name, requiredAgents: [...requiredAgents], timeoutMs, onTimeout, dataExchange }
  })
}

function once(seen: Map<string, number>, name: string, at: number, path: string, why: string): void {
  if (seen.has(name)) throw refusedAs(path, `${JSON.stringify(name)}, ${why}`, 'each name once')
  seen.set(name, at)
}

const agents: Check = (value, path) => {
  const isListOfSome = reading(path, () => Array.isArray(value) && value.length > 0)
  if (!isListOfSome) throw refused(path, value, 'a list of at least one role')
  listOf(roleShape)(value, path)
}

const blackboardScope = shape<{ scope: 'run' | 'team' }>({ scope: oneOf('run', 'team') }, 'scope')

const livelockShape = shape<Exclude<NonNullable<SupervisionConfig['livelock']>, false>>({
  ...livelockFields,
  onFound: oneOf('report', 'end'),
})

const folderPath = rule('the path of a folder', isText)

const LONGEST_DAYS = 36_500

export const keepFields = {
  runs: option(integer(0), 1_000),
  days: option(number(0, LONGEST_DAYS), 30),
  bytes: option(integer(0, Number.MAX_SAFE_INTEGER), 2 ** 30),
  keysMs: integer(0, Number.MAX_SAFE_INTEGER),
}

export const stateFields = {
  path: folderPath,
  store: methods('open', 'append', 'sync', 'read', 'dropBefore', 'close'),
  durability: option<'write_behind' | 'commit'>(oneOf('write_behind', 'commit'), 'write_behind'),
  syncMs: option(wait(), 1_000),
  waitForLogMs: option(pause, 0),
  resume: option<'start' | 'manual'>(oneOf('start', 'manual'), 'start'),
  onMismatch: option<OnMismatch>(oneOf('refuse', 'continue'), 'refuse'),
  keep: shape<NonNullable<StateManagement['keep']>>(keepFields),
  archive: folderPath,
  endsWithSession: listOf(oneOf(...ENDING_STATES)),
}
const stateShape = shape<StateManagement>(stateFields)

export const threadFields = {
  max: option(integer(1), Number.POSITIVE_INFINITY),
  idleMs: option<number | false>(wait(), false),
  warmSpares: option(integer(0), 1),
  tools: integer(1),
  toolQueue: option(integer(0), 256),
  isolation: oneOf('thread', 'shared'),
}

/** Checks of each option. The content of `orchestration` is not checked here. */
export const teamFields = {
  agents,
  orchestration: () => {}, // listed here, so that a misspelt name is found; the protocols check it
  communication: communicationShape,
  taskRouting: option<TaskRouting>(oneOf(...TASK_ROUTINGS), 'capability_match'),
  enableBlackboard: (value, path) => {
    if (isObject(value)) return blackboardScope(value, path)
    if (typeof value !== 'boolean') throw refused(path, value, 'true, false, { scope: "run" } or { scope: "team" }')
  },
  syncPoints: syncPointsShape,
  maxConcurrentAgents: option(integer(1), 32),
  maxHandoffs: option(integer(0), 10),
  maxConcurrentRuns: option(integer(1), 100),
  maxStoredBytes: option(integer(0), 2 ** 30),
  maxQueuedRuns: option(integer(0), 1_000),
  maxSpawnedAgents: option(integer(0, 10_000), 64), // a runaway agent would take all threads of the machine
  globalTimeoutMs: option(wait(), 600_000),
  threads: shape<ThreadsConfig>(threadFields),
  supervision: shape<SupervisionConfig>({
    ...restartFields,
    ...groupFields,
    ...deadlockFields,
    livelock: (value, path) => {
      if (value === false) return
      if (!isObject(value)) throw refused(path, value, 'false or an object')
      livelockShape(value, path)
    },
  }),
  budget,
  prices,
  tenants,
  models: modelsShape,
  rehearsal: shape<NonNullable<TeamOptions['rehearsal']>>({ realTools: flag }),
  telemetry: methods('active', 'continued', 'startSpan'),
  resolveFrom: (value, path) => void folderFrom(value, path),
  secretVariables: listOf(variableName),
  keys: keyProfilesShape,
  tools: toolsShape,
  registry: (value, path) => {
    methods('read', 'check', 'save', 'rehearsed')(value, path)
    anyList(Reflect.get(Object(value), 'loaded'), `${path}.loaded`)
  },
  stateManagement: (value, path) => {
    stateShape(value, path)
    const isStore = reading(path, () => Reflect.get(Object(value), 'store')) !== undefined
    const isPath = reading(path, () => Reflect.get(Object(value), 'path')) !== undefined
    if (isStore && isPath) throw refusedAs(`${path}.store`, 'a store beside a path', 'one of path and store')
    if (!isStore) folderPath(Reflect.get(Object(value), 'path'), `${path}.path`)
  },
  persistentFile: rule('the path of a file', isText),
  guardrails: guardrailsShape,
  output: outputShape,
  conversations: methods('load', 'save'),
  logger: methods('debug', 'info', 'warn', 'error'),
  clock: methods('now', 'monotonic', 'random', 'sleep'),
} satisfies Fields<TeamOptions & { orchestration: unknown }>

export const teamShape: Check = (value, path) => {
  optionsShape(value, path)
  const { persistentFile, stateManagement } = Object(value) as Partial<TeamOptions>
  if (persistentFile === undefined || stateManagement === undefined) return
  const advice = 'Leave one of them out: with stateManagement the log keeps the state.'
  throw refused('persistentFile', persistentFile, 'nothing beside stateManagement', advice)
}
const optionsShape = shape(teamFields, 'agents')
