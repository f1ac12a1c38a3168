/**
 * `dramatis log repair --log <folder>`: what can be kept of a damaged log; with `--drop-runs` it gives up the rest,
 * with `--accept-loss` the end of the log that is missing.
 */
import { type Repaired, repairLog } from '../../runtime/durability/repair-log.ts'
import { logFolder } from '../../runtime/replay/find-run.ts'
import { EXIT } from '../failure.ts'
import { jsonText } from '../json-text.ts'
import { count, type LogReport, logLines, logReport, lostRunLines } from '../log-report.ts'
import { examined } from './log-check.ts'
import type { Surroundings } from './run.ts'

export interface LogRepairFlags {
  log: string
  dropRuns?: boolean
  acceptLoss?: boolean
  json?: boolean
}

/**
 * Prints what is, or would be, given up, and resolves to the exit code. Rejects if there is no such log; with
 * a flag that changes it also if a process has it.
 */
export async function logRepair(
  { log, dropRuns = false, acceptLoss = false, json = false }: LogRepairFlags,
  { answer, folder }: Surroundings,
): Promise<number> {
  const path = logFolder(log, folder)
  const isAsked = dropRuns || acceptLoss
  const { found, bytes }: Repaired = isAsked
    ? await repairLog(path, { dropRuns, acceptLoss })
    : { found: await examined(path), bytes: undefined }
  const report = logReport(found)
  const needed = [...(found.isDamagedWithin ? ['--drop-runs'] : []), ...(found.cutOff ? ['--accept-loss'] : [])]
  if (json) await answer.write(jsonText({ ...report, repaired: bytes !== undefined }))
  else await answer.write(logLines(report) + verdict(report, bytes, needed.join(' ')))
  return isAsked && bytes === undefined && needed.length > 0 ? EXIT.failed : EXIT.done
}

/** `bytes`: size of the repaired log; undefined if nothing was changed. `flags`: those that repair it. */
function verdict(report: LogReport, bytes: number | undefined, flags: string): string {
  const { damage, damageOfUnknownRuns, lostRuns, runs, runsWithoutBegin } = report
  if (damage.length === 0) return 'The log is not damaged. Nothing was changed.\n'
  const lost = lostRuns.length + runsWithoutBegin
  const kept = runs - lostRuns.filter(({ ofMessage }) => !ofMessage).length
  const isDone = bytes !== undefined
  const isUntold = damageOfUnknownRuns.places > 0
  const dropped = lost > 0 ? count(lost, 'run') : isUntold ? 'No run that is known' : 'No run'
  const what = `${isDone ? (lost > 1 ? 'were' : 'was') : 'would be'} given up`
  const lines = [`${dropped} ${what}${lost > 0 || isUntold ? ':' : '.'}`]
  const team = damage.some(({ ofTeam }) => ofTeam)
    ? ' What the team wrote at the damaged places is lost: states and shared values may be older ones.'
    : ''
  const end = isDone
    ? `Kept: ${count(kept, 'run')}, and what the team has; the log has ${count(bytes, 'byte')} now.${team}`
    : `Kept would be: ${count(kept, 'run')}, and what the team has.${team} Nothing was changed: ${flags} does it. Make a copy of the folder first, if you may want to look into it later.`
  return `${lines.join('\n')}\n${lostRunLines(report)}${end}\n`
}
