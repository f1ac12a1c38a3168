/** Which verbs a model is offered as tools: those that its role's rights speak of, and those that the role names. */
import type { AgentRole } from '../../actors/definition/role.ts'
import { verbTool } from '../../actors/model/verb-tools.ts'
import type { BlackboardScope } from './blackboard-scope.ts'

/**
 * By default every role may delegate and every team may have a blackboard; a model is offered what somebody has decided on,
 * so that a role about which nothing is said has no tools.
 */
export function offeredVerbs(role: AgentRole, blackboard: BlackboardScope, hasRegistry: boolean): string[] {
  const { delegationAllowed, canDelegateTo, escalateTo, trust, tools = [] } = role
  if (trust === 'untrusted') return []
  const defines = trust === 'privileged' && hasRegistry // and may give tasks to those
  const delegates = delegationAllowed ?? (defines || (canDelegateTo !== undefined && canDelegateTo.length > 0))
  const byRight = [
    ...(delegates ? ['request', 'delegate', 'handoff'] : []),
    ...(escalateTo === undefined ? [] : ['escalate']),
    ...(blackboard === 'run' || blackboard === 'team' ? ['publish', 'read_blackboard'] : []),
    ...(trust === 'privileged' ? ['spawn'] : []),
    ...(defines ? ['define_agent'] : []),
  ]
  const named = tools.filter((name) => typeof name === 'string' && verbTool(name) !== undefined) as string[]
  const verbs = new Set([...byRight, ...(byRight.length > 0 ? ['refuse'] : []), ...named])
  return [...verbs]
}
