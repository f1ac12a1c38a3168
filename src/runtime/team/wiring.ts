/** The parts of a team's supervisor: each is one responsibility, and without it just that is gone. */
import type { Protocol } from '../../actors/definition/protocol.ts'
import { deadlines } from '../detectors/deadlines.ts'
import { deadlock } from '../detectors/deadlock/detector.ts'
import { permits } from '../dispatch/permits.ts'
import { notices } from '../metrics/notices.ts'
import type { Tallies } from '../metrics/tallies.ts'
import { usage } from '../metrics/usage.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { Part } from '../state/core.ts'
import { restarts } from '../supervision/restarts.ts'
import { watchdog } from '../supervision/watchdog.ts'
import { taskDeadlines } from '../tasks/deadlines.ts'
import { taskDependencies } from '../tasks/dependencies.ts'
import { tasks } from '../tasks/task-board.ts'
import { watchers } from '../verbs/death-watchers.ts'
import { syncPoints } from '../verbs/sync-point-exits.ts'

/** In the order in which they are told of records. Livelocks, runs and telemetry are attached behind them. */
export const partsOf = (settings: TeamSettings, protocol: Protocol, tallies: Tallies): Part[] => [
  restarts,
  permits(settings.maxConcurrentAgents),
  deadlines,
  watchdog,
  tasks,
  taskDeadlines,
  taskDependencies,
  watchers,
  syncPoints,
  tallies.part,
  usage,
  notices,
  ...(settings.deadlock === false ? [] : [deadlock(settings.deadlock, settings.confirmMs, 'foreign' in protocol)]),
]
