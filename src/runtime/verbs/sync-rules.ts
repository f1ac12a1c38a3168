/**
 * Rules of a sync point as pure functions: when a generation ends, and with what result. Source: document 002, 2.6.3.
 */

import type { SyncResult } from '../../actors/definition/context/context.ts'
import type { DramatisError } from '../../errors.ts'
import type { SyncPointSettings } from '../settings/sync-points.ts'
import type { Waiter } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

/** Generation that a turn waits for, as detectors see it. */
export interface OpenGeneration {
  readonly run: RunState
  readonly point: SyncPointSettings
  readonly generation: number
  /** Turns that have arrived. Such a turn may be between two attempts. */
  readonly arrived: Iterable<Waiter>
  /** Turns of the protocol script that wait only for the result. */
  readonly watchers: Iterable<Waiter>
  /** Names of the required agents that have not arrived. */
  readonly missing: readonly string[]
  /**
   * Ends the generation now, as the point's `onTimeout` says. `reason` is the cause of the error that an 'abort'
   * rejects with.
   */
  giveUp(reason: DramatisError): void
}

/** Agents that have arrived, by name, with the data of each; undefined: none. */
export type Arrived = ReadonlyMap<string, { readonly data: unknown }>

/** Returns the required agents that have not arrived, in the order of the options. */
export const missingAt = ({ requiredAgents }: SyncPointSettings, arrived: Arrived): string[] =>
  requiredAgents.filter((name) => !arrived.has(name))

/**
 * Decides whether a generation that a turn waits for ends. 'lost': a missing agent is gone permanently and never
 * arrives. While nobody has arrived, another agent still may, and the gone agents are named then. But if every agent is
 * gone, the generation is lost at once.
 */
export function fateOf(
  point: SyncPointSettings,
  arrived: Arrived,
  isGone: (agent: string) => boolean,
): 'open' | 'complete' | 'lost' {
  const missing = missingAt(point, arrived)
  if (missing.length === 0) return 'complete'
  const lost = arrived.size > 0 ? missing.some(isGone) : missing.every(isGone)
  return lost ? 'lost' : 'open'
}

/**
 * Returns the result for the turns that have met. Its data is in the order of the options, so that it does not depend
 * on which agent was faster.
 */
export function resultOf(point: SyncPointSettings, generation: number, arrived: Arrived): SyncResult {
  const missing = missingAt(point, arrived)
  const brought = point.requiredAgents.flatMap((name) => {
    const data = arrived.get(name)?.data
    return data === undefined ? [] : [[name, data]]
  })
  return {
    generation,
    arrived: point.requiredAgents.filter((name) => arrived.has(name)),
    missing,
    timedOut: missing.length > 0,
    data: point.dataExchange ? Object.fromEntries(brought) : {},
  }
}

/** Checks whether a generation's time limit runs: it starts with the first arrival. */
export const isTimed = (generation: OpenGeneration | undefined): boolean =>
  generation !== undefined && [...generation.arrived].length > 0
