/** The parts of a team's supervisor: each is one responsibility, and without it just that is gone. */
import type { Protocol } from '../actors/protocol.ts'
import type { Part } from './core.ts'
import { deadlines } from './parts/deadlines.ts'
import { deadlock } from './parts/deadlock.ts'
import { notices } from './parts/notices.ts'
import { permits } from './parts/permits.ts'
import { restarts } from './parts/restarts.ts'
import { syncPoints } from './parts/sync-points.ts'
import type { Tallies } from './parts/tallies.ts'
import { taskDeadlines } from './parts/task-deadlines.ts'
import { taskDependencies } from './parts/task-dependencies.ts'
import { tasks } from './parts/tasks.ts'
import { usage } from './parts/usage.ts'
import { watchdog } from './parts/watchdog.ts'
import { watchers } from './parts/watchers.ts'
import type { TeamSettings } from './settings.ts'

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
