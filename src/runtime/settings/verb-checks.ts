/**
 * Checks that a role has what the verbs in its `tools` need. Without this check only its model would learn of the
 * error, at each attempt.
 */
import type { AgentRole } from '../../actors/definition/role.ts'
import { refused } from '../checks/refused.ts'
import type { BlackboardScope } from './blackboard-scope.ts'
import type { SyncPoint } from './options.ts'

/** The part of a team that decides which verbs a role can use. */
export interface VerbTeam {
  readonly blackboard: BlackboardScope
  readonly syncPoints: readonly SyncPoint[]
  readonly hasRegistry: boolean
}

/** Throws for the first verb in the tools of the role at `path` that it has no right to, or nothing to use it with. */
export function checkVerbs(role: AgentRole, path: string, team: VerbTeam): void {
  for (const [i, tool] of (role.tools ?? []).entries()) {
    const missing = missingFor(tool, role, team)
    if (missing) throw refused(`${path}.tools[${i}]`, tool, 'a tool that the role can use', missing)
  }
}

/** Returns what a role lacks to use that verb, with advice; undefined if it lacks nothing. */
export function missingFor(verb: unknown, role: AgentRole, team: VerbTeam): string | undefined {
  switch (verb) {
    case 'delegate':
    case 'delegate_to_executor':
    case 'handoff':
      if (role.delegationAllowed !== false) return undefined
      return 'It may not delegate (delegationAllowed: false). Take one of the two out.'
    case 'escalate':
      if (role.escalateTo !== undefined) return undefined
      return 'It has nobody to ask: name its manager in escalateTo, or take the tool out.'
    case 'publish':
    case 'read_blackboard':
    case 'blackboard_history':
    case 'subscribe':
      if (team.blackboard === false)
        return 'The team has no blackboard (enableBlackboard: false). Take one of the two out.'
      if (verb !== 'subscribe' || (role.instances ?? 1) === 1) return undefined
      return 'It has several instances, which keep no conversation that new entries could come into. Take one of the two out.'
    case 'sync':
      if (team.syncPoints.some(({ requiredAgents }) => requiredAgents.includes(role.name))) return undefined
      return 'No sync point requires it: name it in requiredAgents of one (syncPoints), or take the tool out.'
    case 'spawn':
    case 'define_agent':
      if (role.trust !== 'privileged')
        return "Only an agent with trust: 'privileged' makes others. Take it out, or trust it more."
      if (verb === 'spawn' || team.hasRegistry) return undefined
      return 'The team has no registry, into which the type would be written: read it with loadTeam, or take the tool out.'
    default:
      return undefined
  }
}
