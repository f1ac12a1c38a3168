/**
 * Repairs a damaged log: gives up the runs that may have lost something, and keeps all others, with what the team has.
 * The repaired log takes the place of the damaged one in one moment; before it nothing is changed.
 */
import { type Scheduler, systemClock } from '../../clock.ts'
import { isOfLife, isOfLog } from '../log/entry-codec.ts'
import { entrySpans } from '../log/entry-layout.ts'
import { SEQ_STEP } from '../log/records.ts'
import { type LogFiles, realFiles } from '../store/log-files.ts'
import { LogRewriter } from '../store/log-rewriter.ts'
import type { OpenedLog } from '../store/log-store.ts'
import { CARRIED_BYTES, Carrier } from './carrier.ts'
import { examineLog, type LogExamination, wholeBlocks } from './examine-log.ts'
import { carriedRecords, oldFacts } from './old-facts.ts'
import { RecordWriter } from './record-writer.ts'

interface Options {
  files?: LogFiles
  clock?: Pick<Scheduler, 'now'>
  /** Gives up the runs that damage has taken something of. */
  dropRuns?: boolean
  /** Gives up the end of the log, if it is missing. */
  acceptLoss?: boolean
}

/**
 * Log as it was found, and the size of what it was replaced by; undefined if it was not damaged, or not all of its
 * damage may be given up: then it is as it was.
 */
export interface Repaired {
  readonly found: LogExamination
  readonly bytes: number | undefined
}

/** @throws LogHeldError, LogVersionError */
export async function repairLog(
  folder: string,
  { files = realFiles, clock = systemClock, dropRuns = false, acceptLoss = false }: Options,
): Promise<Repaired> {
  const rewriter = await LogRewriter.take(folder, files)
  try {
    const found = await examineLog(folder, files)
    const isKept = (found.isDamagedWithin && !dropRuns) || (found.cutOff !== undefined && !acceptLoss)
    if (found.damages.length === 0 || isKept) return { found, bytes: undefined }
    const opened = await rewriter.begin(found.incarnation, found.end, clock.now())
    await rewrite(folder, files, found, rewriter, opened, clock.now())
    return { found, bytes: await rewriter.commit() }
  } finally {
    await rewriter.close()
  }
}

async function rewrite(
  folder: string,
  files: LogFiles,
  { lost, old, touched }: LogExamination,
  rewriter: LogRewriter,
  { incarnation, ended }: Pick<OpenedLog, 'incarnation' | 'ended'>,
  now: number,
): Promise<void> {
  const dropped = new Set(touched.map(({ index }) => index))
  const isKept = (run: number) => old.index.get(run) !== undefined && !dropped.has(run)
  const carried = carriedRecords(old)
  const carrier = new Carrier()
  for await (const { entries } of wholeBlocks(folder, files)) {
    for (const { run, seq, at, from, to } of entrySpans(entries)) {
      const entry = entries.subarray(from, to)
      const ofTeam = carried.has(seq) || isOfLog(entry) || (isOfLife(entry) && old.index.isUnderWayAt(at))
      if (run === 0 ? ofTeam : isKept(run)) carrier.add(run, seq, entry)
    }
    if (carrier.bytes >= CARRIED_BYTES) await rewriter.append(carrier.take())
  }
  if (carrier.bytes > 0) await rewriter.append(carrier.take())
  const records = new RecordWriter((block) => rewriter.append(block), old.next + lost * SEQ_STEP, now)
  records.log({ kind: 'log.opened', incarnation, ...(ended && { ended }) })
  for (const fact of oldFacts(old, now, { isKept, margin: lost })) records.log(fact)
  records.log({ kind: 'log.closed' })
  await records.written()
}
