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

const PAGE = 64

/**
 * What stands, in the order in which the keys first appeared. It is cut into pages because immer copies and compares
 * each list that a write touches: on a board of 20,000 keys that is then two short lists and not one long one.
 */
export type Standings = readonly (readonly Standing[])[]

/** What stands at a place, if that many keys are there. */
export function standingAt(standings: Standings, slot: number): Standing | undefined {
  return standings[Math.floor(slot / PAGE)]?.[slot % PAGE]
}

/** How many keys there are: all pages but the last are full. */
export function countOf(standings: Standings): number {
  const last = standings.at(-1)
  return last === undefined ? 0 : (standings.length - 1) * PAGE + last.length
}

/** Changes what stands at a place, or adds to the end. */
export function putStanding(draft: Draft<Standings>, slot: number, standing: Standing): void {
  const page = draft[Math.floor(slot / PAGE)]
  if (page) page[slot % PAGE] = standing
  else draft.push([standing])
}
