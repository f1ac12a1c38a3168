/**
 * Checks that a role asks for nothing that its trust does not allow: it would be accepted now, and refused at each use.
 */
import type { AgentRole } from '../../actors/definition/role.ts'
import { refused } from '../checks/refused.ts'

/** Throws for what the role at `path` asks for and its trust does not allow. */
export function checkTrust(role: AgentRole, path: string): void {
  if (role.trust !== 'privileged') checkMakesNobody(role, path)
  if (role.trust !== 'untrusted') return
  const advice = 'An agent that is untrusted may answer and report alone. Take it out, or trust it more.'
  const { canDelegateTo = [], delegationAllowed = false, tools = [] } = role
  if (canDelegateTo.length > 0) throw refused(`${path}.canDelegateTo`, canDelegateTo, 'an empty list', advice)
  if (delegationAllowed) throw refused(`${path}.delegationAllowed`, delegationAllowed, 'false', advice)
  if (tools.length > 0) throw refused(`${path}.tools`, tools, 'an empty list', advice)
}

const MAKES_AGENTS: ReadonlySet<unknown> = new Set(['spawn', 'define_agent'])

function checkMakesNobody({ tools = [] }: AgentRole, path: string): void {
  const at = tools.findIndex((tool) => MAKES_AGENTS.has(tool))
  const advice = "Only an agent with trust: 'privileged' makes others. Take it out, or trust it more."
  if (at >= 0) throw refused(`${path}.tools[${at}]`, tools[at], 'another tool', advice)
}

/** Throws if the agent at `path` must meet others, and its trust does not allow that. */
export function checkMeets(role: AgentRole | undefined, path: string): void {
  if (role?.trust !== 'untrusted') return
  const advice = 'An agent that is untrusted may answer and report alone, so it would never arrive.'
  throw refused(path, role.name, "an agent that is not trust: 'untrusted'", advice)
}
