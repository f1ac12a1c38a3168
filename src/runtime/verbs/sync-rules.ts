/** The rules of a sync point as pure functions: when a generation ends, and what comes of it. Source: document 002, 2.6.3. */

import type { SyncResult } from '../../actors/definition/context/context.ts'
import type { DramatisError } from '../../errors.ts'
import type { SyncPointSettings } from '../settings/sync-points.ts'
import type { Waiter } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

/** A generation that somebody waits for, as detectors see it. */
export interface OpenGeneration {
  readonly run: RunState
  readonly point: SyncPointSettings
  readonly generation: number
  /** Turns that have arrived. Such a turn may be between two attempts. */
  readonly arrived: Iterable<Waiter>
  /** Turns of the protocol script that wait for its result alone. */
  readonly watchers: Iterable<Waiter>
  /** Required agents that have not arrived, by name. */
  readonly missing: readonly string[]
  /** Ends it now as the point's `onTimeout` says; `reason` is the cause of what an 'abort' rejects with. */
  giveUp(reason: DramatisError): void
}

/** Who has arrived, by name, and what each brought; undefined: nothing. */
export type Arrived = ReadonlyMap<string, { readonly data: unknown }>

/** Who is required and has not arrived, in the order of the options. */
export const missingAt = ({ requiredAgents }: SyncPointSettings, arrived: Arrived): string[] =>
  requiredAgents.filter((name) => !arrived.has(name))

/**
 * What becomes of a generation that somebody waits for. 'lost': who is missing and gone for good will never come. As long
 * as nobody has arrived somebody still may, and who is gone is named then; unless nobody is left who could.
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

/** What those get who have met. In the order of the options, so that it does not depend on who was faster. */
export function resultOf(point: SyncPointSettings, generation: number, arrived: Arrived): SyncResult {
  const missing = missingAt(point, arrived)
  const data: Record<string, unknown> = {}
  if (point.dataExchange)
    for (const name of point.requiredAgents) {
      const brought = arrived.get(name)?.data
      if (brought !== undefined) data[name] = brought
    }
  return {
    generation,
    arrived: point.requiredAgents.filter((name) => arrived.has(name)),
    missing,
    timedOut: missing.length > 0,
    data,
  }
}

/** Its time runs from the first arrival on. */
export const isTimed = (generation: OpenGeneration | undefined): boolean =>
  generation !== undefined && [...generation.arrived].length > 0
