/** Settings of one role with all defaults. A value of the role comes first, then one of the team, then the default. */

import type { RoundBounds } from '../../actors/definition/assignment.ts'
import { modelOptionsOf } from '../../actors/definition/model-options.ts'
import type { AgentRole, ContextStrategy, FloorHistory, RoleInfo } from '../../actors/definition/role.ts'
import type { Overflow, RemoteAgent, SupervisionConfig } from '../../actors/definition/role-config.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { VERB_NAMES, verbTool } from '../../actors/model/verb-tools.ts'
import { checkRemote } from '../../remote/role.ts'
import { type Filled, filled, refused, refusedAs } from '../../shared/checks.ts'
import type { Models } from '../providers/models.ts'
import { moduleFrom } from './module.ts'
import type { RestartType, SyncPoint, TeamOptions } from './options.ts'
import {
  type AgentGuards,
  backoffFields,
  communicationFields,
  contextStrategyOf,
  groupFields,
  guardsOf,
  type HeldKeys,
  heldKeys,
  livelockFields,
  modelOptionFields,
  restartFields,
  roleInfo,
  type SlowTimes,
  schemaFrom,
  slowTimes,
} from './role-shape.ts'
import { type Isolation, isolationOf, type ToolSettings, toolSettings } from './tools.ts'

/** 'run': one for each run. 'team': one for the team. 'on_use': one for each run whose agents use it. false: none. */
export type BlackboardScope = 'run' | 'team' | 'on_use' | false

export function blackboardScope(enabled: TeamOptions['enableBlackboard']): BlackboardScope {
  if (enabled === undefined) return 'on_use'
  if (typeof enabled === 'object') return enabled.scope
  return enabled && 'run'
}

export interface LivelockBounds extends Readonly<Filled<typeof livelockFields>> {
  /**
   * Causes whose third sign ends the run: those in which models alone take part, all, or none. Of others two signs are
   * reported, and the run continues.
   */
  readonly ends: 'models' | 'all' | 'none'
  readonly ofCode: boolean
}

/**
 * Default bounds for messages. Code repeats itself for many reasons that are not visible: a poll, a count in a
 * variable.
 */
export const LIVELOCK_BOUNDS: LivelockBounds = { ...filled(livelockFields), ends: 'models', ofCode: false }

type Given = SupervisionConfig['livelock']

/** Default bound for repeated rounds of a model. Each repetition costs money, so the model is warned early. */
const MOST_ROUNDS = 8

/** Returns the bounds for models. Models are checked unless the team turns it off. */
export function roundBounds(given: Given = {}): RoundBounds | false {
  if (given === false) return false
  return { maxRepeats: given.maxRepeats ?? MOST_ROUNDS, ends: given.onFound !== 'report' }
}

/** Returns the bounds for messages. Those of code are checked only if the team sets bounds. */
export function livelockBounds(given: Given): LivelockBounds | false {
  if (given === undefined || given === false) return given === undefined && LIVELOCK_BOUNDS
  return { ...filled(livelockFields, given), ends: ENDS[given.onFound ?? 'default'], ofCode: true }
}

const ENDS = { default: 'models', end: 'all', report: 'none' } as const

/*
 * Checks that a role has what the verbs in its `tools` need. Without this check only its model would learn of the
 * error, at each attempt.
 */

export interface VerbTeam {
  readonly blackboard: BlackboardScope
  readonly syncPoints: readonly SyncPoint[]
  readonly hasRegistry: boolean
}

function checkVerbs(role: AgentRole, path: string, team: VerbTeam): void {
  for (const [i, tool] of (role.tools ?? []).entries()) {
    const missing = missingFor(tool, role, team)
    if (missing) throw refused(`${path}.tools[${i}]`, tool, 'a tool that the role can use', missing)
  }
}

