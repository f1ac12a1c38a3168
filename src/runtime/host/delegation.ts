/** Decides who may delegate to whom, and how deeply. The host decides, so code in a thread cannot get around it. */

import { type Capability, isTrustedTo, isVerb, trustFor, type Verb } from '../../actors/definition/role.ts'
import type { Logger } from '../../actors/definition/tool.ts'
import type { RoutedTask } from '../../actors/turn/delegate.ts'
import { correlationOf, flagsOf, kindOf, type Memory, REQUEST, TO_ALL, turnOf, typeOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import {
  ChainDepthError,
  ConfigurationError,
  DelegationRefusedError,
  MessageRejectedError,
} from '../../shared/errors.ts'
import { DELEGATION_BOUND, type DelegationBound } from '../settings/agent-settings.ts'
import { type Agent, NO_TURN } from './agent.ts'
import type { Core } from './core.ts'
import { type AgentDirectory, ORCHESTRATOR_INDEX, USER_INDEX } from './directory.ts'
import { type Offered, offeredIn, type Requests } from './mailboxes.ts'
import type { RunState } from './run.ts'

/*
 * Rates how well an agent fits a task, by what it declares. A task names a capability or tool if its text contains that
 * name, in any letter case. Capabilities that the task requires must be declared in any case.
 */

/** Task to be done, with the types that it takes and gives. */
export interface Work extends Pick<RoutedTask, 'text' | 'requiredCapabilities'> {
  readonly inputTypes: readonly string[]
  readonly outputTypes: readonly string[]
}

export interface Declared {
  readonly capabilities: readonly (string | Capability)[]
  readonly tools: readonly string[]
  readonly left: number
}

/** Reasons to choose an agent, the strongest first. */
export const SIGNS = { required: 0, capability: 1, tool: 2, types: 3, nothing: 4 } as const

/** `sign`: the reason to choose the agent. `fit`: from 0 to 1. `why`: for the trace. */
export type Standing =
  | { readonly able: true; readonly sign: keyof typeof SIGNS; readonly fit: number; readonly why: string }
  | { readonly able: false; readonly why: string }

/** Fit of an agent whose tool the task names: the agent has not declared how well it does such work. */
const FIT_OF_TOOL = 0.5

export function standingOf(declared: Declared, work: Work): Standing {
  const capabilities = declared.capabilities.map((each) => (typeof each === 'string' ? { name: each } : each))
  return work.requiredCapabilities.length > 0
    ? byRequired(capabilities, declared.left, work)
    : byText(capabilities, declared, work)
}

function byRequired(capabilities: readonly Capability[], left: number, work: Work): Standing {
  const found = work.requiredCapabilities.map((name) =>
    surest(capabilities.filter((capability) => isSame(capability.name, name))),
  )
  const missing = missingOf(capabilities, work.requiredCapabilities)
  if (missing.length > 0) return unable(`it lacks ${quoted(missing)}`)
  const used = [...new Set(found.filter((capability) => capability !== undefined))]
  const dear = tooDear(used, left)
  if (dear) return dear
  const type = work.inputTypes.find((type) => !used.some((one) => takes(one.inputTypes, type)))
  if (type !== undefined) return unable(`it takes no "${type}"`)
  const gift = work.outputTypes.find((type) => !used.some((one) => takes(one.outputTypes, type)))
  if (gift !== undefined) return unable(`it gives no "${gift}"`)
  const fit = Math.min(...used.map(confidenceOf))
  return { able: true, sign: 'required', fit, why: `it has ${quoted(used.map(({ name }) => name))}, confidence ${fit}` }
}

const missingOf = (declared: readonly (string | Capability)[], required: readonly string[]): string[] =>
  required.filter((name) => !declared.some((one) => isSame(typeof one === 'string' ? one : one.name, name)))

function byText(capabilities: readonly Capability[], { tools, left }: Declared, work: Work): Standing {
  const suits = capabilities.filter((one) => takesAll(one, work))
  if (capabilities.length > 0 && suits.length === 0) return unable('none of its capabilities has the types of the task')
  const named = suits.filter(({ name }) => occursIn(name, work.text))
  const affordable = named.filter((one) => !tooDear([one], left))
  const best = surest(affordable)
  const [cheapest] = named
  if (cheapest && !best) return tooDear([cheapest], left) ?? unable('it has no tokens left')
  if (best) {
    const fit = confidenceOf(best)
    return {
      able: true,
      sign: 'capability',
      fit,
      why: `the task names its capability "${best.name}", confidence ${fit}`,
    }
  }
  const tool = tools.find((name) => occursIn(name, work.text))
  if (tool !== undefined)
    return { able: true, sign: 'tool', fit: FIT_OF_TOOL, why: `the task names its tool "${tool}"` }
  const typed = surest(suits.filter((one) => declaresAny(one, work) && !tooDear([one], left)))
  if (typed) {
    const fit = confidenceOf(typed)
    const why = `its capability "${typed.name}" has the types of the task, confidence ${fit}`
    return { able: true, sign: 'types', fit, why }
  }
  return { able: true, sign: 'nothing', fit: 0, why: 'nothing speaks against it' }
}

const unable = (why: string): Standing => ({ able: false, why })

function tooDear(used: readonly Capability[], left: number): Standing | undefined {
  const tokens = used.reduce((sum, { estimatedTokens = 0 }) => sum + estimatedTokens, 0)
  if (tokens <= left) return undefined
  return unable(`${quoted(used.map(({ name }) => name))} takes about ${tokens} tokens, and it has ${left} left`)
}

const takesAll = ({ inputTypes, outputTypes }: Capability, work: Work): boolean =>
  work.inputTypes.every((type) => takes(inputTypes, type)) && work.outputTypes.every((type) => takes(outputTypes, type))

/** Checks a type against a list. A missing list allows every type. */
const takes = (types: readonly string[] | undefined, type: string): boolean =>
  types === undefined || types.some((one) => isSame(one, type))

const declaresAny = ({ inputTypes, outputTypes }: Capability, work: Work): boolean =>
  (inputTypes !== undefined && work.inputTypes.length > 0) || (outputTypes !== undefined && work.outputTypes.length > 0)

/** Returns the capability with the highest confidence, and the first of several. */
function surest(capabilities: readonly Capability[]): Capability | undefined {
  const highest = Math.max(...capabilities.map(confidenceOf))
  return capabilities.find((capability) => confidenceOf(capability) === highest)
}

const confidenceOf = ({ confidence = 1 }: Capability): number => confidence
const isSame = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase()
const occursIn = (name: string, text: string): boolean => text.toLowerCase().includes(name.toLowerCase())
const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ')

/*
 * Follows the requests that led to a turn: who waits for the turn, who waits for that caller's turn, and so on. Frames
 * do not have to carry the chain: each names its sender's turn, and the host has the messages of all open turns.
 */

/** Maximum number of turns in one chain that run within other turns. */
export const MAX_CHAIN_DEPTH = 8

/** Open turn of a chain: the message that it handles, and its agent. */
interface ChainLink {
  readonly agent: Agent
  readonly envelope: Envelope<RunState>
  /**
   * True if the turn has offered its duty (a handoff). It ends when the offer is accepted, so the agent that goes on
   * with the duty does not find it any more.
   */
  readonly leaves: boolean
}

/**
 * Yields the open turns from `turn` of that agent up to the turn that nobody waits for. After a handoff the chain goes
 * on with the caller that waits for the duty. Yields nothing if the agent has no such turn open. An interrupted turn
 * that is redelivered counts as open.
 */
export function* chainOf(requests: Requests, first: Agent, turn: number): IterableIterator<ChainLink> {
  const seen = new Set<Envelope<RunState>>() // a thread can forge a request from a later turn: the chain must not loop
  let agent = first
  let number = turn
  let leaves = false
  for (;;) {
    const envelope = agent.messageOf(number)
    if (!envelope || seen.has(envelope)) return
    seen.add(envelope)
    yield { agent: agent.first, envelope, leaves }
    const request = requests.of(envelope)
    if (!request) return
    agent = request.caller
    number = request.turn
    leaves = request.offers
  }
}

/**
 * Returns the open turn of `callee` within which a request of `sender`'s turn must run: the nearest in its chain.
 * Returns an error if the chain has its maximum of such turns already, and undefined if it has none of `callee`.
 */
export function turnWithin(
  requests: Requests,
  sender: Agent,
  turn: number,
  callee: Agent,
): Envelope<RunState> | ChainDepthError | undefined {
  let within: Envelope<RunState> | undefined
  let depth = 0
  for (const { agent, envelope, leaves } of chainOf(requests, sender, turn)) {
    if (agent === callee && !leaves) within ??= envelope
    if (envelope.within) depth += 1
  }
  return within && depth >= MAX_CHAIN_DEPTH ? tooDeep(sender.name, callee.name) : within
}

/**
 * Checks whether the request runs within an open turn of its recipient. It then waits until that turn parks, not until
 * it ends.
 */
export const isNested = ({ within }: Envelope<RunState>): boolean => within !== undefined

const tooDeep = (sender: string, agent: string) =>
  new ChainDepthError(
    `A request of "${sender}" came back to agent "${agent}", which waits for it, and ${MAX_CHAIN_DEPTH} turns of that chain run within others already; no more are allowed. Answer with what is known, or give up.`,
    { agent, sender, bound: 'maxChainDepth', depth: MAX_CHAIN_DEPTH, limit: MAX_CHAIN_DEPTH },
  )

/*
 * Enforces trust in the host, so that code in a thread cannot get around it. role.ts defines the
 * trust that each verb needs.
 */

/** Names that errors use for verbs whose call has another name. */
const SHOWN: Readonly<Partial<Record<Verb, string>>> = {
  managers: 'escalate',
  define: 'defineAgent',
  'shared.get': 'shared',
  'shared.update': 'shared',
}

/** Checks whether an agent may use a verb. The protocol script, the caller and the runtime itself may use all. */
function mayUse({ settings }: Agent, verb: Verb): boolean {
  return !settings.isAgent || isTrustedTo(settings.info.trust, verb)
}

/**
 * Returns the error that refuses a message of an untrusted agent, or undefined. Such an agent may only report to its
 * manager or to the protocol script. Delegations are refused by the delegation graph.
 */
export function messageRefusal(
  sender: Agent,
  callee: Agent | undefined,
  memory: Memory,
  at: number,
): MessageRejectedError | undefined {
  const verb = verbOf(memory, at)
  if (verb === 'delegate' || (verb === 'report' && (!callee || isAbove(callee, sender)))) return undefined
  const { words, details } = refusalOf(sender, verb === 'report' ? 'send' : verb)
  return new MessageRejectedError(words, { ...details, ...(callee && { recipient: callee.name }) })
}

/** Returns the error if a caller may not use a verb in the name of that agent, because the agent itself may not. */
export function refusalInItsName(agent: Agent, verb: Verb): MessageRejectedError | undefined {
  if (mayUse(agent, verb)) return undefined
  const { words, details } = refusalOf(agent, verb)
  return new MessageRejectedError(words, details)
}

function verbOf(memory: Memory, at: number): 'broadcast' | 'delegate' | 'request' | 'report' | 'send' {
  if (flagsOf(memory, at) & TO_ALL) return 'broadcast'
  const type = typeOf(memory, at)
  if (type === 'delegate') return 'delegate'
  if (kindOf(memory, at) === REQUEST) return 'request'
  return type === 'report' ? 'report' : 'send'
}

const isAbove = ({ index, name }: Agent, agent: Agent) =>
  index === ORCHESTRATOR_INDEX || name === agent.settings.info.escalateTo

/**
 * Returns the error if an agent may not call this operation of the host. Operations that are not verbs are refused
 * elsewhere.
 */
export function callRefusal(logger: Logger, agent: Agent, operation: string): ConfigurationError | undefined {
  if (!isVerb(operation) || mayUse(agent, operation)) return undefined
  const { words, details } = refusalOf(agent, operation)
  warn(logger, agent, words)
  return new ConfigurationError(words, details)
}

/**
 * Logs a refusal, because the agent may hide it. Of many refusals only some are logged: the first, the second, the
 * fourth, and so on.
 */
function warn(logger: Logger, { name, incarnation }: Agent, words: string): void {
  if (!incarnation) return
  incarnation.refusedVerbs += 1
  if ((incarnation.refusedVerbs & (incarnation.refusedVerbs - 1)) !== 0) return
  logger.warn(
    { agent: name, epoch: incarnation.epoch, error: words, refused: incarnation.refusedVerbs },
    'the agent may not do that',
  )
}

function refusalOf({ name, settings }: Agent, verb: Verb): { words: string; details: Record<string, unknown> } {
  const { trust = 'internal' } = settings.info
  const accepted = trustFor(verb)
  const shown = SHOWN[verb] ?? verb
  const may = trust === 'untrusted' ? 'may answer and report alone' : 'may not make others'
  return {
    words: `context.${shown}: agent "${name}" is ${trust} and ${may}. Let another agent do it, or give its role trust: '${accepted}'.`,
    details: { path: 'trust', agent: name, verb: shown, got: trust, accepted },
  }
}

interface Obstacle {
  why: string
  advice: string
}

/**
 * Returns the reason why one agent may not delegate to another, or undefined. The protocol script and the caller may
 * delegate to every agent that takes tasks.
 */
function obstacleOf(from: Agent, to: Agent): Obstacle | undefined {
  const { delegationAllowed, canDelegateTo } = from.settings.info
  if (to.settings.info.canBeDelegatedTo === false)
    return {
      why: `"${to.name}" takes no tasks of others (canBeDelegatedTo: false)`,
      advice: 'Ask it by a request, or take canBeDelegatedTo out of its role.',
    }
  if (!from.settings.isAgent) return undefined
  if (from === to) return { why: 'nobody delegates to itself', advice: 'Do it in this turn, or name another agent.' }
  if (!mayUse(from, 'delegate'))
    return {
      why: `"${from.name}" may answer and report alone (trust: 'untrusted')`,
      advice: "Let another agent do it, or give its role trust: 'internal'.",
    }
  if (delegationAllowed === false)
    return {
      why: `"${from.name}" may not delegate (delegationAllowed: false)`,
      advice: 'Take delegationAllowed out of its role.',
    }
  if (canDelegateTo && !canDelegateTo.includes(to.name))
    return {
      why: `"${from.name}" may delegate to ${namesOf(canDelegateTo)} alone (canDelegateTo)`,
      advice: `Add "${to.name}" to its canDelegateTo.`,
    }
  return undefined
}

const namesOf = (names: readonly string[]) =>
  names.length === 0 ? 'nobody' : names.map((name) => `"${name}"`).join(', ')

/**
 * Limits the delegations of an agent to these agents. Its own code sees the change in its role after the next start of
 * its thread.
 */
export function grant({ settings }: Agent, canDelegateTo: readonly string[] | undefined): void {
  settings.info = Object.freeze({
    ...settings.info,
    canDelegateTo: Object.freeze([...(canDelegateTo ?? [])]),
  })
}

/**
 * Throws for the first agent to which the maker may not delegate: an agent that it defines may not reach further than
 * its maker.
 */
export function refuseBeyond(maker: Agent, takers: readonly Agent[]): void {
  for (const to of takers) {
    const obstacle = obstacleOf(maker, to)
    if (obstacle) throw refusal(maker, to, obstacle, { path: 'type.canDelegateTo' })
  }
}

/** Returns the reason why one agent may not hand its duty to answer off to another, or undefined. */
function obstacleToHandoff(from: Agent, to: Agent): Obstacle | undefined {
  const { canHandoffTo } = from.settings.info
  if (!canHandoffTo || from === to || !mayUse(from, 'handoff') || to.settings.info.canBeDelegatedTo === false)
    return obstacleOf(from, to)
  if (canHandoffTo.includes(to.name)) return undefined
  return {
    why: `"${from.name}" may hand off to ${namesOf(canHandoffTo)} alone (canHandoffTo)`,
    advice: `Add "${to.name}" to its canHandoffTo.`,
  }
}

/** Checks whether the model of an agent may turn to another with the verbs that it is offered. */
export function mayTurnTo(from: Agent, to: Agent): boolean {
  const { verbs, info } = from.settings
  if (!info.canHandoffTo) return mayDelegate(from, to)
  const isOffered = (name: string) => verbs.includes(name)
  if (isOffered('handoff') && !obstacleToHandoff(from, to)) return true
  return ['request', 'send', 'delegate', 'delegate_to_executor'].some(isOffered) && mayDelegate(from, to)
}

export const mayDelegate = (from: Agent, to: Agent): boolean => obstacleOf(from, to) === undefined

export function delegationGraph(agents: readonly Agent[]): Record<string, string[]> {
  const reached = (from: Agent) => agents.filter((to) => mayDelegate(from, to)).map(({ name }) => name)
  return Object.fromEntries(agents.map((from) => [from.name, reached(from)]))
}

export class Delegations {
  readonly #core: Core
  readonly #requests: Requests
  readonly #bound: DelegationBound
  readonly #maxHandoffs: number

  constructor(core: Core, requests: Requests, bound: DelegationBound, maxHandoffs: number) {
    this.#core = core
    this.#requests = requests
    this.#bound = bound
    this.#maxHandoffs = maxHandoffs
  }

  /** Returns the error if a delegation must be refused. `from`: the agent in whose name the sender gives the task. */
  refusal(from: Agent, sender: Agent, to: Agent, memory: Memory, at: number): DelegationRefusedError | undefined {
    const obstacle = obstacleOf(from, to)
    if (obstacle) return refusal(from, to, obstacle)
    if (kindOf(memory, at) !== REQUEST) return undefined
    const turn = turnOf(memory, at)
    if (isOfTurn(sender, memory, at) && !sender.holderOf(turn)?.mailbox.handed.get(turn))
      return refusal(from, to, { why: 'it comes out of no turn that is open', advice: 'Await it in the handler.' })
    const flaw = this.#flawOfTask(to, offeredIn(memory, at))
    return flaw ? refusal(from, to, flaw) : this.#tooDeep(sender, to, turn)
  }

  /** Returns the error if this turn may not hand its duty off to the other agent. */
  refusalOfHandoff(from: Agent, to: Agent, turn: number, offer: Offered): DelegationRefusedError | undefined {
    const obstacle = obstacleToHandoff(from, to) ?? this.#flawOfTask(to, offer)
    if (obstacle) return refusal(from, to, obstacle, {}, HANDS_OFF)
    const handoffs = this.handoffsUntil(from, turn)
    if (handoffs < this.#maxHandoffs) return this.#countsHandoffs ? this.#tooDeep(from, to, turn) : undefined
    const why = `the run has ${handoffs} handoffs, and maxHandoffs is ${this.#maxHandoffs}`
    const obstacleOfRun = { why, advice: 'Answer, or raise maxHandoffs.' }
    return refusal(from, to, obstacleOfRun, { bound: 'maxHandoffs', limit: this.#maxHandoffs }, HANDS_OFF)
  }

  /** Returns the number of handoffs of the run, with those that led to the turn and are not acknowledged yet. */
  handoffsUntil(from: Agent, turn: number): number {
    let handoffs = from.messageOf(turn)?.run.handoffs ?? 0
    for (const { envelope } of chainOf(this.#requests, from, turn)) {
      const request = this.#requests.of(envelope)
      if (request?.offers && request.turn !== NO_TURN) handoffs += 1
    }
    return handoffs
  }

  /** Checks whether a run with so many handoffs may have another. */
  hasHandoffsLeft(handoffs: number): boolean {
    return handoffs < this.#maxHandoffs
  }

  /** False if handoffs have a limit of their own alone: a strategy has set none on delegations. */
  get #countsHandoffs(): boolean {
    return this.#bound !== DELEGATION_BOUND
  }

  /**
   * Returns the error if a manager may not give the task of the turn of `from` to another agent. The task moves, so the
   * limit that a strategy sets on delegations of agents does not apply.
   */
  refusalOfReassignment(by: Agent, from: Agent, to: Agent, turn: number): DelegationRefusedError | undefined {
    const obstacle = obstacleOf(by, to)
    return obstacle ? refusal(by, to, obstacle) : this.#tooDeep(from, to, turn, DELEGATION_BOUND)
  }

  /** Returns the reason if the agent can never do the task as it is. */
  #flawOfTask(to: Agent, { deadline, requiredCapabilities }: Offered): Obstacle | undefined {
    const now = this.#core.clock.now()
    if (deadline !== null && deadline <= now)
      return {
        why: `the deadline of the task was ${now - deadline} ms ago`,
        advice: 'A deadline is in epoch ms: context.now() and the time that the task may take.',
      }
    const missing = missingOf(to.settings.info.capabilities ?? [], requiredCapabilities)
    if (missing.length === 0) return undefined
    return {
      why: `the task needs ${namesOf(missing)} (requiredCapabilities), which "${to.name}" does not declare`,
      advice: 'Give it to an agent that has this among its capabilities, or leave it out.',
    }
  }

  #tooDeep(
    from: Agent,
    to: Agent,
    turn: number,
    { limit, name, why }: DelegationBound = this.#bound,
  ): DelegationRefusedError | undefined {
    const depth = this.#depth(from, turn) + 1
    if (depth <= limit) return undefined
    return refusal(
      from,
      to,
      {
        why: `it would be ${depth} delegations deep, and ${why}`,
        advice: 'Do the task, refuse it, or let somebody nearer to who asked delegate it.',
      },
      { bound: name, limit, depth },
    )
  }

  /** Returns the number of delegations, and handoffs of delegations if they count, that led to the turn. */
  #depth(agent: Agent, turn: number): number {
    let depth = 0
    for (const { envelope } of chainOf(this.#requests, agent, turn)) {
      if (typeOf(envelope.memory, envelope.at) === 'delegate') depth += 1
      if (this.#countsHandoffs) depth += this.#requests.of(envelope)?.replaced ?? 0
    }
    return depth
  }
}

/**
 * Checks that a message belongs to a turn of its sender. Requests that the host makes in the name of an agent or of the
 * caller do not.
 */
const isOfTurn = (from: Agent, memory: Memory, at: number) => from.index !== USER_INDEX && correlationOf(memory, at) > 0

const HANDS_OFF = 'hand off'

const refusal = (from: Agent, to: Agent, { why, advice }: Obstacle, details: object = {}, does = 'delegate') =>
  new DelegationRefusedError(`"${from.name}" cannot ${does} to "${to.name}": ${why}. ${advice}`, {
    from: from.name,
    to: to.name,
    reason: why,
    ...details,
  })

export function managersOf(directory: AgentDirectory, agent: Agent, run: RunState): string[] {
  const names: string[] = []
  for (let at: Agent | undefined = agent; at; ) {
    const name: string | undefined = at.settings.info.escalateTo
    if (name === undefined || name === agent.name || names.includes(name)) break
    names.push(name)
    at = directory.agent(name, run)
  }
  return names
}
