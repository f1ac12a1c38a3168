/** The detectors of a team. Each has its folder and one row here; its findings are alarms (log/alarms.ts). */
import type { Protocol } from '../../actors/definition/protocol.ts'
import type { DramatisError } from '../../errors.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { Reader } from '../state/reader.ts'
import type { RunState } from '../state/run-state.ts'
import { type DeadlockNeeds, deadlock } from './deadlock/detector.ts'
import { type LivelockNeeds, livelock } from './livelock/detector.ts'

interface Kit {
  readonly settings: TeamSettings
  readonly protocol: Protocol
  /** Ends a run with that error. */
  fail(run: RunState, error: DramatisError): void
}

type Part = (needs: DeadlockNeeds & LivelockNeeds) => Reader

/** Returns the part of a detector; undefined where the team has turned it off. */
type Detector = (kit: Kit) => Part | undefined

const DETECTORS: readonly Detector[] = [
  ({ settings, protocol }) =>
    settings.deadlock === false ? undefined : deadlock(settings.deadlock, settings.confirmMs, 'foreign' in protocol),
  ({ settings, fail }) => (settings.livelock === false ? undefined : livelock(settings.livelock, fail)),
]

/** Returns the detectors that a team has, in the order in which they see records. */
export const detectorsOf = (kit: Kit): Part[] => DETECTORS.flatMap((detector) => detector(kit) ?? [])