/** Returns what a role lacks to use that verb, with advice; undefined if it lacks nothing. */
function missingFor(verb: unknown, role: AgentRole, team: VerbTeam): string | undefined {
  switch (verb) {
    case 'delegate':
    case 'delegate_to_executor':
    case 'handoff':
      if (role.delegationAllowed !== false || (verb === 'handoff' && role.canHandoffTo)) return undefined
      return 'It may not delegate (delegationAllowed: false). Take one of the two out.'
    case 'escalate':
      if (role.escalateTo !== undefined) return undefined
      return 'It has nobody to ask: name its manager in escalateTo, or take the tool out.'
    case 'publish':
    case 'read_blackboard':
    case 'blackboard_history':
    case 'subscribe':
      if (team.blackboard === false)
        return 'The team has no blackboard (enableBlackboard: false). Take one of the two out.'
      if (verb !== 'subscribe' || (role.instances ?? 1) === 1) return undefined
      return 'It has several instances, which keep no conversation that new entries could come into. Take one of the two out.'
    case 'sync':
      if (team.syncPoints.some(({ requiredAgents }) => requiredAgents.includes(role.name))) return undefined
      return 'No sync point requires it: name it in requiredAgents of one (syncPoints), or take the tool out.'
    case 'spawn':
    case 'define_agent':
      if (role.trust !== 'privileged')
        return "Only an agent with trust: 'privileged' makes others. Take it out, or trust it more."
      if (verb === 'spawn' || team.hasRegistry) return undefined
      return 'The team has no registry, into which the type would be written: read it with loadTeam, or take the tool out.'
    default:
      return undefined
  }
}

/**
 * Returns the verbs for a role. By default every role may delegate, and every team may have a blackboard. But a model
 * gets only the verbs that somebody has decided on, so that a role without any such setting has no tools.
 */
function offeredVerbs(role: AgentRole, team: VerbTeam): string[] {
  const { delegationAllowed, canDelegateTo, canHandoffTo, escalateTo, trust, tools = [] } = role
  if (trust === 'untrusted') return []
  if (role.verbs === 'all') return VERB_NAMES.filter((name) => name !== ALIAS && !missingFor(name, role, team))
  const { blackboard } = team
  const defines = trust === 'privileged' && team.hasRegistry // and may give tasks to the agents it defines
  const isByTool = tools.includes('delegate_to_executor') // it has its own way to give tasks
  const delegates =
    !isByTool && (delegationAllowed ?? (defines || (canDelegateTo !== undefined && canDelegateTo.length > 0)))
  const byRight = [
    ...(delegates ? ['request', 'delegate'] : []),
    ...((canHandoffTo ? canHandoffTo.length > 0 : delegates) ? ['handoff'] : []),
    ...(escalateTo === undefined ? [] : ['escalate']),
    ...(blackboard === 'run' || blackboard === 'team' ? ['publish', 'read_blackboard'] : []),
    ...(trust === 'privileged' ? ['spawn'] : []),
    ...(defines ? ['define_agent'] : []),
  ]
  const named = tools.filter((name) => typeof name === 'string' && verbTool(name) !== undefined) as string[]
  const verbs = new Set([...byRight, ...(byRight.length > 0 ? ['refuse'] : []), ...named])
  return [...verbs]
}

/** Another name for `ask_user`, which a role has if it is written. */
const ALIAS = 'clarify_with_user'

/** Returns a frozen copy of the data of a checked role. Fields that the role leaves out are absent in the copy too. */
function infoFrom(role: AgentRole): RoleInfo {
  const names = Object.keys(roleInfo).filter((name) => !Object.hasOwn(modelOptionFields, name))
  const info: RoleInfo = { name: role.name }
  for (const name of names) Reflect.set(info, name, Reflect.get(role, name))
  const copy = structuredClone({ ...info, ...modelOptionsOf(role) })
  freeze(copy)
  return copy
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const [key, field] of Object.entries(value)) {
    if (field === undefined) Reflect.deleteProperty(value, key)
    else freeze(field)
  }
  Object.freeze(value)
}

/*
 * Checks that a role asks for nothing that its trust does not allow: it would be accepted now, and refused at each use.
 */

