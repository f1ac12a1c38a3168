/**
 * Means that the teams of one process have in common, if they are shards of a cluster: threads and their spares, the
 * pool of tools, the queues of the providers, the number of runs at a time. A team alone has its own.
 */
import { systemClock } from '../../shared/clock.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import { guardedLogger } from '../logging/logger.ts'
import { RunRoom } from '../runs/run-entries.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { Supervisor } from '../supervision/host.ts'
import { ThreadPlaces } from '../supervision/pending-incarnation.ts'
import { SharedThreads } from '../threads/shared-threads.ts'
import { WorkerSpawner, workersFor } from '../threads/spawner.ts'
import { ToolPools } from '../verbs/isolated-tools.ts'
import type { KeyedCarrier, KeyedRequests } from './keyed-requests.ts'
import { KeyedWaits } from './keyed-waits.ts'

interface Means {
  readonly spawner: WorkerSpawner
  readonly places: ThreadPlaces
  /** Threads of agents that share one, over all shards. */
  readonly seats: SharedThreads
  readonly pools: ToolPools
  readonly room: RunRoom
}

export class Commons {
  /** Brings requests with a key to where that is, in a cluster. */
  carrier: KeyedCarrier | undefined
  readonly keyed = new KeyedWaits(systemClock)
  /** Requests with a key of each team: those that its turns wait for, and those that it has to do. */
  readonly requests = new WeakMap<object, KeyedRequests>()
  #first: TeamSettings | undefined
  #means: Means | undefined
  /** Number of processes among which the limits of providers, and of runs at a time, are divided. */
  #processes = 1

  /** Returns the settings of a team with what all have in common: the first has made it. */
  settings(own: TeamSettings): TeamSettings {
    this.#first ??= own
    const { models, redactor, secrets } = this.#first
    return { ...own, models, redactor, secrets, inCluster: true }
  }

  means({ clock, logger, maxConcurrentRuns, redactor, threads }: TeamSettings): Means {
    if (this.#means) return this.#means
    const log = guardedLogger(logger, redactor)
    const spawner = new WorkerSpawner(threads.warmSpares, clock, log, workersFor(clock))
    this.#means = {
      spawner,
      seats: new SharedThreads(spawner, log),
      places: new ThreadPlaces(threads.max, clock),
      pools: new ToolPools(threads.tools),
      room: new RunRoom(maxConcurrentRuns),
    }
    return this.#means
  }

  /** Shows a team what of its runs waits for a provider: the queues are not its own. */
  showWaits({ limits, runs }: Supervisor): void {
    const first = this.#first?.limits
    if (!first || first === limits) return
    const isShown = ({ runId, trouble }: LimitWait) =>
      trouble?.kind === 'switched' || (runId !== undefined && runs.find(runId) !== undefined)
    limits.watch(() => [...first.waits()].filter(isShown))
  }

  divide(processes: number): void {
    if (processes === this.#processes) return
    this.#processes = processes
    this.#means?.room.divide(processes)
    this.#first?.models.divide(processes)
  }

  async close(): Promise<void> {
    await Promise.all([this.#means?.spawner.close(), this.#means?.pools.close()])
  }
}
