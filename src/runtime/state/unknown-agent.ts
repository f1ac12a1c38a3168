/** The error for a name that no agent has. */
import { shown, UnknownAgentError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'

/** `agents`: the names that there are. */
export function unknownAgent(name: string, agents: readonly string[]): UnknownAgentError {
  const near = typeof name === 'string' ? nearest(name, agents) : undefined // callers in JavaScript name what they like
  return new UnknownAgentError(
    `No agent of this team is named ${shown(name)}${near ? `; did you mean "${near}"?` : `; there are ${agents.join(', ')}.`}`,
    { agent: name, agents },
  )
}
