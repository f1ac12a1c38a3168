/** A run that a process has left in the log when it was killed: what there was of it, before this one goes on. */
import type { Team } from 'dramatis'

export interface FoundRun {
  /** Epoch ms at which this process looked. */
  at: number
  /** Requests that agents were given, and those of them that were answered. */
  requests: number
  answered: number
  /** Agents with a request that they had not answered. */
  open: string[]
  /** Entries on the blackboard. */
  entries: number
}

export async function foundRun(team: Team, runId: string): Promise<FoundRun> {
  const { mailboxes, board } = (await team.replay(runId)).at(Number.POSITIVE_INFINITY)
  const messages = team.getRun(runId)?.messageHistory ?? []
  return {
    at: Date.now(),
    requests: messages.filter(({ type, recipient }) => type === 'request' && isAgent(recipient)).length,
    answered: messages.filter(({ type, sender }) => type === 'response' && isAgent(sender)).length,
    open: mailboxes.map(({ agent }) => agent).filter(isAgent),
    entries: Object.keys(board).length,
  }
}

/** `$user` and `$orchestrator` are none. */
function isAgent(name: unknown): name is string {
  return typeof name === 'string' && !name.startsWith('$')
}

/** What there was, for people. */
export function foundLine({ requests, answered, open, entries }: FoundRun): string {
  const rest = open.length === 0 ? '' : ` (not yet: ${open.join(', ')})`
  const board = entries === 1 ? '1 entry was' : `${entries} entries were`
  return `${answered} of ${requests} requests to agents had an answer${rest}, and ${board} on the blackboard.`
}
