/** The readers of a team's journal. Each has one responsibility; without a reader only that responsibility is lost. */
import { operatorLog } from '../metrics/operator-log.ts'
import type { Tallies } from '../metrics/tallies.ts'
import { usage } from '../metrics/usage.ts'
import { restarts } from '../supervision/restarts.ts'
import type { Part } from '../supervision/supervisor.ts'
import { timeouts } from '../supervision/timeouts.ts'
import { watchdog } from '../supervision/watchdog.ts'
import { taskDependencies } from '../tasks/dependencies.ts'
import { tasks } from '../tasks/task-board.ts'
import { taskDeadlines } from '../tasks/task-deadlines.ts'
import { watchers } from '../verbs/death-watchers.ts'
import { syncPointExits } from '../verbs/sync-point-exits.ts'

/** Returns the readers in the order in which they get records. Detectors, telemetry and runs come after them. */
export const partsOf = (tallies: Tallies): Part[] => [
  restarts,
  timeouts,
  watchdog,
  tasks,
  taskDeadlines,
  taskDependencies,
  watchers,
  syncPointExits,
  tallies.part,
  usage,
  operatorLog,
]
