/** Report of `dramatis log check` and `dramatis log repair`. It has no queries and no contents of runs. */
import { basename } from 'node:path'
import type { ExaminedDamage, LogExamination } from '../../runtime/durability/log-tools.ts'
import type { LoggedRun } from '../../runtime/durability/run-index.ts'
import { oneLine } from './failure.ts'

export function logReport(examined: LogExamination) {
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

export type LogReport = ReturnType<typeof logReport>

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
export function logLines(report: LogReport): string {
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

function damageLine({
  segment,
  offset,
  bytes,
  found,
  runs,
  ofTeam,
  ofUnknownRuns,
}: LogReport['damage'][number]): string {
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
export function lostRunLines({ lostRuns, runsWithoutBegin, damageOfUnknownRuns }: LogReport): string {
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

export const count = (number: number, of: string): string =>
  `${number.toLocaleString('en')} ${of}${number === 1 ? '' : 's'}`
