/** Content of a board at one moment, in the structure that immer copies and compares fastest. */
import type { Draft } from 'immer'
import type { BlackboardEntry } from './entry.ts'

/**
 * Newest entry of one key, and the key that superseded it. It is a class because immer descends into plain objects.
 * With a class, a patch shares the entry instead of copying it.
 */
export class Standing {
  readonly entry: BlackboardEntry
  /** Revision of the board when the entry was written; it orders the entries. */
  readonly revision: number
  /** Key of the entry that replaced this one. */
  readonly supersededBy: string | null

  constructor(entry: BlackboardEntry, revision: number, supersededBy: string | null = null) {
    this.entry = entry
    this.revision = revision
    this.supersededBy = supersededBy
    Object.freeze(this)
  }
}

/**
 * Current entries, in the order in which the keys first appeared. They form a tree of lists, each with at most 32
 * elements except the first. Immer copies and compares each list that a write touches: for up to a million keys, that
 * is four short lists.
 */
export type Standings = readonly (readonly (readonly (readonly Standing[])[])[])[]

const BITS = 5
const WIDTH = 2 ** BITS

/** Returns the path to a position, from the first list to the last. */
const wayTo = (slot: number) =>
  [slot >> (3 * BITS), (slot >> (2 * BITS)) % WIDTH, (slot >> BITS) % WIDTH, slot % WIDTH] as const

/** Returns the entry at a position, if there are that many keys. */
export function standingAt(standings: Standings, slot: number): Standing | undefined {
  const [first, second, third, last] = wayTo(slot)
  return standings[first]?.[second]?.[third]?.[last]
}

/** Returns all entries, in their order. */
export const allOf = (standings: Standings): Standing[] => standings.flat(3)

/** Counts the keys: all lists are full except the last of each level. */
export function countOf(standings: Standings): number {
  const second = standings.at(-1)
  const third = second?.at(-1)
  const last = third?.at(-1)
  if (!second || !third || !last) return 0
  return (((standings.length - 1) * WIDTH + second.length - 1) * WIDTH + third.length - 1) * WIDTH + last.length
}

/** Replaces the entry at a position, or adds one at the end. */
export function putStanding(draft: Draft<Standings>, slot: number, standing: Standing): void {
  const [first, second, third, last] = wayTo(slot)
  const seconds = draft[first]
  const thirds = seconds?.[second]
  const page = thirds?.[third]
  if (page) page[last] = standing
  else if (thirds) thirds.push([standing])
  else if (seconds) seconds.push([[standing]])
  else draft.push([[[standing]]])
}
