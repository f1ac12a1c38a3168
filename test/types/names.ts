/** A misspelt agent does not compile, wherever a team's options name one. */
import { createTeam, defineTeam, MultiAgentPattern } from 'dramatis'
import { inFlowMode } from 'dramatis/protocols'
import { testTeam } from 'dramatis/testing'

const module = new URL('./analyst.js', import.meta.url)
const agents = [
  { name: 'ann', module },
  { name: 'bob', module },
] as const

const desk = {
  strategy: 'supervisor' as const,
  supervisor: 'bob' as const,
  experts: ['ann' as const],
  fallback: 'bob' as const,
}

export const teams = () => [
  createTeam({ agents, orchestration: { strategy: 'sequential', agentOrder: ['bob', 'ann', 'bob'] } }),
  createTeam({ agents, orchestration: { strategy: 'parallel', agents: ['ann'], judge: 'bob' } }),
  createTeam({ agents, orchestration: { strategy: 'parallel', aggregationStrategy: 'best', judge: 'bob' } }),
  createTeam({ agents, orchestration: { strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'bob' } }),
  createTeam({
    agents,
    orchestration: {
      strategy: 'parallel',
      aggregationStrategy: 'custom',
      aggregator: (outcomes, orchestrator) => `${outcomes.length} of ${orchestrator.agents.length}`,
    },
  }),
  createTeam({
    agents,
    orchestration: { strategy: 'blackboard', agents: ['ann'], interests: { ann: ['x.*'] }, synthesizer: 'bob' },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'blackboard', interests: { anne: ['x.*'] } },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'blackboard', synthesizer: 'bobby' },
  }),
  createTeam({
    agents,
    orchestration: {
      strategy: 'collaborate',
      teammates: ['ann'],
      decomposer: 'bob',
      prompts: { decompose: '{query}' },
    },
  }),
  createTeam({
    agents,
    orchestration: inFlowMode({ agents, orchestration: desk }, 'graph').orchestration,
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'collaborate', teammates: ['anne'] },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'collaborate', decomposer: 'bobby' },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'supervisor', supervisor: 'bob', experts: ['anne'] },
  }),
  createTeam({
    agents,
    // @ts-expect-error nobody to choose among
    orchestration: { strategy: 'supervisor', supervisor: 'bob' },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'sequential', agentOrder: ['anne'] },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'parallel', agents: ['bobby'] },
  }),
  createTeam({
    agents,
    // @ts-expect-error 'best' needs a judge, or agents beside whom one is left
    orchestration: { strategy: 'parallel', aggregationStrategy: 'best' },
  }),
  createTeam({
    agents,
    // @ts-expect-error 'custom' needs an aggregator
    orchestration: { strategy: 'parallel', aggregationStrategy: 'custom' },
  }),
  createTeam({
    agents,
    // @ts-expect-error no such strategy
    orchestration: { strategy: 'relay' },
  }),
  createTeam({
    agents,
    orchestration: { strategy: 'sequential' },
    syncPoints: [{ name: 'revealed', requiredAgents: ['ann', 'bob'], timeoutMs: 5_000, onTimeout: 'notify' }],
  }),
  createTeam({
    agents,
    orchestration: { strategy: 'sequential' },
    // @ts-expect-error misspelt
    syncPoints: [{ name: 'revealed', requiredAgents: ['anne'], timeoutMs: 5_000 }],
  }),
  createTeam({
    agents,
    orchestration: { strategy: 'sequential' },
    // @ts-expect-error it needs a time limit
    syncPoints: [{ name: 'revealed', requiredAgents: ['ann'] }],
  }),
  new MultiAgentPattern({
    agents: [{ name: 'judge', module }],
    // @ts-expect-error misspelt
    orchestration: { strategy: 'debate', debaters: ['advocat'], judge: 'judge' },
  }),
]

export const file = defineTeam({ agents, orchestration: { strategy: 'sequential', agentOrder: ['ann'] } })

export const wrongFile = defineTeam({
  agents,
  // @ts-expect-error misspelt
  orchestration: { strategy: 'sequential', agentOrder: ['ana'] },
})

export function lookUp(): (string | undefined)[] {
  const team = testTeam({ agents, orchestration: { strategy: 'sequential' } })
  // an editor offers the names; one that was made at run time is fine too
  const made: string = 'spawned'
  return [team.getAgent('ann')?.name, team.getAgent(made)?.name, team.getAgentStatus('bob')]
}

export const wrongModules = () =>
  // @ts-expect-error nobody has that name
  testTeam({ agents, orchestration: { strategy: 'sequential' } }, { modules: { carl: undefined } })
