/** The readers of a team's journal: each is one responsibility, and without it just that is gone. */
import type { Protocol } from '../../actors/definition/protocol.ts'
import { deadlines } from '../detectors/deadlines.ts'
import { deadlock } from '../detectors/deadlock/detector.ts'
import { notices } from '../metrics/notices.ts'
import type { Tallies } from '../metrics/tallies.ts'
import { usage } from '../metrics/usage.ts'
import type { TeamSettings } from '../settings/settings.ts'
import { restarts } from '../supervision/restarts.ts'
import type { Part } from '../supervision/supervisor.ts'
import { watchdog } from '../supervision/watchdog.ts'
import { taskDeadlines } from '../tasks/deadlines.ts'
import { taskDependencies } from '../tasks/dependencies.ts'
import { tasks } from '../tasks/task-board.ts'
import { watchers } from '../verbs/death-watchers.ts'
import { syncPointExits } from '../verbs/sync-point-exits.ts'

/** In the order in which they are told of records. Livelocks, runs and telemetry are attached behind them. */
export const partsOf = (settings: TeamSettings, protocol: Protocol, tallies: Tallies): Part[] => [
  restarts,
  deadlines,
  watchdog,
  tasks,
  taskDeadlines,
  taskDependencies,
  watchers,
  syncPointExits,
  tallies.part,
  usage,
  notices,
  ...(settings.deadlock === false ? [] : [deadlock(settings.deadlock, settings.confirmMs, 'foreign' in protocol)]),
]
