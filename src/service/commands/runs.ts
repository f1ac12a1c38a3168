/** `dramatis runs --log <folder>`: the runs of a log, with their status. */

import { logFolder } from '../../runtime/replay/find-run.ts'
import { openQuestionsIn } from '../../runtime/replay/open-questions.ts'
import { type RecordedRun, recordedRuns } from '../../runtime/replay/recorded-runs.ts'
import type { RunStatus } from '../../runtime/runs/run-list.ts'
import { isLogHeld } from '../../runtime/store/log-lock.ts'
import { readLog } from '../../runtime/store/log-reader.ts'
import { environmentRedactor } from '../environment-redactor.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import { oneLine } from '../one-line.ts'
import type { Surroundings } from './run.ts'

export interface RunsFlags {
  log: string
  status?: RunStatus
  json?: boolean
}

/** Prints the runs, oldest first, and resolves to the exit code. Rejects if there is no such log. */
export async function runs(
  { log, status, json = false }: RunsFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const path = logFolder(log, folder)
  const isHeld = await isLogHeld(path)
  const recorded = await recordedRuns(
    () => readLog(path),
    ({ own }) => !own,
  )
  const asking = new Set(openQuestionsIn(recorded.runs).map(({ run }) => run))
  const all = recorded.runs.map((run) => runInfo(run, statusOf(run, isHeld, asking.has(run))))
  const wanted = redactor.data(all.filter((run) => status === undefined || run.status === status))
  if (json) await answer.write(jsonText(wanted))
  else if (wanted.length === 0) stderr.write(status ? `No run is ${status}.\n` : 'The log has no run.\n')
  else await answer.write(wanted.map(runLine).join(''))
  return EXIT.done
}

/** A run without an end goes on in the process that has the log, or is interrupted if none has. */
function statusOf(run: RecordedRun, isHeld: boolean, asks: boolean): RunStatus {
  const { status } = run
  if (status !== 'unfinished') return status
  if (!isHeld) return 'interrupted'
  if (asks) return 'waiting'
  return run.entries.some(({ kind }) => kind === 'run.started') ? 'running' : 'queued'
}

function runInfo({ launched: { id, query, startedAt }, finished }: RecordedRun, status: RunStatus) {
  const error = finished?.error
  return { id, status, startedAt, ...(finished && { endedAt: finished.at }), query, ...(error && { error }) }
}

function runLine({ id, status, startedAt, query }: ReturnType<typeof runInfo>): string {
  return `${oneLine(id)}  ${status.padEnd('interrupted'.length)}  ${new Date(startedAt).toISOString()}  ${oneLine(query)}\n`
}
