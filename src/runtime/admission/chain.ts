/**
 * Who waits for a turn, who waits for that one's turn, and so on: the requests that led to it. Frames need not carry it:
 * each names its sender's turn, and the host has the messages of all open turns.
 */
import { ChainDepthError } from '../../errors.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

/** Turns of one chain that run within others, at most. */
export const MAX_CHAIN_DEPTH = 8

/** One open turn of a chain: the message that it handles, and whose it is. */
interface ChainLink {
  readonly cell: Cell
  readonly envelope: Envelope<RunState>
  /** It waits for its duty to be taken: whoever goes on with that does not find it any more. */
  readonly leaves: boolean
}

/**
 * The open turns from `turn` of that agent up to the one that nobody waits for. Where a duty was handed on the chain goes on
 * with who waits for it. Empty where the agent has no such turn open. One that was cut off and comes again is open.
 */
export function* chainOf(requests: Requests, agent: Cell, turn: number): IterableIterator<ChainLink> {
  const seen = new Set<Envelope<RunState>>() // a thread can write that it asks out of a turn that comes later
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
 * The turn of `callee` within which a request is to run that comes out of that turn of `sender`: the nearest in its
 * chain. An error where the chain has as many such turns as it may; undefined where it has none of `callee`.
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

/** Whether the request runs within an open turn of its recipient: then it waits for that turn to park, not for its end. */
export const isNested = ({ within }: Envelope<RunState>): boolean => within !== undefined

const tooDeep = (sender: string, agent: string) =>
  new ChainDepthError(
    `A request of "${sender}" came back to agent "${agent}", which waits for it, and ${MAX_CHAIN_DEPTH} turns of that chain run within others already; no more are allowed. Answer with what is known, or give up.`,
    { agent, sender, bound: 'maxChainDepth', depth: MAX_CHAIN_DEPTH, limit: MAX_CHAIN_DEPTH },
  )