function checkTrust(role: AgentRole, path: string): void {
  if (role.trust !== 'untrusted') return
  const advice = 'An agent that is untrusted may answer and report alone. Take it out, or trust it more.'
  const { canDelegateTo = [], canHandoffTo = [], delegationAllowed = false, tools = [], verbs } = role
  if (canDelegateTo.length > 0) throw refused(`${path}.canDelegateTo`, canDelegateTo, 'an empty list', advice)
  if (canHandoffTo.length > 0) throw refused(`${path}.canHandoffTo`, canHandoffTo, 'an empty list', advice)
  if (delegationAllowed) throw refused(`${path}.delegationAllowed`, delegationAllowed, 'false', advice)
  if (tools.length > 0) throw refused(`${path}.tools`, tools, 'an empty list', advice)
  if (verbs !== undefined) throw refused(`${path}.verbs`, verbs, 'nothing', advice)
}

export function checkMeets(role: AgentRole | undefined, path: string): void {
  if (role?.trust !== 'untrusted') return
  const advice = 'An agent that is untrusted may answer and report alone, so it would never arrive.'
  throw refused(path, role.name, "an agent that is not trust: 'untrusted'", advice)
}

export interface MailboxSettings {
  capacity: number
  bytes: number
  maxMessageBytes: number
  overflow: Overflow
}

export interface SupervisionSettings extends Filled<typeof restartFields>, Filled<typeof groupFields> {
  restart: RestartType
  backoff: Filled<typeof backoffFields>
  slowMs: SlowTimes
}

type MailboxFields = 'mailboxCapacity' | 'mailboxBytes' | 'maxMessageBytes' | 'overflow'

/** Settings of one agent for the runtime. Durations in ms. */
export interface AgentSettings extends HeldKeys, Omit<Filled<typeof communicationFields>, MailboxFields> {
  name: string
  role: AgentRole
  /** Data of the role that its thread sees: a frozen copy, data alone. */
  info: RoleInfo
  /**
   * Code of the agent: the href of a file: URL, or a bare specifier. null: the definition is given, nothing is
   * imported.
   */
  module: string | null
  /** True for a model agent: a language model plays the role, there is no code. */
  playedByModel: boolean
  /** Set if an agent elsewhere plays the role. */
  remote?: RemoteAgent
  /** 'shared': it may share its thread with other agents. */
  isolation: Isolation
  verbs: string[]
  /** Bounds at which the rounds of its model are a loop; false: no check. */
  loops: RoundBounds | false
  output?: ModelSchema
  /** Set if it shares the conversation of a thread with others, of whom one speaks at a time. */
  floor?: FloorHistory
  contextStrategy: ContextStrategy | undefined
  /** Heap limit of its thread in MiB; null: Node's own limit. */
  maxHeapMb: number | null
  maxExternalMb: number | null
  turnTimeoutMs: number | false
  messagesPerTurn: number
  concurrency: number
  instances: number
  /** 'chain': a request that one of its open turns has led to runs within that turn. */
  reentrancy: 'chain' | 'none'
  mailbox: MailboxSettings
  /** Number of times that a turn which threw or was late is tried again. */
  turnRetries: number
  supervision: SupervisionSettings
  tools: ToolSettings
  guards: AgentGuards
}

/**
 * Defaults for code and model agents. Code may block its thread, so it has one turn at a time unless it says otherwise.
 * A model mostly waits, and all that its turns do stands in the log.
 */
const OF_CODE = {
  concurrency: 1,
  reentrancy: 'none',
  turnRetries: 0,
  messagesPerTurn: Number.POSITIVE_INFINITY,
} as const
const OF_MODELS = { concurrency: 32, reentrancy: 'chain', turnRetries: 1, messagesPerTurn: 1_000 } as const

/** An agent elsewhere may work for long: what bounds it is how long it says nothing. */
const NO_LIMIT = 2 ** 31 - 1

/** Team options that apply to each role that sets nothing itself. */
type TeamDefaults = Pick<
  TeamOptions,
  | 'communication'
  | 'supervision'
  | 'enableBlackboard'
  | 'syncPoints'
  | 'tools'
  | 'registry'
  | 'guardrails'
  | 'threads'
  | 'keys'
>

