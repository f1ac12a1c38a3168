/** Shape of a team's options: every field of the contract, with the values that it takes. */

import { TASK_ROUTINGS } from '../../actors/definition/routing.ts'
import type { SupervisionConfig } from '../../actors/definition/supervision-config.ts'
import type { Check, Fields } from '../checks/checks.ts'
import {
  anyList,
  flag,
  integer,
  isObject,
  listOf,
  methods,
  number,
  oneOf,
  pause,
  rule,
  shape,
  wait,
} from '../checks/checks.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'
import { budget } from './budget-shape.ts'
import { ENDING_STATES } from './ending-state.ts'
import { guardrailsShape } from './guardrail-shape.ts'
import { keyProfilesShape } from './key-profiles.ts'
import { modelsShape } from './models-shape.ts'
import { folderFrom } from './module.ts'
import type { StateManagement, TeamOptions, ThreadsConfig } from './options.ts'
import { outputShape } from './output-shape.ts'
import { communicationShape, restartFields, roleShape } from './role-shape.ts'
import { syncPointsShape } from './sync-points.ts'
import { toolsShape, variableName } from './tools.ts'

const agents: Check = (value, path) => {
  const isListOfSome = reading(path, () => Array.isArray(value) && value.length > 0)
  if (!isListOfSome) throw refused(path, value, 'a list of at least one role')
  listOf(roleShape)(value, path)
}

const blackboardScope = shape<{ scope: 'run' | 'team' }>({ scope: oneOf('run', 'team') }, 'scope')

const livelockBounds: Check = (value, path) => {
  if (!isObject(value)) throw refused(path, value, 'false or an object')
  shape<Exclude<NonNullable<SupervisionConfig['livelock']>, false>>({
    maxStalledRounds: integer(1),
    maxRepeats: integer(2),
    maxMessagesWithoutProgress: integer(2),
    onFound: oneOf('report', 'end'),
  })(value, path)
}

const folderPath: Check = (value, path) => {
  if (typeof value !== 'string' || value === '') throw refused(path, value, 'the path of a folder')
}

const LONGEST_DAYS = 36_500

const stateShape = shape<StateManagement>({
  path: folderPath,
  store: methods('open', 'append', 'sync', 'read', 'dropBefore', 'close'),
  durability: oneOf('write_behind', 'commit'),
  syncMs: wait(),
  waitForLogMs: pause,
  resume: oneOf('start', 'manual'),
  onMismatch: oneOf('refuse', 'continue'),
  keep: shape<NonNullable<StateManagement['keep']>>({
    runs: integer(0),
    days: number(0, LONGEST_DAYS),
    bytes: integer(0, Number.MAX_SAFE_INTEGER),
    keysMs: integer(0, Number.MAX_SAFE_INTEGER),
  }),
  archive: folderPath,
  endsWithSession: listOf(oneOf(...ENDING_STATES)),
})

/** Checks of each option. The content of `orchestration` is not checked here. */
export const teamFields: Fields<TeamOptions & { orchestration: unknown }> = {
  agents,
  orchestration: () => {}, // listed here, so that a misspelt name is found; the protocols check it
  communication: communicationShape,
  taskRouting: oneOf(...TASK_ROUTINGS),
  enableBlackboard: (value, path) => {
    if (isObject(value)) return blackboardScope(value, path)
    if (typeof value !== 'boolean') throw refused(path, value, 'true, false, { scope: "run" } or { scope: "team" }')
  },
  syncPoints: syncPointsShape,
  maxConcurrentAgents: integer(1),
  maxConcurrentRuns: integer(1),
  maxStoredBytes: integer(0),
  maxQueuedRuns: integer(0),
  maxSpawnedAgents: integer(0, 10_000),
  globalTimeoutMs: wait(),
  threads: shape<ThreadsConfig>({
    max: integer(1),
    idleMs: wait(),
    warmSpares: integer(0),
    tools: integer(1),
    toolQueue: integer(0),
    isolation: oneOf('thread', 'shared'),
  }),
  supervision: shape<SupervisionConfig>({
    ...restartFields,
    strategy: oneOf('one_for_one', 'one_for_all', 'rest_for_one'),
    coolDownMs: pause,
    deadlock: oneOf('break', 'report', false),
    confirmMs: pause,
    livelock: (value, path) => {
      if (value !== false) livelockBounds(value, path)
    },
  }),
  budget,
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
  persistentFile: rule('the path of a file', (value) => typeof value === 'string' && value !== ''),
  guardrails: guardrailsShape,
  output: outputShape,
  conversations: methods('load', 'save'),
  logger: methods('debug', 'info', 'warn', 'error'),
  clock: methods('now', 'monotonic', 'random', 'sleep'),
}

/** Throws for the first option that has a wrong name, type or range. */
export const teamShape: Check = (value, path) => {
  optionsShape(value, path)
  const { persistentFile, stateManagement } = Object(value) as Partial<TeamOptions>
  if (persistentFile === undefined || stateManagement === undefined) return
  const advice = 'Leave one of them out: with stateManagement the log keeps the state.'
  throw refused('persistentFile', persistentFile, 'nothing beside stateManagement', advice)
}
const optionsShape = shape(teamFields, 'agents')
