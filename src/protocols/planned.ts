/** The configurations of the strategies that are not available in this version: they compile, and are refused at once. */

/** A manager delegates to workers. Not available in this version. */
export interface HierarchicalConfig<N extends string = string> {
  strategy: 'hierarchical'
  manager: N
  workers: N[]
  maxDelegationDepth?: number
  managerSummarizes?: boolean
  workerAutonomy?: 'low' | 'medium' | 'high'
  progressReporting?: boolean
  prompts?: Partial<Record<string, string>>
}

/** Agents work towards one answer that they all stand behind. Not available in this version. */
export interface ConsensusConfig<N extends string = string> {
  strategy: 'consensus'
  agents?: N[]
  consensusThreshold?: number
  maxRounds?: number
  consensusMethod?: 'vote' | 'discussion' | 'synthesis'
  tieBreaker?: N
  requireUnanimous?: boolean
  prompts?: Partial<Record<string, string>>
}

/** Agents argue different positions before a judge. Not available in this version. */
export interface DebateConfig<N extends string = string> {
  strategy: 'debate'
  debaters: N[]
  judge: N
  positions?: string[]
  maxRounds?: number
  requireEvidence?: boolean
  judgeCriteria?: string[]
  prompts?: Partial<Record<string, string>>
}

/** All of them. */
export type PlannedConfig<N extends string = string> = HierarchicalConfig<N> | ConsensusConfig<N> | DebateConfig<N>

/** Their names. The compiler sees to it that none is invented; the table in the index, that none is there twice. */
export const planned: readonly PlannedConfig['strategy'][] = ['hierarchical', 'consensus', 'debate']
