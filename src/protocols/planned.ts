/** The configurations of the strategies that are not available in this version: they compile, and are refused at once. */

/**
 * A task is taken apart, each part routed to the teammate that can do it, and the results put together. Not available
 * in this version.
 */
export interface CollaborateConfig<N extends string = string> {
  strategy: 'collaborate'
  teammates?: N[]
  decomposer?: N | false
  order?: 'sequence' | 'dependencies'
  aggregation?: 'vote' | 'join' | 'synthesize'
  synthesizer?: N
  prompts?: Partial<Record<string, string>>
}

/** A supervisor splits the query over experts and combines what they answer. Not available in this version. */
export interface SupervisorConfig<N extends string = string> {
  strategy: 'supervisor'
  supervisor: N
  experts: N[]
  fallback?: N
  timeoutPerAgentMs?: number
  maxReplans?: number
  aggregator?: N
  prompts?: Partial<Record<string, string>>
}

/** All of them. */
export type PlannedConfig<N extends string = string> = CollaborateConfig<N> | SupervisorConfig<N>

/** Their names. The compiler sees to it that none is invented; the table in the index, that none is there twice. */
export const planned: readonly PlannedConfig['strategy'][] = ['collaborate', 'supervisor']
