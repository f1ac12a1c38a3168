/** `dramatis log check --log <folder>`: reads all of a log, and says what is damaged. */
import { examineLog, type LogExamination } from '../../runtime/durability/examine-log.ts'
import { whileMoved } from '../../runtime/log/read-entries.ts'
import { logFolder } from '../../runtime/replay/find-run.ts'
import { realFiles } from '../../runtime/store/log-files.ts'
import { isLogHeld } from '../../runtime/store/log-lock.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import { logLines, logReport } from '../log-report.ts'
import type { Surroundings } from './run.ts'

export interface LogCheckFlags {
  log: string
  json?: boolean
}

/** Prints the report and resolves to the exit code: 1 for damage. Takes no lock. Rejects if there is no such log. */
export async function logCheck(
  { log, json = false }: LogCheckFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const report = logReport(await examined(logFolder(log, folder)))
  const isDamaged = report.damage.length > 0
  await answer.write(json ? jsonText(report) : logLines(report))
  if (isDamaged)
    stderr.write(
      `The log is damaged. "dramatis log repair --log ${log}" says which runs can be kept; it changes nothing.\n`,
    )
  return isDamaged ? EXIT.failed : EXIT.done
}

/** Examines a log beside the process that may have it, and may write or compact it meanwhile. */
export async function examined(path: string): Promise<LogExamination> {
  const examine = () => whileMoved(() => examineLog(path, realFiles))
  const found = await examine()
  return found.damages.length > 0 && (await isLogHeld(path)) ? examine() : found
}
