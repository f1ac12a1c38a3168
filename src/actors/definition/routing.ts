/** Whom a task is for: what a script asks, and what it is told. Source: document 000, task routing; document 002, 2.5.1. */

/**
 * How a task finds its agent. 'explicit': the task says it (`assignedTo`). 'capability_match': who can do it. 'load_balance':
 * of those the one with the least to do. 'auction': who bids best. 'round_robin': each in turn.
 */
export type TaskRouting = 'explicit' | 'capability_match' | 'load_balance' | 'auction' | 'round_robin'

/** All of them. */
export const TASK_ROUTINGS: readonly TaskRouting[] = [
  'explicit',
  'capability_match',
  'load_balance',
  'auction',
  'round_robin',
]

/** Who can get a task, and what it is made of. */
export interface CandidateOptions<Name extends string = string> {
  /** Whom to choose from, in that order; all agents of the team, in its order. */
  among?: readonly Name[]
  /** What goes in, as capabilities declare it. A capability that declares no types takes any. */
  inputTypes?: readonly string[]
  /** What comes out. */
  outputTypes?: readonly string[]
}

/** How `route` chooses. */
export interface RouteOptions<Name extends string = string> extends CandidateOptions<Name> {
  /** The team's `taskRouting`. */
  by?: TaskRouting
}

/** An agent that can get a task now. */
export interface Candidate<Name extends string = string> {
  agent: Name
  /** How well what it declares fits the task, from 0 (nothing says that it does) to 1. */
  fit: number
  /** Messages that wait for it or are under way, of all runs. */
  load: number
}
