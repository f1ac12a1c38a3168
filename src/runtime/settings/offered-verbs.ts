/** Chooses the verbs that a model gets as tools: those that the role's rights imply, and those that the role names. */
import type { AgentRole } from '../../actors/definition/role.ts'
import { VERB_NAMES, verbTool } from '../../actors/model/verb-tools.ts'
import { missingFor, type VerbTeam } from './verb-checks.ts'

/**
 * Returns the verbs for a role. By default every role may delegate, and every team may have a blackboard. But a model
 * gets only the verbs that somebody has decided on, so that a role without any such setting has no tools.
 */
export function offeredVerbs(role: AgentRole, team: VerbTeam): string[] {
  const { delegationAllowed, canDelegateTo, escalateTo, trust, tools = [] } = role
  if (trust === 'untrusted') return []
  if (role.verbs === 'all') return VERB_NAMES.filter((name) => name !== ALIAS && !missingFor(name, role, team))
  const { blackboard } = team
  const defines = trust === 'privileged' && team.hasRegistry // and may give tasks to the agents it defines
  const isByTool = tools.includes('delegate_to_executor') // it has its own way to give tasks
  const delegates =
    !isByTool && (delegationAllowed ?? (defines || (canDelegateTo !== undefined && canDelegateTo.length > 0)))
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

/** Another name for `ask_user`, which a role has if it is written. */
const ALIAS = 'clarify_with_user'
