/** Verbs that a strategy gives a model for one question. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'

/** Returns metadata that gives a model these verbs as tools for its turn. Code has all verbs, so it gets none. */
export function withVerbs(
  team: OrchestratorContext['agents'],
  agent: string,
  ...verbs: readonly string[]
): { verbs: readonly string[] } | undefined {
  if (verbs.length === 0) return undefined
  return team.find(({ name }) => name === agent)?.playedByModel ? { verbs } : undefined
}
