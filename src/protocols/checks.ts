/** Checks of the options that name agents. The others are the runtime's own. */
import { nearest } from '../runtime/nearest.ts'
import { refused } from '../runtime/refused.ts'
import type { Check } from '../runtime/settings-checks.ts'

/** The name of an agent of the team. */
export function agentOf(team: readonly string[]): Check {
  return (name, path) => {
    if (typeof name === 'string' && team.includes(name)) return
    const meant = typeof name === 'string' ? nearest(name, team) : undefined
    const advice = meant === undefined ? 'Define that agent, or remove the name.' : `Did you mean "${meant}"?`
    throw refused(path, name, `an agent of this team (${team.join(', ')})`, advice)
  }
}

/** A list of at least one agent of the team. Without `repeats` each may be there once. */
export function agentsOf(team: readonly string[], repeats?: 'repeats'): Check {
  const agent = agentOf(team)
  return (list, path) => {
    const accepted = `a list of at least one agent of this team (${team.join(', ')})`
    if (!Array.isArray(list) || list.length === 0) throw refused(path, list, accepted)
    for (const [at, name] of list.entries()) {
      agent(name, `${path}[${at}]`)
      const again = repeats === undefined && list.indexOf(name) < at
      if (again) throw refused(`${path}[${at}]`, name, 'each agent once', 'It is in the list already; remove it here.')
    }
  }
}
