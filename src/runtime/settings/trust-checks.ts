/**
 * Checks that a role asks for nothing that its trust does not allow: it would be accepted now, and refused at each use.
 */
import type { AgentRole } from '../../actors/definition/role.ts'
import { refused } from '../checks/refused.ts'

/** Throws for what the role at `path` asks for and its trust does not allow. */
export function checkTrust(role: AgentRole, path: string): void {
  if (role.trust !== 'untrusted') return
  const advice = 'An agent that is untrusted may answer and report alone. Take it out, or trust it more.'
  const { canDelegateTo = [], delegationAllowed = false, tools = [], verbs } = role
  if (canDelegateTo.length > 0) throw refused(`${path}.canDelegateTo`, canDelegateTo, 'an empty list', advice)
  if (delegationAllowed) throw refused(`${path}.delegationAllowed`, delegationAllowed, 'false', advice)
  if (tools.length > 0) throw refused(`${path}.tools`, tools, 'an empty list', advice)
  if (verbs !== undefined) throw refused(`${path}.verbs`, verbs, 'nothing', advice)
}

/** Throws if the agent at `path` must meet others, and its trust does not allow that. */
export function checkMeets(role: AgentRole | undefined, path: string): void {
  if (role?.trust !== 'untrusted') return
  const advice = 'An agent that is untrusted may answer and report alone, so it would never arrive.'
  throw refused(path, role.name, "an agent that is not trust: 'untrusted'", advice)
}
