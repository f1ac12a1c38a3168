/**
 * Follows the requests that led to a turn: who waits for the turn, who waits for that caller's turn, and so on. Frames
 * do not have to carry the chain: each names its sender's turn, and the host has the messages of all open turns.
 */
import { ChainDepthError } from '../../errors.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

/** Maximum number of turns in one chain that run within other turns. */
export const MAX_CHAIN_DEPTH = 8

/** Open turn of a chain: the message that it handles, and its agent. */
interface ChainLink {
  readonly cell: Cell
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
export function* chainOf(requests: Requests, agent: Cell, turn: number): IterableIterator<ChainLink> {
  const seen = new Set<Envelope<RunState>>() // a thread can forge a request from a later turn: the chain must not loop
  let cell = agent
  let number = turn
  let leaves = false
  for (;;) {
    const envelope = cell.messageOf(number)
    if (!envelope || seen.has(envelope)) return
    seen.add(envelope)
    yield { cell: cell.first, envelope, leaves }
    const request = requests.of(envelope)
    if (!request) return
    cell = request.caller
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
  sender: Cell,
  turn: number,
  callee: Cell,
): Envelope<RunState> | ChainDepthError | undefined {
  let within: Envelope<RunState> | undefined
  let depth = 0
  for (const { cell, envelope, leaves } of chainOf(requests, sender, turn)) {
    if (cell === callee && !leaves) within ??= envelope
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
