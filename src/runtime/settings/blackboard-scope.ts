/** Scope of the blackboards of a team, if it has any. */
import type { TeamOptions } from './options.ts'

/** 'run': one for each run. 'team': one for the team. 'on_use': one for each run whose agents use it. false: none. */
export type BlackboardScope = 'run' | 'team' | 'on_use' | false

export function blackboardScope(enabled: TeamOptions['enableBlackboard']): BlackboardScope {
  if (enabled === undefined) return 'on_use'
  if (typeof enabled === 'object') return enabled.scope
  return enabled && 'run'
}
