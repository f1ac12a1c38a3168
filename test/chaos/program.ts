/**
 * What a program is whose verdict is known: who does what when it is asked what, and whom the run asks. It is data, for virtual
 * time and for threads alike. What has to come first for the verdict to be certain is waited for on the blackboard.
 */
import type { AgentRole, BlackboardEntry, MultiAgentPatternOptions } from '../../src/index.ts'
import type { Habits, Step } from '../fixtures/chaos/walker.ts'
import type { Code } from './cast.ts'

export type Verdict = 'completes' | 'deadlock' | 'livelock' | 'stall'

export interface Program {
  /** Where it is from. */
  readonly source: string
  readonly verdict: Verdict
  /** Who is in the cycle, in any order, where it is named. */
  readonly cycle?: readonly string[]
  /** What each sign of a livelock says. */
  readonly sign?: RegExp
  /** All that the run asks is answered, whatever had to be broken on the way. */
  readonly answered?: boolean
  /** What must not be, in what was written on the blackboard, in order. */
  readonly wrong?: (entries: readonly BlackboardEntry[]) => string[]
  readonly agents: Readonly<Record<string, Habits>>
  /** Those that no steps describe: whose code, and its data. */
  readonly others?: Readonly<Record<string, { readonly code: Code; readonly data: unknown }>>
  readonly reentrancy?: AgentRole['reentrancy']
  /** Whom the run asks, all at once, and what. */
  readonly asks: readonly (readonly [agent: string, say: string])[]
  readonly options?: Partial<Pick<MultiAgentPatternOptions, 'communication' | 'syncPoints' | 'maxConcurrentAgents'>>
}

export const does = (...steps: Step[]) => ({ steps })
export const insists = (...steps: Step[]) => ({ steps, again: true })
export const ask = (request: string, say: string): Step => ({ request, say })
export const publish = (key: string): Step => ({ publish: key })
export const waitFor = (key: string): Step => ({ waitFor: key })
export const unlessDeadlock = (step: Step): Step => ({ unlessDeadlock: step })
