/** A wait as it is told outside: by `team.waits()`, and in the digest. */

/**
 * Something that waits in a team, or that a turn does by itself: one entry for each turn and kind.
 *
 * `kind` is one of:
 *
 * - `request`, `delegate`: for the answer of the agents in `for`
 * - `dependency`: a task that has not begun waits for tasks of the agents in `for`
 * - `mailbox`: for room in the mailbox of an agent
 * - `reader`: for the agent that reads its stream
 * - `place`: a turn that has the answer of a person waits for another turn of its own agent, which has its place
 * - `sync`: for agents that have not come to a sync point
 * - `blackboard`: for an entry that somebody has to write; `for` has its key
 * - the name of another verb that the runtime serves: `model`, `tool` and `ask` (a person) among them; `for` has the
 *   name of the model or tool, if there is one
 * - `step`: its code is in the steps of that name; a tool that runs in the thread of its agent is a `tool`
 * - `sleep`: for the end of `context.sleep`
 * - `own`: for nothing that the runtime knows: its code computes, or awaits a promise of its own. It is told after a
 *   second, or after `slowMs` if that is less. `since`: when the turn last did something that is known
 * - `limit`: for a limit on how much runs at once, or the rate limit of a provider; `for` has the option that sets it
 */
export interface Wait {
  runId: string
  /** Agent that waits, or whose turn is to begin; null for a run that waits for its start. */
  agent: string | null
  /** Id of the message whose turn waits, as `messageId` of events; null if no turn has begun, or it is not known. */
  turn: string | null
  for: string[]
  kind: string
  /** Epoch ms. */
  since: number
  /** Epoch ms at which the turn began, if it has begun. */
  turnSince?: number
  /** Time in ms after which it is slow (`supervision.slowMs`); left out for what never is. */
  slowAfterMs?: number
  /** For `kind: 'limit'`: the value of the limit; null where only a provider knows it. */
  limit?: number | null
  /** For `kind: 'limit'`: what those do that have the places, in words. */
  cause?: string
  /** Epoch ms at which a provider takes calls again. */
  until?: number
}
