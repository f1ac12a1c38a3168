/** Shape of one role: every field of the contract, with the values that it takes. */

import type { CommunicationConfig } from '../../actors/definition/communication-config.ts'
import type { AgentType, SpawnRole } from '../../actors/definition/context/context.ts'
import type { AgentRole, Capability, RoleInfo } from '../../actors/definition/role.ts'
import type { SupervisionConfig } from '../../actors/definition/supervision-config.ts'
import { isName, jsonIssue } from '../../mailbox/message.ts'
import { OVERFLOWS } from '../../mailbox/overflow.ts'
import { MAX_CONCURRENCY } from '../../mailbox/window.ts'
import type { Check, Fields } from '../checks/checks.ts'
import {
  finite,
  flag,
  integer,
  isObject,
  listOf,
  number,
  oneOf,
  pause,
  rule,
  shape,
  text,
  wait,
} from '../checks/checks.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'
import { contextStrategyShape } from './context-shape.ts'
import { guardrailsShape } from './guardrail-shape.ts'
import { modelOptionFields } from './model-option-fields.ts'
import { moduleFrom } from './module.ts'
import { outputShape } from './output-shape.ts'
import { slowMs } from './slow-times.ts'
import { spawnToolsShape, toolsShape, variableName } from './tools.ts'

/** Limit on instances, because each is a thread. */
const MAX_INSTANCES = 256

/** Checks for a text that is not empty. */
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

/** Communication settings, for a role as well as for the team. */
export const communicationShape = shape<CommunicationConfig>({
  mailboxCapacity: integer(1),
  mailboxBytes: integer(1),
  maxMessageBytes: integer(1),
  overflow: oneOf(...OVERFLOWS),
  responseTimeoutMs: wait(),
  modelTimeoutMs: wait(),
  answerWithinMs: wait('off'),
  queueTimeoutMs: wait('off'),
  retries: integer(0),
  turnRetries: integer(0),
})

/** Fields of `supervision` that a role and the team share. */
export const restartFields = {
  maxRestarts: rule(
    'an integer from 0 on, or Infinity',
    (value) => value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && Number(value) >= 0),
  ),
  withinMs: wait(),
  backoff: shape<NonNullable<SupervisionConfig['backoff']>>({ baseMs: pause, capMs: pause }),
  poisonAttempts: integer(1),
  onHandlerError: oneOf('fail', 'retry', 'restart'),
  watchdogMs: wait('off'),
  stopGraceMs: pause,
  slowMs,
}

const roleInfo = {
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
} satisfies { [Key in keyof Required<RoleInfo>]: Check }

/** Shape of a role that an agent makes. It takes data alone, since the role comes from a thread. */
export const spawnShape = shape<SpawnRole>(
  {
    ...roleInfo,
    module: (value, path) => void moduleFrom(value, path),
    tools: spawnToolsShape,
    lifetime: oneOf('run', 'team'),
    isolation: oneOf('thread', 'shared'),
  },
  'name',
)

/**
 * Shape of a type that an agent defines. The module is checked by the registry, which knows the place that it is
 * relative to.
 */
export const typeShape = shape<AgentType>(
  { ...roleInfo, class: someText, module: text, tools: spawnToolsShape },
  'name',
)

/** Checks of each field of a role. */
export const roleFields: Fields<AgentRole> = {
  ...roleInfo,
  tools: toolsShape,
  module: (value, path) => void moduleFrom(value, path),
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
}

/** Throws for the first field of a role that has a wrong name, type or range. */
export const roleShape = shape<AgentRole>(roleFields, 'name')
