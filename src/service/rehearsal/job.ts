/** What a rehearsing thread is asked to do, and what it tells. */
import type { ErrorData } from '../../errors.ts'
import type { Asked, Fault, Kind, Recorded, SeedOutcome } from '../../rehearsal.ts'

export interface Job {
  /** The team file: where it is, and as the user wrote it. */
  href: string
  file: string
  query: string
  faults: Fault[]
  /** Whether `fetch` is answered from a recording. */
  recorded: boolean
}

/** What came of one seed, as data. */
export interface Played extends Omit<SeedOutcome, 'error'> {
  error: ErrorData | null
  /** What was logged and printed. */
  log: string[]
}

/** What a thread offers. `refused`: the team cannot work at all. */
export interface Plays {
  play(seed: number, traced: boolean): Promise<{ played: Played } | { refused: ErrorData }>
}

/** What it is offered. */
export interface Answers {
  answer(asked: Asked): Promise<Recorded>
}

/** A run that is not done. */
export interface Failure extends Played {
  kind: Exclude<Kind, 'done'>
  error: ErrorData
}

export const isFailure = (played: Played): played is Failure => played.kind !== 'done' && played.error !== null
