/** Settings of the threads of a team: those of agents, and those of tools that have one of their own. */
import { availableParallelism } from 'node:os'
import type { ThreadsConfig } from './options.ts'

export interface ThreadSettings {
  /** Number of threads that agents may have at the same time. */
  readonly max: number
  /** Time after which an idle agent loses its thread; false: never. */
  readonly idleMs: number | false
  /** Number of threads kept ready for a restart. */
  readonly warmSpares: number
  /** Threads of tools, for each set of limits that tools have, and calls that may wait for one. */
  readonly tools: { readonly threads: number; readonly queue: number }
}

export const threadSettings = ({ max, idleMs, warmSpares, tools, toolQueue }: ThreadsConfig = {}): ThreadSettings => ({
  max: max ?? Number.POSITIVE_INFINITY,
  idleMs: idleMs ?? false,
  warmSpares: warmSpares ?? 1,
  tools: { threads: tools ?? Math.max(2, availableParallelism()), queue: toolQueue ?? 256 },
})
