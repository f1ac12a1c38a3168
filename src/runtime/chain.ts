/** Who waits for a turn, who waits for that one's turn, and so on: the requests that led to it. */
import type { Envelope } from '../mailbox/mailbox.ts'
import type { Cell } from './cell.ts'
import type { Core } from './core.ts'
import type { RunState } from './run-state.ts'

/** One open turn of a chain: the message that it handles, and whose it is. */
interface ChainLink {
  readonly cell: Cell
  readonly envelope: Envelope<RunState>
}

/**
 * The open turns from `turn` of that agent up to the one that nobody waits for. Where a duty was handed on the chain goes on
 * with who waits for it. Empty where the agent has no such turn open.
 */
export function* chainOf(core: Pick<Core, 'settlement'>, agent: Cell, turn: number): IterableIterator<ChainLink> {
  const seen = new Set<Envelope<RunState>>() // a thread can write that it asks out of a turn that comes later
  let cell = agent
  let number = turn
  for (;;) {
    const envelope = cell.holderOf(number)?.mailbox.handed.get(number)
    if (!envelope || seen.has(envelope)) return
    seen.add(envelope)
    yield { cell: cell.first, envelope }
    const request = core.settlement.requestOf(envelope)
    if (!request) return
    cell = request.caller
    number = request.turn
  }
}
