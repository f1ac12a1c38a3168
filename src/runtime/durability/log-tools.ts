/** Compacts a log that no process has. */
import type { Logger } from '../../actors/definition/tool.ts'
import { NOBODY, recipientOf, senderOf } from '../../mailbox/frame.ts'
import { type Scheduler, systemClock } from '../../shared/clock.ts'
import { entrySpans, isOfIncarnation, isOfLog, runsIn } from '../log/entry-codec.ts'
import { SEQ_STEP } from '../log/records.ts'
import { framesIn } from '../log/run-log.ts'
import type { KeepSettings } from '../settings/settings.ts'
import { statedBlock } from '../store/block-format.ts'
import { type Damage, type Gap, inspectSegments } from '../store/inspect-segments.ts'
import {
  type LogFiles,
  type LogStore,
  type OpenedLog,
  type Position,
  realFiles,
  type StoredBlock,
} from '../store/log-files.ts'
import { LogRewriter } from '../store/log-reader.ts'
import { storedBlock } from '../store/segments.ts'
import { CARRIED_BYTES, Carrier } from './checkpoint.ts'
import { type Compacted, Compactor } from './compactor.ts'
import { carriedRecords, LONGEST_WINDOW_MS, oldFacts, RecoveredLog } from './recovered-log.ts'
import type { RecoveredRun } from './recovered-run.ts'
import type { LoggedRun } from './run-index.ts'
import { RecordWriter } from './team-facts.ts'
import { PastRunReader, type TraceArchive } from './trace-archive.ts'

interface CompactLogOptions {
  keep: KeepSettings
  /** True if the clock is right, however far the log is behind it. */
  believesClock?: boolean
  /** Makes the archive of what is forgotten; `name` finds the names of the agents. */
  archive?: (name: (index: number) => string) => TraceArchive
  logger: Logger
  clock?: Scheduler
}

/**
 * Takes the log, and writes what it needs to its end: all of the team, runs that are not finished, and of finished ones
 * what `keep` says. The rest is given up. The store is left open.
 *
 * @throws LogHeldError, LogCorruptError, LogVersionError, LogLostError
 */
export async function compactLog(
  store: LogStore,
  { keep, believesClock = false, archive: archiveFor, logger, clock = systemClock }: CompactLogOptions,
): Promise<Compacted> {
  const { incarnation, ended } = await store.open()
  const before = store.bytes
  const old = await RecoveredLog.from(() => store.read(), LONGEST_WINDOW_MS)
  if (believesClock) old.index.time.believe(clock.now())
  const archive = archiveFor?.((index) => old.names.get(index)?.name ?? `#${index}`)
  await archive?.open()
  const past = new PastRunReader(store, old)
  const openedAt = clock.now() // no time passes for the team meanwhile
  const records = new RecordWriter(
    async (block) => {
      const { byteLength } = block.entries
      compactor.wrote(await store.append(block), byteLength, byteLength)
    },
    old.next,
    openedAt,
  )
  const compactor = new Compactor({
    clock,
    logger,
    store,
    keep: { keysMs: Number.POSITIVE_INFINITY, ...keep }, // only the team knows its own
    old,
    past,
    facts: () => oldFacts(old, clock.now()),
    log: (fact) => records.log(fact),
    left: () => Array.from(old.left.values(), ({ seq }) => seq),
    referrers: () => old.referrers,
    leaves: async (run) => archive?.write(await past.read(run), run),
    atRest: async (act) => {
      await records.written()
      act(records.next)
    },
    unlearn: () => {}, // no run goes on here
    lastSeq: () => records.next - 1,
    now: () => openedAt,
    written: () => records.written(),
  })
  records.log({ kind: 'log.opened', incarnation, ...(ended && { ended }) })
  await records.written() // a part of its own: all before it can be given up
  const compacted = await compactor.compact(true)
  records.log({ kind: 'log.closed' })
  await records.written()
  await store.sync()
  return { ...compacted, before }
}

/** Damage, and the runs that may have lost something there. */
export interface ExaminedDamage extends Damage {
  readonly runs: readonly LoggedRun[]
  /** True if it may have taken something of the team itself: states, shared values, names. */
  readonly ofTeam: boolean
  /** True if it may have taken runs that stood nowhere else: the place does not tell which had entries there. */
  readonly isUntold: boolean
}

/** Runs that a damaged place may have taken something of. */
interface Judged {
  readonly damage: Damage
  readonly runs: Iterable<number>
  readonly ofTeam: boolean
  readonly isUntold: boolean
}

