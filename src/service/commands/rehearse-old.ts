/** `dramatis rehearse <team file> --from <run> --log <folder>`: old runs with the code of today. */
import { availableParallelism } from 'node:os'
import { pathToFileURL } from 'node:url'
import { AgentCrashedError, ConfigurationError, DramatisError, errorData } from '../../errors.ts'
import { logFolder, recordedRun } from '../../runtime/replay/find-run.ts'
import { type RecordedStatus, recordedRuns } from '../../runtime/replay/recorded-runs.ts'
import { readLog } from '../../runtime/store/log-reader.ts'
import { environmentRedactor } from '../environment-redactor.ts'
import { EXIT } from '../failure.ts'
import { listenForInterrupt, unlessAborted } from '../interrupt.ts'
import { teamFilePath } from '../load-team-file.ts'
import { countOn } from '../rehearsal/count.ts'
import type { Job } from '../rehearsal/job.ts'
import { isSame, type OldOutcome, oldRunReport, oldRunsReport, oldRunsText } from '../rehearsal/old-run-report.ts'
import { RehearsingThread } from '../rehearsal/rehearsing-thread.ts'
import { quoted } from '../shell-word.ts'
import type { Surroundings } from './run.ts'

export interface RehearseOldFlags {
  /** Ids of runs, or 'all'. */
  from: readonly string[]
  log: string
  /** Only the runs that ended so. */
  status?: RecordedStatus
  seedTimeout?: number
  json?: boolean
}

const PLAY_TIMEOUT_MS = 30_000
/** Beyond it the threads only take each other's memory. */
const MOST_THREADS = 4
/** Runs that a thread reads from the log together. */
const BATCH = 20

/**
 * Plays the runs and resolves to the exit code: that of a failure if any run differs, or could not be played. Rejects
 * if there is no such log or run, or if no run can be played with the team.
 */
export async function rehearseOld(
  file: string,
  { from, log, status, seedTimeout = PLAY_TIMEOUT_MS, json = false }: RehearseOldFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const href = pathToFileURL(teamFilePath(file, folder)).href
  const redactor = environmentRedactor(folder)
  const path = logFolder(log, folder)
  const ids = await wantedRuns(path, from, status)
  const isOne = from.length === 1 && from[0] !== 'all'
  const world = { faults: [], recorded: false, realModels: false, realTools: false }
  const job: Job = { href, file, query: '', log: path, ...world, shown: isOne }
  const count = await countOn(stderr)
  answer.divertTo(count.print)
  const { signal, stop } = listenForInterrupt(count.print)
  const batches = Array.from({ length: Math.ceil(ids.length / BATCH) }, (_, i) => ids.slice(i * BATCH, (i + 1) * BATCH))
  const waiting = batches.reverse()
  const size = Math.min(availableParallelism(), MOST_THREADS, batches.length)
  const threads = Array.from({ length: size }, () => new RehearsingThread(job, undefined, seedTimeout, count.print))
  const played = new Map<string, OldOutcome>()
  try {
    await unlessAborted(Promise.all(threads.map(playing)), signal)
    if (isOne) await threads[0]!.end() // what it printed comes first
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    throw error
  } finally {
    stop()
    count.end()
    waiting.length = 0 // whatever still goes on plays nothing more
    await Promise.all(threads.map((each) => each.end()))
  }
  const outcomes = redactor.data(ids.map((id) => played.get(id)!))
  if (outcomes.length === 0) stderr.write(status ? `No run of the log is ${status}.\n` : 'The log has no run.\n')
  else if (json) await answer.write(oldRunsText(outcomes))
  else await answer.write(isOne ? oldRunReport(outcomes[0]!) : oldRunsReport(outcomes, replay))
  return outcomes.every(isSame) ? EXIT.done : EXIT.failed

  async function playing(thread: RehearsingThread): Promise<void> {
    for (let batch = waiting.pop(); batch; batch = waiting.pop())
      for (const id of batch) {
        signal.throwIfAborted()
        played.set(id, await outcomeOf(thread, id, batch))
        count.show(played.size, ids.length, [...played.values()].filter((each) => !isSame(each)).length)
      }
  }

  /** Plays one run. If it cannot be played, the others are played all the same. */
  async function outcomeOf(thread: RehearsingThread, runId: string, batch: readonly string[]): Promise<OldOutcome> {
    try {
      const outcome = await thread.playOld(runId, batch, isOne)
      return outcome instanceof AgentCrashedError ? { runId, error: errorData(outcome) } : outcome
    } catch (error) {
      if (isOne || !(error instanceof DramatisError)) throw error
      return { runId, error: errorData(error) }
    }
  }

  function replay(runId: string): string {
    return `npx dramatis rehearse ${[file, '--from', runId, '--log', log].map((word) => quoted(word)).join(' ')}`
  }
}

/** Returns the ids of the runs, in the order of their launch. Rejects with `UnknownRunError` for an unknown one. */
async function wantedRuns(
  path: string,
  from: readonly string[],
  status: RehearseOldFlags['status'],
): Promise<readonly string[]> {
  const isAll = from.includes('all')
  if (isAll && from.length > 1)
    throw new ConfigurationError('--from: "all" stands alone; it means every run of the log.', { path: 'from' })
  if (!isAll && status) throw new ConfigurationError('--status selects among --from all.', { path: 'status' })
  const { statuses } = await recordedRuns(
    () => readLog(path),
    () => false,
  )
  if (isAll) return [...statuses].flatMap(([id, each]) => (!status || each === status ? [id] : []))
  for (const id of from) if (!statuses.has(id)) await recordedRun(path, id) // says what is near
  return [...new Set(from)]
}
