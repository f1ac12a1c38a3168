/** `dramatis log check`, `compact` and `repair`: what looks after the files of a log. */

import { basename, resolve } from 'node:path'
import {
  compactLog,
  type ExaminedDamage,
  examineLog,
  type LogExamination,
  type Repaired,
  repairLog,
} from '../../runtime/durability/log-tools.ts'
import type { LoggedRun } from '../../runtime/durability/run-index.ts'
import { TraceArchive } from '../../runtime/durability/trace-archive.ts'
import { whileMoved } from '../../runtime/log/read-entries.ts'
import { lineLogger } from '../../runtime/logging/logger.ts'
import { keepSettings } from '../../runtime/settings/settings.ts'
import { FileStore } from '../../runtime/store/file-store.ts'
import { realFiles } from '../../runtime/store/log-files.ts'
import { isLogHeld } from '../../runtime/store/log-lock.ts'
import { logFolder } from '../../runtime/views/recorded-runs.ts'
import { EXIT, oneLine } from '../shared/failure.ts'
import { jsonText } from '../shared/json-text.ts'
import { environmentRedactor } from '../shared/load-team-file.ts'
import type { LogFlags, Surroundings } from './run.ts'

/** Prints the report and resolves to the exit code: 1 for damage. Takes no lock. Rejects if there is no such log. */
export async function logCheck(
  { log, json = false }: LogFlags,
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
async function examined(path: string): Promise<LogExamination> {
  const examine = () => whileMoved(() => examineLog(path, realFiles))
  const found = await examine()
  return found.damages.length > 0 && (await isLogHeld(path)) ? examine() : found
}

export interface LogCompactFlags extends LogFlags {
  keepRuns?: number
  keepDays?: number
  keepBytes?: number
  archive?: string
}

/** Prints the sizes and resolves to the exit code. Rejects if there is no such log, if it is damaged, or held. */
export async function logCompact(
  { log, keepRuns, keepDays, keepBytes, archive, json = false }: LogCompactFlags,
  { answer, stderr, folder }: Surroundings,
): Promise<number> {
  const store = new FileStore(logFolder(log, folder), { waitsForRoom: false })
  const keep = keepSettings({ runs: keepRuns, days: keepDays, bytes: keepBytes })
  try {
    const logger = lineLogger((line) => stderr.write(line))
    const redactor = environmentRedactor(folder)
    const compacted = await compactLog(store, {
      keep,
      believesClock: keepDays !== undefined, // somebody says what is too old
      logger,
      ...(archive !== undefined && {
        archive: (name) => new TraceArchive({ folder: resolve(folder, archive), redactor, name }),
      }),
    })
    const { before, after, runsForgotten, runsNotArchived } = compacted
    const sizes = `${count(before, 'byte')} before, ${count(after, 'byte')} after`
    await answer.write(json ? jsonText(compacted) : `${sizes}; ${count(runsForgotten, 'finished run')} given up\n`)
    return runsNotArchived > 0 ? EXIT.failed : EXIT.done
  } finally {
    await store.close()
  }
}

/*
 * `dramatis log repair --log <folder>`: what can be kept of a damaged log; with `--drop-runs` it gives up the rest,
 * with `--accept-loss` the end of the log that is missing.
 */

export interface LogRepairFlags extends LogFlags {
  dropRuns?: boolean
  acceptLoss?: boolean
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

/* The report of `check` and `repair`. It has no queries and no contents of runs. */

function logReport(examined: LogExamination) {
  const { old, segments, blocks, bytes, tail, damages, touched, headless, untold, cutOff } = examined
  const runs = [...old.index.values()].filter(({ own }) => !own)
  return {
    segments,
    blocks,
    bytes,
    runs: runs.length,
    unfinishedRuns: runs.filter(({ endedAt }) => endedAt === 0).length,
    ...(tail && { unfinishedBlock: { segment: basename(tail.path), offset: tail.offset, bytes: tail.bytes } }),
    damage: damages.map(damageInfo),
    ...(cutOff && { missingEnd: cutOff }),
    lostRuns: touched.map(runInfo),
    runsWithoutBegin: headless,
    damageOfUnknownRuns: untold,
  }
}

type LogReport = ReturnType<typeof logReport>

function damageInfo({ segment, offset, bytes, found, runs, ofTeam, isUntold }: ExaminedDamage) {
  const ids = runs.map(({ id }) => id)
  return { segment: basename(segment.path), offset, bytes, found, runs: ids, ofTeam, ofUnknownRuns: isUntold }
}

/** `ofMessage`: the run is the work that a message from outside has caused. */
function runInfo({ id, own, startedAt, endedAt, status }: LoggedRun) {
  return { id, status: endedAt === 0 ? 'unfinished' : status, startedAt, ofMessage: own }
}

const MOST_NAMED = 10

/** Returns the lines that say how large a log is, and what is damaged. */
function logLines(report: LogReport): string {
  const { segments, blocks, bytes, runs, unfinishedRuns, unfinishedBlock, damage, missingEnd } = report
  const counts = [count(segments, 'segment'), count(blocks, 'block'), count(bytes, 'byte'), count(runs, 'run')]
  const lines = [`${counts.join(', ')} (${unfinishedRuns} unfinished)`]
  for (const each of damage) lines.push(damageLine(each))
  if (missingEnd)
    lines.push(
      `The end is missing: the last entry is ${missingEnd.lastSeq}, and entry ${missingEnd.toldSeq} had been on the disk. Runs that stood there alone are in no list, and are done again if they are asked for again.`,
    )
  if (unfinishedBlock) {
    const { segment, offset } = unfinishedBlock
    lines.push(
      `${segment}, byte ${offset}: the last ${count(unfinishedBlock.bytes, 'byte')} are not whole. That is no damage: a process, or the machine, died while it wrote there, and the next process cuts them off.`,
    )
  }
  return lines.map((line) => `${line}\n`).join('')
}

function damageLine(damage: LogReport['damage'][number]): string {
  const { segment, offset, bytes, found, runs, ofTeam, ofUnknownRuns } = damage
  const where = bytes > 0 ? `${segment}, byte ${offset}, ${count(bytes, 'byte')}` : `${segment}, byte ${offset}`
  const named = runs.slice(0, MOST_NAMED).map((id) => oneLine(id))
  if (runs.length > named.length) named.push(`${runs.length - named.length} more`)
  const who = [
    ...(runs.length > 0 ? [`runs ${named.join(', ')}`] : []),
    ...(ofUnknownRuns ? ['any run that stood nowhere else'] : []),
    ...(ofTeam ? ['the team'] : []),
  ]
  return `damaged: ${where}: ${found}.${who.length > 0 ? ` May have lost something: ${who.join('; ')}.` : ''}`
}

/** Returns a line for each run that a repair gives up. */
function lostRunLines({ lostRuns, runsWithoutBegin, damageOfUnknownRuns }: LogReport): string {
  const lines = lostRuns.map(({ id, status, startedAt, ofMessage }) => {
    const what = ofMessage ? 'message from outside' : 'run'
    return `  ${what} ${oneLine(id)}, ${status}, begun ${new Date(startedAt).toISOString()}`
  })
  if (runsWithoutBegin > 0) lines.push(`  ${count(runsWithoutBegin, 'run')} whose begin is lost, and with it the id`)
  const { places, bytes } = damageOfUnknownRuns
  if (places > 0) {
    const where = `${count(places, 'damaged place')} (${count(bytes, 'byte')})`
    lines.push(`  any run that stood in ${where} alone: what is left there does not tell which there were`)
  }
  return lines.map((line) => `${line}\n`).join('')
}

const count = (number: number, of: string): string => `${number.toLocaleString('en')} ${of}${number === 1 ? '' : 's'}`
