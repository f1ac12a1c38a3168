/** What a board holds at one moment, in the shape that immer copies and compares fastest. */
import type { Draft } from 'immer'
import type { BlackboardEntry } from './entry.ts'

/**
 * The newest entry of one key, and what became of it. It is a class because immer takes plain objects apart: as it is,
 * a patch shares the entry instead of copying it.
 */
export class Standing {
  readonly entry: BlackboardEntry
  /** The board's revision when the entry was written; orders the entries. */
  readonly revision: number
  /** The key whose entry replaced this one. */
  readonly supersededBy: string | null

  constructor(entry: BlackboardEntry, revision: number, supersededBy: string | null = null) {
    this.entry = entry
    this.revision = revision
    this.supersededBy = supersededBy
    Object.freeze(this)
  }
}

/**
 * What stands, in the order in which the keys first appeared. It is a tree of lists, each but the first of at most 32, because immer
 * copies and compares each list that a write touches: of any number of keys up to a million, that is four short ones.
 */
export type Standings = readonly (readonly (readonly (readonly Standing[])[])[])[]

const BITS = 5
const WIDTH = 2 ** BITS

/** Where that place is found, from the first list to the last. */
const wayTo = (slot: number) =>
  [slot >> (3 * BITS), (slot >> (2 * BITS)) % WIDTH, (slot >> BITS) % WIDTH, slot % WIDTH] as const

/** What stands at a place, if that many keys are there. */
export function standingAt(standings: Standings, slot: number): Standing | undefined {
  const [first, second, third, last] = wayTo(slot)
  return standings[first]?.[second]?.[third]?.[last]
}

/** All of them, in their order. */
export const allOf = (standings: Standings): Standing[] => standings.flat(3)

/** How many keys there are: all lists are full, but for the last of each. */
export function countOf(standings: Standings): number {
  const second = standings.at(-1)
  const third = second?.at(-1)
  const last = third?.at(-1)
  if (!second || !third || !last) return 0
  return (((standings.length - 1) * WIDTH + second.length - 1) * WIDTH + third.length - 1) * WIDTH + last.length
}

/** Changes what stands at a place, or adds to the end. */
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