export interface LogExamination {
  /** The log as far as it can be read. */
  readonly old: RecoveredLog
  readonly segments: number
  readonly blocks: number
  readonly bytes: number
  /** Position behind all segments, and the highest incarnation that wrote. */
  readonly end: Position
  readonly incarnation: number
  /** Unfinished block at the end, which is no damage. */
  readonly tail: { readonly path: string; readonly offset: number; readonly bytes: number } | undefined
  readonly damages: readonly ExaminedDamage[]
  /** Runs that may have lost something. */
  readonly touched: readonly LoggedRun[]
  /** Number of runs whose begin is lost: of them nothing can be read. */
  readonly headless: number
  /**
   * Damaged places that do not tell which runs had entries there, and their bytes: a run that stood nowhere else is
   * lost too, and in no list.
   */
  readonly untold: { readonly places: number; readonly bytes: number }
  /** Number of entries that may be lost. */
  readonly lost: number
  /** Set if the log lacks its end: the number of its last entry, and of the last one that had been on the disk. */
  readonly cutOff: { readonly lastSeq: number; readonly toldSeq: number } | undefined
  /** True if there is damage elsewhere. */
  readonly isDamagedWithin: boolean
}

/** Entries of a run that whole blocks have. */
interface Span {
  first: number
  last: number
  /** True if the first entry stands where it was first written: then none of the run was ever carried. */
  isOriginal: boolean
}

const ENTRY_BYTES = 32

/** @throws LogVersionError */
export async function examineLog(folder: string, files: LogFiles, signal?: AbortSignal): Promise<LogExamination> {
  const shape = new Shape()
  for await (const part of inspectSegments(folder, files, signal)) {
    if (part.kind === 'block') shape.block(part.block, part.position)
    else if (part.kind === 'segment') shape.segment(part.segment.start, part.bytes)
    else if (part.kind === 'tail') shape.tail = { path: part.segment.path, offset: part.offset, bytes: part.bytes }
    else if (part.kind === 'damage') shape.damages.push(part.damage)
    else shape.gaps.push(part.gap)
  }
  const broken = new Set<number>()
  const old = await RecoveredLog.from(() => wholeBlocks(folder, files, signal), LONGEST_WINDOW_MS, {
    lost: ({ run }) => broken.add(run),
  })
  return shape.judged(old, broken)
}

/** Yields the blocks that are whole, and leaves out those of a process that had lost the log. */
async function* wholeBlocks(folder: string, files: LogFiles, signal?: AbortSignal): AsyncGenerator<StoredBlock> {
  for await (const part of inspectSegments(folder, files, signal)) if (part.kind === 'block') yield storedBlock(part)
}

/** Gathers the parts of a log, and judges them. */
class Shape {
  readonly damages: Damage[] = []
  readonly gaps: Gap[] = []
  readonly spans = new Map<number, Span>()
  tail: LogExamination['tail']
  #segments = 0
  #blocks = 0
  #bytes = 0
  #end = 0
  #incarnation = 0

  segment(start: Position, bytes: number): void {
    this.#segments += 1
    this.#bytes += bytes
    this.#end = Math.max(this.#end, start + Math.max(1, bytes))
  }

  block({ carried, entries, incarnation }: Omit<StoredBlock, 'position'>, position: Position): void {
    this.#blocks += 1
    this.#incarnation = Math.max(this.#incarnation, incarnation)
    this.#end = Math.max(this.#end, position + 1)
    for (const { run, seq } of entrySpans(entries)) {
      const span = this.spans.get(run)
      if (!span) this.spans.set(run, { first: seq, last: seq, isOriginal: !carried })
      else if (seq < span.first || (seq === span.first && !carried))
        Object.assign(span, { first: seq, isOriginal: !carried })
      else span.last = Math.max(span.last, seq)
    }
  }

