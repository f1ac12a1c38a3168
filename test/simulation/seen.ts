/** What one play, or many, has come to. */

/**
 * 'orderly': nobody ever waits for who waits for him; 'talkative' is that too, with all verbs. 'entangled': they do, and are
 * freed.
 */
export type Mode = 'orderly' | 'talkative' | 'entangled'

export interface Outcome {
  /** What did not hold; empty when all did. */
  problems: string[]
  /** Everything that the runs say of themselves, to compare one play with another. */
  story: string
  seen: Seen
}

/** How often it came to what a play is for. */
export class Seen {
  crashes = 0
  messages = 0
  /** An agent at several turns. */
  interleaved = 0
  /** Two instances of an agent at work. */
  beside = 0
  /** A turn that began within another one. */
  nested = 0
  tasks = 0
  handoffs = 0
  meetings = 0
  deadlocks = 0
  /** Answers that were read in pieces. */
  streams = 0
  /** What a blackboard was told. */
  entries = 0
  /** What was told to all, by each that heard it. */
  heard = 0
  guidance = 0
  /** Threads that were ended because their agent had nothing to do. */
  passivations = 0

  hear(): void {
    this.heard += 1
  }

  add(other: Seen): void {
    for (const key of Object.keys(other) as (keyof Omit<Seen, 'add' | 'hear'>)[]) this[key] += other[key]
  }
}
