/** The error for a name that no agent has. */
import { UnknownAgentError } from '../errors.ts'
import { nearest } from './nearest.ts'

/** `agents`: the names that there are. */
export function unknownAgent(name: string, agents: readonly string[]): UnknownAgentError {
  const near = nearest(name, agents)
  return new UnknownAgentError(
    `No agent of this team is named "${name}"${near ? `; did you mean "${near}"?` : `; there are ${agents.join(', ')}.`}`,
    { agent: name, agents },
  )
}
