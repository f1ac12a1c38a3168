/** Compacts a log that no process has. */
import type { Logger } from '../../actors/definition/logger.ts'
import { type Scheduler, systemClock } from '../../clock.ts'
import type { KeepSettings } from '../settings/settings.ts'
import type { LogStore } from '../store/log-store.ts'
import { Checkpoints } from './checkpoints.ts'
import { type Compacted, Compactor } from './compactor.ts'
import { carriedRecords, LONGEST_WINDOW_MS, oldFacts } from './old-facts.ts'
import { OldLog } from './old-log.ts'
import { PastRunReader } from './past-run-reader.ts'
import { RecordWriter } from './record-writer.ts'
import type { TraceArchive } from './trace-archive.ts'

interface Options {
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
  { keep, believesClock = false, archive: archiveFor, logger, clock = systemClock }: Options,
): Promise<Compacted> {
  const { incarnation, ended } = await store.open()
  const before = store.bytes
  const old = await OldLog.from(() => store.read(), LONGEST_WINDOW_MS)
  if (believesClock) old.index.time.believe(clock.now())
  const archive = archiveFor?.((index) => old.names.get(index)?.name ?? `#${index}`)
  await archive?.open()
  const past = new PastRunReader({ store, index: old.index, parts: old.parts, restore: () => {} })
  const openedAt = clock.now() // no time passes for the team meanwhile
  const records = new RecordWriter(
    async (block) => {
      const position = await store.append(block)
      compactor.wrote(position, block.entries.byteLength, block.entries.byteLength)
      checkpoints.wrote(position, block.entries.byteLength)
    },
    old.next,
    openedAt,
  )
  const facts = () => oldFacts(old, clock.now())
  const checkpoints = new Checkpoints({
    clock,
    logger,
    store,
    old,
    last: undefined,
    facts,
    left: () => Array.from(old.left.values(), ({ seq }) => seq),
    logParts: () => compactor.logParts,
    alone: (run) => past.alone(run),
    atRest: async (act) => {
      await records.written()
      act(records.next)
    },
    lastSeq: () => records.next - 1,
    now: () => openedAt,
    written: () => records.written(),
  })
  const compactor = new Compactor({
    clock,
    logger,
    store,
    index: old.index,
    keep: { keysMs: Number.POSITIVE_INFINITY, ...keep }, // only the team knows its own
    facts,
    checkpoints,
    log: (fact) => records.log(fact),
    carried: () => carriedRecords(old),
    parts: old.parts,
    written: () => records.written(),
    unlearn: () => {}, // no run goes on here
    alone: (run) => past.alone(run),
    leaves: async (run) => archive?.write(await past.read(run), run),
    drop: (position) => past.drop(() => store.dropBefore(position)),
  })
  // Blocks that were carried were read last, and may stand before others.
  const blocks = [...old.blocks].sort((a, b) => a.position - b.position)
  for (const { position, bytes } of blocks) compactor.wrote(position, bytes)
  compactor.endPart()
  records.log({ kind: 'log.opened', incarnation, ...(ended && { ended }) })
  await records.written() // a part of its own: all before it can be given up
  const compacted = await compactor.compact(true)
  records.log({ kind: 'log.closed' })
  await records.written()
  await store.sync()
  return { ...compacted, before }
}