/** A role without code is a model agent. `hasDefinition`: the code is given as a definition. */
export function agentSettings(
  role: AgentRole,
  path: string,
  team: TeamDefaults,
  hasDefinition: boolean,
  models: Pick<Models, 'assertHas'>,
): AgentSettings {
  const verbTeam = {
    blackboard: blackboardScope(team.enableBlackboard),
    syncPoints: team.syncPoints ?? [],
    hasRegistry: team.registry !== undefined,
  }
  checkTrust(role, path)
  checkVerbs(role, path, verbTeam)
  const { mailboxCapacity, mailboxBytes, maxMessageBytes, overflow, ...communication } = filled(
    communicationFields,
    role.communication,
    team.communication,
  )
  if (role.remote) checkRemote(role, path)
  const remote = hasDefinition ? undefined : role.remote
  const module = role.module === undefined ? null : moduleFrom(role.module, `${path}.module`)
  const playedByModel = module === null && !hasDefinition && !remote
  if (playedByModel) models.assertHas(role.model, path)
  const defaults = playedByModel ? OF_MODELS : OF_CODE
  const shared = (role.trust !== 'untrusted' && !remote && team.tools) || []
  const tools = toolSettings(shared, role, path)
  const held = heldKeys(role, path, team.keys)
  return {
    name: role.name,
    role,
    info: infoFrom(role),
    module: hasDefinition ? null : module,
    playedByModel,
    isolation: isolationOf({ ...role, env: held.env }, path, {
      team: team.threads?.isolation,
      playedByModel: playedByModel || remote !== undefined,
      tools,
    }),
    verbs: offeredVerbs({ ...role, tools: [...shared, ...(role.tools ?? [])] }, verbTeam),
    loops: roundBounds(team.supervision?.livelock),
    ...(role.output && { output: outputOf(role, path, role.output) }),
    contextStrategy: contextStrategyOf(role, path, playedByModel),
    ...held,
    maxHeapMb: role.limits?.maxHeapMb ?? null,
    maxExternalMb: role.limits?.maxExternalMb ?? null,
    turnTimeoutMs: role.limits?.turnTimeoutMs ?? 300_000,
    messagesPerTurn: role.limits?.messagesPerTurn ?? defaults.messagesPerTurn,
    concurrency: role.concurrency ?? defaults.concurrency,
    instances: role.instances ?? 1,
    reentrancy: role.reentrancy ?? defaults.reentrancy,
    mailbox: { capacity: mailboxCapacity, bytes: mailboxBytes, maxMessageBytes, overflow },
    ...communication,
    ...(remote && { remote, modelTimeoutMs: NO_LIMIT }),
    turnRetries: role.communication?.turnRetries ?? team.communication?.turnRetries ?? defaults.turnRetries,
    supervision: supervisionSettings(team, role.supervision),
    tools,
    guards: guardsOf(role, path, team.guardrails, playedByModel),
  }
}

function outputOf({ module }: AgentRole, path: string, output: ModelSchema | object): ModelSchema {
  if (module === undefined) return schemaFrom(output, `${path}.output`)
  const advice = 'An agent with code has its output in defineAgent.'
  throw refusedAs(`${path}.output`, 'a schema beside a module', 'a schema of a role that a model plays', advice)
}

export function supervisionSettings(team: TeamDefaults, own: AgentRole['supervision'] = {}): SupervisionSettings {
  const all = team.supervision ?? {}
  return {
    ...filled(restartFields, own, all),
    ...filled(groupFields, all),
    restart: own.restart ?? 'permanent',
    backoff: filled(backoffFields, own.backoff, all.backoff),
    slowMs: slowTimes(own.slowMs, all.slowMs),
  }
}

/**
 * Limit on the depth of nested delegations, each made in a turn that the previous one has led to. Supervision rule 21.
 */
export interface DelegationBound {
  readonly limit: number
  readonly name: string
  /** Reason for the limit, for the text of an error. */
  readonly why: string
}

export const MAX_DELEGATION_DEPTH = 8

export const depthBound = (limit: number): DelegationBound => ({
  limit,
  name: 'maxDelegationDepth',
  why: `maxDelegationDepth is ${limit}`,
})

export const DELEGATION_BOUND = depthBound(MAX_DELEGATION_DEPTH)
