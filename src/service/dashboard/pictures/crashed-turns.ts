/** Turns that a crash has cut off: they have no end of their own, so the digest has no row for them. */
import { MESSAGE_TYPES } from '../../../mailbox/message-type.ts'
import { COPY, type DigestFact, TO_SEVERAL } from '../../../runtime/digest/digest-line.ts'
import type { DigestFold } from '../../digest/digest-fold.ts'

export interface CrashedTurn {
  readonly agent: string
  /** Time at which it began, as far as it can be told: its message had come, and the turn before had ended. */
  readonly from: number
  /** Time of the crash. */
  readonly to: number
}

/** Time between the end of a thread and the crash that is told of it. */
const EXIT_MS = 1_000
/** Messages before a crash that are looked at. */
const MOST_ROWS = 2_000
const TYPE_BITS = 7

export function crashedTurns(fold: DigestFold): CrashedTurn[] {
  return fold.facts.flatMap((fact) => {
    if (fact.type !== 'agent.crashed' || typeof fact.agent !== 'string' || !hadMessage(fact, fold)) return []
    const arrived = oldestOpen(fold, fact.agent, fact.at)
    if (arrived === undefined) return []
    const before = fold.agents.get(fact.agent)?.ends
    const ended = before ? before.at(before.countUpTo(fact.at) - 1) : Number.NaN
    return [{ agent: fact.agent, from: Math.min(fact.at, Math.max(arrived, ended || 0)), to: fact.at }]
  })
}

function hadMessage({ agent, at, seq }: DigestFact, { facts }: DigestFold): boolean {
  const exit = facts.findLast(
    (fact) => fact.type === 'agent.exited' && fact.agent === agent && fact.seq <= seq && at - fact.at < EXIT_MS,
  )
  return typeof exit?.messageId === 'string'
}

/** Returns when the oldest message came that the agent had not handled at a time; undefined if there was none. */
function oldestOpen({ messages, names }: DigestFold, agent: string, time: number): number | undefined {
  const { at, to, type, start } = messages.columns
  let oldest: number | undefined
  const last = at.countUpTo(time) - 1
  for (let row = last; row >= 0 && row > last - MOST_ROWS; row--) {
    if (names[to.at(row)] !== agent || MESSAGE_TYPES[type.at(row) & TYPE_BITS] === 'response') continue
    if (type.at(row) & TO_SEVERAL && !(type.at(row) & COPY)) continue
    if (!(start.at(row) < time)) oldest = at.at(row)
  }
  return oldest
}
