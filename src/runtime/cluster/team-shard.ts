/** A team that holds one shard: its tasks are runs, under the ids of the tasks. */

import { systemClock } from '../../shared/clock.ts'
import { DramatisError, OutcomeUnknownError, PastLostError } from '../../shared/errors.ts'
import type { RunOptions } from '../runs/run.ts'
import type { TeamRuntime } from '../team/team.ts'
import type { ShardLog, TakenTask, TaskOutcome } from './cluster-store.ts'
import type { Shard } from './process.ts'

/** Options of a run that go with it to the owner of its shard. */
export type SentOptions = Pick<
  RunOptions<unknown>,
  'threadId' | 'priority' | 'timeoutMs' | 'metadata' | 'models' | 'budget' | 'messages' | 'stream'
>

/** Body of a task, as JSON: processes of several versions read it. */
export interface SentRun {
  readonly query: Parameters<TeamRuntime['launch']>[0]
  readonly options: SentOptions
}

type ShardTeam = Pick<TeamRuntime, 'start' | 'resumePending' | 'getRun' | 'isForgotten' | 'launch' | 'close'>

const FULL_PAUSE_MS = 200

export class TeamShard implements Shard {
  readonly #team: ShardTeam
  readonly #log: ShardLog

  constructor(team: ShardTeam, log: ShardLog) {
    this.#team = team
    this.#log = log
  }

  async start(): Promise<void> {
    await this.#team.start()
    if (this.#log.lost === undefined) await this.#team.resumePending()
  }

  async settle(task: TakenTask): Promise<TaskOutcome | undefined> {
    const known = this.#team.getRun(task.id)
    if (task.doubtful && (!known || known.status === 'interrupted')) return failed(pastLost(task.id))
    if (!known && this.#team.isForgotten(task.id)) return failed(forgotten(task.id))
    const run = known ?? (await this.#launch(task))
    if (run === undefined) return undefined
    if (run instanceof DramatisError) return failed(run)
    const result = await run.result
    if (run.status === 'interrupted') return undefined
    return { status: result.success ? 'finished' : 'failed', body: Buffer.from(JSON.stringify(result)) }
  }

  close(stepsMs?: number): Promise<void> {
    return this.#team.close(stepsMs === undefined ? {} : { stepsMs })
  }

  /** The task is durable, so it waits where the team has no room for it. */
  async #launch({ id, body }: TakenTask): Promise<ReturnType<ShardTeam['launch']> | DramatisError | undefined> {
    const { query, options } = JSON.parse(Buffer.from(body).toString()) as SentRun
    for (;;) {
      try {
        return this.#team.launch(query, { ...options, runId: id })
      } catch (error) {
        if (!(error instanceof DramatisError)) throw error
        if (error.code === 'TEAM_CLOSED') return undefined // it is the next owner's
        if (error.code !== 'TEAM_OVERLOADED') return error
        await systemClock.sleep(FULL_PAUSE_MS)
      }
    }
  }
}

function failed(error: DramatisError): TaskOutcome {
  return {
    status: 'failed',
    body: Buffer.from(JSON.stringify({ success: false, finalOutput: null, data: null, error })),
  }
}

function pastLost(runId: string): PastLostError {
  const text = `run ${runId}: the database has lost its last moments, and the run with them. It may have been done in part: submit it under another id to do it again.`
  return new PastLostError(text, { runId })
}

function forgotten(runId: string): OutcomeUnknownError {
  const text = `run ${runId} has ended, and the log has given it up before its outcome could be kept: nobody knows it any more.`
  return new OutcomeUnknownError(text, { runId })
}
