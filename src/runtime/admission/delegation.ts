/**
 * Decides who may delegate to whom, and how deeply. The host decides, so code in a thread cannot get around it. Source:
 * document 002, roles; supervision rule 21.
 */
import type { Clock } from '../../clock.ts'
import { DelegationRefusedError } from '../../errors.ts'
import { correlationOf, kindOf, REQUEST, turnOf, typeOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Requests } from '../mailboxes/requests.ts'
import { type Offered, offeredIn } from '../mailboxes/task-offer.ts'
import { DELEGATION_BOUND, type DelegationBound } from '../settings/delegation-bound.ts'
import { USER_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import { missingOf } from './capabilities.ts'
import { chainOf } from './chain.ts'
import { mayUse } from './trust.ts'

interface Obstacle {
  why: string
  advice: string
}

/**
 * Returns the reason why one agent may not delegate to another, or undefined. The protocol script and the caller may
 * delegate to every agent that takes tasks.
 */
function obstacleOf(from: Cell, to: Cell): Obstacle | undefined {
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
export function grant({ settings }: Cell, canDelegateTo: readonly string[] | undefined): void {
  settings.info = Object.freeze({
    ...settings.info,
    canDelegateTo: Object.freeze([...(canDelegateTo ?? [])]),
  })
}

/**
 * Throws for the first agent to which the maker may not delegate: an agent that it defines may not reach further than
 * its maker.
 */
export function refuseBeyond(maker: Cell, takers: readonly Cell[]): void {
  for (const to of takers) {
    const obstacle = obstacleOf(maker, to)
    if (obstacle) throw refusal(maker, to, obstacle, { path: 'type.canDelegateTo' })
  }
}

export const mayDelegate = (from: Cell, to: Cell): boolean => obstacleOf(from, to) === undefined

/** Returns the agents to which each agent may delegate, by name. */
export function delegationGraph(agents: readonly Cell[]): Record<string, string[]> {
  const reached = (from: Cell) => agents.filter((to) => mayDelegate(from, to)).map(({ name }) => name)
  return Object.fromEntries(agents.map((from) => [from.name, reached(from)]))
}

interface Needs {
  readonly clock: Clock
  readonly requests: Requests
  /** Limit on the depth of delegations that agents start themselves. */
  readonly bound: DelegationBound
}

export class Delegations {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Returns the error if a delegation must be refused. `from`: the agent in whose name the sender gives the task. */
  refusal(from: Cell, sender: Cell, to: Cell, memory: Memory, at: number): DelegationRefusedError | undefined {
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
  refusalOfHandoff(from: Cell, to: Cell, turn: number, offer: Offered): DelegationRefusedError | undefined {
    const obstacle = obstacleOf(from, to) ?? this.#flawOfTask(to, offer)
    return obstacle ? refusal(from, to, obstacle) : this.#tooDeep(from, to, turn)
  }

  /**
   * Returns the error if a manager may not give the task of the turn of `from` to another agent. The task moves, so the
   * limit that a strategy sets on delegations of agents does not apply.
   */
  refusalOfReassignment(by: Cell, from: Cell, to: Cell, turn: number): DelegationRefusedError | undefined {
    const obstacle = obstacleOf(by, to)
    return obstacle ? refusal(by, to, obstacle) : this.#tooDeep(from, to, turn, DELEGATION_BOUND)
  }

  /** Returns the reason if the agent can never do the task as it is. */
  #flawOfTask(to: Cell, { deadline, requiredCapabilities }: Offered): Obstacle | undefined {
    const now = this.#needs.clock.now()
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
    from: Cell,
    to: Cell,
    turn: number,
    { limit, name, why }: DelegationBound = this.#needs.bound,
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

  /** Returns the number of delegations, and handoffs of delegations, that led to the turn. */
  #depth(cell: Cell, turn: number): number {
    const { requests } = this.#needs
    let depth = 0
    for (const { envelope } of chainOf(requests, cell, turn)) {
      if (typeOf(envelope.memory, envelope.at) === 'delegate') depth += 1
      depth += requests.of(envelope)?.replaced ?? 0
    }
    return depth
  }
}

/**
 * Checks that a message belongs to a turn of its sender. Requests that the host makes in the name of an agent or of the
 * caller do not.
 */
const isOfTurn = (from: Cell, memory: Memory, at: number) => from.index !== USER_INDEX && correlationOf(memory, at) > 0

const refusal = (from: Cell, to: Cell, { why, advice }: Obstacle, details: object = {}) =>
  new DelegationRefusedError(`"${from.name}" cannot delegate to "${to.name}": ${why}. ${advice}`, {
    from: from.name,
    to: to.name,
    reason: why,
    ...details,
  })