  judged(old: RecoveredLog, broken: ReadonlySet<number>): LogExamination {
    const { damages, gaps, tail } = this
    const touched = new Set(broken)
    const judged = new Map(gaps.flatMap((gap) => this.#judge(gap, old)).map((each) => [each.damage, each]))
    for (const { runs } of judged.values()) for (const run of runs) touched.add(run)
    if (gaps.length > 0) for (const run of old.runs.values()) if (!hasNames(run, old)) touched.add(run.index)
    for (const run of old.index.values())
      if (old.index.chainOf(run).some(({ index }) => touched.has(index))) touched.add(run.index)
    const untold = damages.filter((damage) => judged.get(damage)?.isUntold)
    const known = (runs: Iterable<number>) => [...runs].flatMap((run) => old.index.get(run) ?? [])
    const ofEnd = gaps.at(-1)?.told ? gaps.at(-1) : undefined
    return {
      old,
      cutOff: ofEnd?.told && { lastSeq: ofEnd.from - 1, toldSeq: ofEnd.told.seq },
      isDamagedWithin: damages.some((damage) => !ofEnd?.damages.includes(damage)),
      segments: this.#segments,
      blocks: this.#blocks,
      bytes: this.#bytes,
      end: Math.max(this.#end, (ofEnd?.told?.end ?? 0) + 1),
      incarnation: this.#incarnation,
      tail,
      damages: damages.map((damage) => {
        const { runs = [], ofTeam = false, isUntold = false } = judged.get(damage) ?? {}
        return { ...damage, runs: known(runs), ofTeam, isUntold }
      }),
      touched: known(touched),
      headless: this.#headless(old, touched),
      untold: { places: untold.length, bytes: untold.reduce((sum, { bytes }) => sum + bytes, 0) },
      lost: lostIn(gaps),
    }
  }

  /** Returns the runs that may have had entries in a gap, for each place where these may have been. */
  #judge(gap: Gap, old: RecoveredLog): Judged[] {
    const stated = statedRuns(gap)
    if (stated)
      return gap.damages.map((damage, i) => {
        const runs = stated[i]!
        return { damage, runs, ofTeam: runs.has(0), isUntold: false }
      })
    const isUntold = gap.from <= gap.to || gap.carried !== 0
    const runs = [...this.spans].flatMap(([run, span]) => (mayHaveLost(span, gap, old.runs.has(run)) ? [run] : []))
    return gap.damages.map((damage) => ({ damage, runs, ofTeam: true, isUntold }))
  }

  /** `touched`: also runs that only damaged blocks name. */
  #headless({ gone, index }: RecoveredLog, touched: ReadonlySet<number>): number {
    if (this.gaps.length === 0) return 0
    const seen = new Set([...this.spans.keys(), ...touched])
    return [...seen].filter((run) => run !== 0 && !index.get(run) && !gone.has(run)).length
  }
}

/**
 * A run may have lost entries if it was under way at the gap. Carried entries have numbers of before: where carried
 * blocks are missing, any run may have lost some that was ever carried.
 */
function mayHaveLost({ first, last, isOriginal }: Span, { from, to, carried }: Gap, isOpen: boolean): boolean {
  return (carried !== 0 && !isOriginal) || (from <= to && first < from && (last > to || isOpen))
}

/**
 * Returns the runs of each damaged block of a gap; undefined if that cannot be relied on. The blocks have to be where
 * they say, to fill the gap, and to name the runs of their entries.
 */
function statedRuns({ from, to, damages }: Gap): Set<number>[] | undefined {
  let next = from
  const all: Set<number>[] = []
  for (const { kind, content, bytes } of damages) {
    const block = kind === 'bytes' ? statedBlock(content, 0) : undefined
    if (!block || block.bytes !== bytes || (!block.carried && block.firstSeq !== next)) return undefined
    const runs = runsIn(block.entries, block.firstSeq, block.lastSeq, block.carried)
    if (!runs || runs.size !== block.runs.length || !block.runs.every((run) => runs.has(run))) return undefined
    if (!block.carried) next = block.lastSeq + 1
    all.push(runs)
  }
  return next === to + 1 ? all : undefined
}

/** Checks that the log has a name for each agent that has to do with an open run. */
function hasNames({ entries }: RecoveredRun, { names }: RecoveredLog): boolean {
  for (const [memory, at] of framesIn(entries))
    for (const index of [senderOf(memory, at), recipientOf(memory, at)])
      if (index !== NOBODY && !names.has(index)) return false
  return true
}

function lostIn(gaps: readonly Gap[]): number {
  return gaps.reduce((sum, { from, to, damages }) => {
    const bytes = damages.reduce((all, damage) => all + damage.bytes, 0)
    const entries = Number.isFinite(to) ? Math.max(0, to + 1 - from) / SEQ_STEP : bytes / ENTRY_BYTES
    return sum + Math.ceil(entries)
  }, 0)
}

/*
 * Repairs a damaged log: gives up the runs that may have lost something, and keeps all others, with what the team has.
 * The repaired log takes the place of the damaged one in one moment; before it nothing is changed.
 */

interface RepairLogOptions {
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
  { files = realFiles, clock = systemClock, dropRuns = false, acceptLoss = false }: RepairLogOptions,
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
      const ofTeam = carried.has(seq) || isOfLog(entry) || (isOfIncarnation(entry) && old.index.isUnderWayAt(at))
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
