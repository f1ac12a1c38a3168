/** Finds a run in the folder of a durable log, for those who only look into it. They take no lock. */
import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { ConfigurationError, describe, UnknownRunError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import { readLog } from '../store/log-reader.ts'
import { TOLD } from '../store/told.ts'
import { type RecordedRun, recordedRuns } from './recorded-runs.ts'

const MOST_NAMED = 5

/**
 * Returns the path of a log. `given`: as the user wrote it, in that option.
 *
 * @throws ConfigurationError if no log is there.
 */
export function logFolder(given: string, folder: string, option = '--log'): string {
  const path = resolve(folder, given)
  const what = `${option}: "${given}"`
  try {
    if (readdirSync(path).some((name) => name.endsWith('.log') || name === TOLD)) return path
  } catch (error) {
    throw new ConfigurationError(`${what} cannot be read: ${describe(error)}`, { path: 'log', folder: path }, error)
  }
  const text = `${what} is no log. It takes the folder that the team has as stateManagement.path.`
  throw new ConfigurationError(text, { path: 'log', folder: path })
}

/**
 * Reads one run of a log. `withFacts`: also what the team brought to it.
 *
 * @throws UnknownRunError, with the ids that are near.
 */
export async function recordedRun(path: string, runId: string, withFacts = false): Promise<RecordedRun> {
  const { runs, ids } = await recordedRuns(
    () => readLog(path),
    ({ id }) => id === runId,
    { facts: withFacts, parts: true },
  )
  const run = runs.at(-1)
  if (run) return run
  throw new UnknownRunError(unknownRun(runId, path, ids), { runId, path })
}

function unknownRun(runId: string, path: string, ids: readonly string[]): string {
  const near = nearest(runId, ids)
  const begun = ids.filter((id) => id.startsWith(runId) || runId.startsWith(id))
  const named = [...new Set([...(near === undefined ? [] : [near]), ...begun])].slice(0, MOST_NAMED)
  const quoted = (all: readonly string[]) => all.map((id) => `"${id}"`).join(', ')
  const what = `The log in ${path} has no run "${runId}".`
  if (ids.length === 0) return `${what} It has no run at all.`
  if (named.length > 0) return `${what} Did you mean ${quoted(named)}?`
  return `${what} Its last runs are ${quoted(ids.slice(-MOST_NAMED))}.`
}
