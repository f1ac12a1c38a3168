/** `dramatis trace <run> --log <folder>`: what happened in a run of a log, as a diagram or as data. */

import { logFolder, recordedRun } from '../../runtime/replay/find-run.ts'
import { sequenceDiagram } from '../../runtime/runs/diagram.ts'
import { traceOf } from '../../runtime/runs/trace.ts'
import { environmentRedactor } from '../environment-redactor.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import type { Surroundings } from './run.ts'

export interface TraceFlags {
  log: string
  json?: boolean
}

/** Prints the trace and resolves to the exit code. Rejects if there is no such log, or no such run in it. */
export async function trace(
  runId: string,
  { log, json = false }: TraceFlags,
  { answer, folder }: Surroundings,
): Promise<number> {
  const redactor = environmentRedactor(folder)
  const run = await recordedRun(logFolder(log, folder), runId)
  const found = redactor.data(traceOf(run.log, run.directory))
  await answer.write(json ? jsonText(found) : sequenceDiagram(found))
  return EXIT.done
}
