/** What tests of passivation look at. */
import type { AgentStatus, MultiAgentPattern } from '../../src/index.ts'

/** Statuses of an agent, as its events say them. */
export function statusesOf(team: MultiAgentPattern<string>, agent: string): AgentStatus[] {
  const seen: AgentStatus[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === agent) seen.push(event.status)
  })
  return seen
}
