/**
 * Checks that a role has what the verbs in its `tools` need. Without this check only its model would learn of the
 * error, at each attempt.
 */
import type { AgentRole } from '../../actors/definition/role.ts'
import { refused } from '../checks/refused.ts'
import type { BlackboardScope } from './blackboard-scope.ts'

/** Throws for the first verb in the tools of the role at `path` that it has no right to, or no agent to use it with. */
export function checkVerbs(role: AgentRole, path: string, blackboard: BlackboardScope): void {
  for (const [i, tool] of (role.tools ?? []).entries()) {
    const missing = missingFor(tool, role, blackboard)
    if (missing) throw refused(`${path}.tools[${i}]`, tool, 'a tool that the role can use', missing)
  }
}

function missingFor(tool: unknown, role: AgentRole, blackboard: BlackboardScope): string | undefined {
  switch (tool) {
    case 'delegate':
    case 'handoff':
      if (role.delegationAllowed !== false) return undefined
      return 'It may not delegate (delegationAllowed: false). Take one of the two out.'
    case 'escalate':
      if (role.escalateTo !== undefined) return undefined
      return 'It has nobody to ask: name its manager in escalateTo, or take the tool out.'
    case 'publish':
    case 'read_blackboard':
      if (blackboard !== false) return undefined
      return 'The team has no blackboard (enableBlackboard: false). Take one of the two out.'
    default:
      return undefined
  }
}
