/** A configuration whose type names no agents is taken beside roles whose names are literal, under every strategy. */
import { createTeam, type MultiAgentPatternOptions, type OrchestrationConfig } from 'dramatis'
import type {
  AuctionConfig,
  BlackboardConfig,
  CollaborateConfig,
  ConsensusConfig,
  DebateConfig,
  HierarchicalConfig,
  ParallelConfig,
  SequentialConfig,
  SupervisorConfig,
} from 'dramatis/protocols'

const module = new URL('./analyst.js', import.meta.url)
const agents = [
  { name: 'ann', module },
  { name: 'bob', module },
] as const

const sequential: SequentialConfig = { strategy: 'sequential', agentOrder: ['ann', 'bob'] }
const parallel: ParallelConfig = { strategy: 'parallel', agents: ['ann'], aggregationStrategy: 'best', judge: 'bob' }
const auction: AuctionConfig = { strategy: 'auction', bidders: ['ann'], auctioneer: 'bob' }
const blackboard: BlackboardConfig = { strategy: 'blackboard', agents: ['ann'], interests: { ann: ['x'] } }
const consensus: ConsensusConfig = { strategy: 'consensus', agents: ['ann', 'bob'], tieBreaker: 'bob' }
const debate: DebateConfig = { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'bob' }
const hierarchical: HierarchicalConfig = { strategy: 'hierarchical', manager: 'bob', workers: ['ann'] }
const collaborate: CollaborateConfig = { strategy: 'collaborate', teammates: ['ann'], decomposer: false }
const supervisor: SupervisorConfig = { strategy: 'supervisor', supervisor: 'bob', experts: ['ann'] }
const anyOfThem: OrchestrationConfig = { strategy: 'sequential', agentOrder: ['ann', 'bob'] }
const names: string[] = ['ann']
const ofNames: SequentialConfig = { strategy: 'sequential', agentOrder: names }
const read: readonly string[] | undefined = sequential.agentOrder
const own: OrchestrationConfig = {
  strategy: 'custom',
  run: async ({ agents }, query) => agents.reduce((text, { name }) => text + name, query),
}

export const teams = () => [
  createTeam({ agents, orchestration: sequential }),
  createTeam({ agents, orchestration: parallel }),
  createTeam({ agents, orchestration: auction }),
  createTeam({ agents, orchestration: blackboard }),
  createTeam({ agents, orchestration: consensus }),
  createTeam({ agents, orchestration: debate }),
  createTeam({ agents, orchestration: hierarchical }),
  createTeam({ agents, orchestration: collaborate }),
  createTeam({ agents, orchestration: supervisor }),
  createTeam({ agents, orchestration: anyOfThem }),
  createTeam({ agents, orchestration: ofNames }),
  createTeam({ agents, orchestration: own }),
  createTeam({ agents: [{ name: 'ann', module }], orchestration: sequential }),
]

/** Options whose type names no agents take those of a team whose type does. */
export const anyOptions = (options: MultiAgentPatternOptions<'ann' | 'bob'>): MultiAgentPatternOptions => options

export const lengthOf = () => read?.length

export const misspelt = () => [
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'auction', auctioneer: 'bobby' },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'consensus', tieBreaker: 'bobby' },
  }),
  createTeam({
    agents,
    // @ts-expect-error misspelt
    orchestration: { strategy: 'hierarchical', manager: 'bob', workers: ['anne'] },
  }),
]
