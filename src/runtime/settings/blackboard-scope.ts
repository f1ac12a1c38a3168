/** Whether a team has a blackboard, and whose it is. */
import type { TeamOptions } from './options.ts'

/** One for each run, one for the team, one for a run whose agents use it, or none. */
export type BlackboardScope = 'run' | 'team' | 'on_use' | false

export function blackboardScope(enabled: TeamOptions['enableBlackboard']): BlackboardScope {
  if (enabled === undefined) return 'on_use'
  if (typeof enabled === 'object') return enabled.scope
  return enabled && 'run'
}
