/**
 * Types of task routing: the options of a script's questions, and the answers. Source: document 000, task routing;
 * document 002, 2.5.1.
 */

/**
 * Way to choose the agent for a task.
 *
 * - 'explicit': the agent that the task names (`assignedTo`).
 * - 'capability_match': an agent that can do it.
 * - 'load_balance': among those, the one with the fewest messages.
 * - 'auction': the agent with the best bid.
 * - 'round_robin': each agent in turn.
 */
export type TaskRouting = 'explicit' | 'capability_match' | 'load_balance' | 'auction' | 'round_robin'

/** All values of `TaskRouting`. */
export const TASK_ROUTINGS: readonly TaskRouting[] = [
  'explicit',
  'capability_match',
  'load_balance',
  'auction',
  'round_robin',
]

/** Options that limit which agents can get a task. */
export interface CandidateOptions<Name extends string = string> {
  /** Agents to choose from, in that order. Default: all agents of the team, in its order. */
  among?: readonly Name[]
  /** Input types of the task, as capabilities declare them. A capability that declares no types accepts any. */
  inputTypes?: readonly string[]
  /** Output types of the task, as capabilities declare them. */
  outputTypes?: readonly string[]
}

/** Options of `route`. */
export interface RouteOptions<Name extends string = string> extends CandidateOptions<Name> {
  /** Routing to use. Default: the team's `taskRouting`. */
  by?: TaskRouting
}

/** An agent that can get a task now. */
export interface Candidate<Name extends string = string> {
  agent: Name
  /** Match of its declarations with the task, from 0 (nothing says that it fits) to 1. */
  fit: number
  /** Number of messages that wait for it or are in progress, over all runs. */
  load: number
}
