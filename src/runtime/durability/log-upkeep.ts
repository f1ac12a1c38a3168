/** Looks after a log that is in use: knows which runs it has, reads them again, and keeps it bounded. */
import type { Logger } from '../../actors/definition/logger.ts'
import type { Scheduler, Timer } from '../../clock.ts'
import { TeamClosedError } from '../../errors.ts'
import { partsIn } from '../log/part-entries.ts'
import { inBlock } from '../log/read-entries.ts'
import type { GivenTurn, HostRecord, LogEntry } from '../log/records.ts'
import type { RunBook } from '../runs/runs.ts'
import type { KeepSettings } from '../settings/settings.ts'
import type { Journal, LogFigures } from '../state/journal.ts'
import type { Checkpoint, LogStore, Position } from '../store/log-store.ts'
import { Checkpoints } from './checkpoints.ts'
import { Compactor } from './compactor.ts'
import type { LogFollower, LogKeeper } from './log-keeper.ts'
import type { OldLog } from './old-log.ts'
import type { PartIndex } from './part-index.ts'
import { PastRunReader } from './past-run-reader.ts'
import type { RestoredOwners, TeamParts } from './restored-owners.ts'
import type { RunIndex } from './run-index.ts'
import { restoreEnded } from './run-recovery.ts'
import { teamFacts } from './team-facts.ts'
import type { TraceArchive } from './trace-archive.ts'

interface Owners extends RestoredOwners {
  readonly clock: Scheduler
  readonly journal: Journal
  readonly logger: Logger
}

interface Needs {
  /** Gets what the log forgets. */
  readonly archive: TraceArchive | undefined
  readonly atRest: LogKeeper['atRest']
  readonly unlearn: LogKeeper['unlearn']
  readonly book: RunBook
  readonly keep: KeepSettings
  /** Checkpoint by which the log was opened. */
  readonly last: Checkpoint | undefined
  readonly old: OldLog
  readonly owners: Owners
  readonly parts: TeamParts
  readonly store: LogStore
}

/** Time between two looks at the clock, and at what is to be forgotten. */
const LOOK_MS = 60_000
const DAY_MS = 86_400_000

export class LogUpkeep implements LogFollower {
  readonly #clock: Scheduler
  readonly #logger: Logger
  readonly #store: LogStore
  readonly #index: RunIndex
  readonly #past: PastRunReader
  readonly #parts: PartIndex
  readonly #compactor: Compactor
  readonly #checkpoints: Checkpoints
  /** Agents of the team that have left: number of the last record of it, by index. */
  readonly #left: Map<number, number>
  #look: Timer | undefined
  /** Time to which the clock has jumped, as it was told. */
  #told: number | undefined
  /** Runs of which nothing is under way any more, and whose end may not be written yet. */
  #quiet: number[] = []

  constructor({ archive, atRest, unlearn, book, keep, last, old, owners, parts, store }: Needs) {
    const { clock, journal, logger } = owners
    const { index, parts: ofLog } = old
    this.#clock = clock
    this.#logger = logger
    this.#store = store
    this.#index = index
    this.#parts = ofLog
    this.#left = new Map(Array.from(old.left, ([agent, { seq }]) => [agent, seq]))
    this.#past = new PastRunReader({ store, index, parts: ofLog, restore: (run) => restoreEnded(owners, book, run) })
    const facts = function* () {
      yield* teamFacts(owners, parts)
      yield* index.keyFacts()
      yield { kind: 'turns' as const, turns: [...interruptedTurns(old, book)], again: true as const }
    }
    this.#checkpoints = new Checkpoints({
      clock,
      logger,
      store,
      old,
      last,
      facts,
      left: () => this.#left.values(),
      logParts: () => this.#compactor.logParts,
      alone: (run) => this.#past.alone(run),
      atRest,
      lastSeq: () => journal.seq - 1,
      now: () => clock.now(),
      written: async () => journal.written(),
    })
    const referrers = () => ({
      index,
      conversations: owners.agentStates.conversations.all(),
      letters: journal.deadLetters.entries,
    })
    this.#compactor = new Compactor({
      clock,
      logger,
      store,
      index,
      keep,
      facts,
      checkpoints: this.#checkpoints,
      log: (fact) => journal.keep(undefined, fact),
      carried: () => new Set([...this.#left.values(), ...ofLog.needed(referrers())]),
      parts: ofLog,
      written: async () => journal.written(),
      unlearn,
      alone: (run) => this.#past.alone(run),
      leaves: async (run) => archive?.write(await this.#past.read(run), run),
      drop: (before) => this.#past.drop(() => store.dropBefore(before)),
    })
    // Blocks that were carried were read last, and may stand before others.
    const blocks = [...old.blocks].sort((a, b) => a.position - b.position)
    for (const { position, bytes } of blocks) this.#compactor.wrote(position, bytes)
    this.#compactor.endPart()
    this.#lookLater()
    book.recalled.past = this.#past
    book.isForgotten = (runId) => index.hasForgotten(runId, keep, index.time.see(clock.now()))
    book.onQuiet = ({ index: run }) => {
      if (index.get(run)?.open !== false) this.#quiet.push(run) // not one that was read from the log
    }
  }

  see(record: HostRecord): void {
    this.#index.see(record)
    if (record.kind === 'part') this.#parts.see(record)
    if (record.kind === 'part.used') this.#parts.referred(record.hash)
    if (record.kind === 'agent.left' && record.run === 0) this.#left.set(record.index, record.seq)
  }

  wrote(position: Position, entries: Uint8Array): void {
    const { sizes, leans } = inBlock(entries)
    this.#index.at({ position, carried: false, sizes, leans })
    if (this.#parts.areComing) this.#parts.at(position, partsIn(entries))
    if (this.#quiet.length > 0) this.#quiet = this.#quiet.filter((index) => !this.#isOver(index))
    this.#compactor.wrote(position, entries.byteLength, sizes.get(0))
    this.#checkpoints.wrote(position, entries.byteLength)
    this.#compactor.consider()
  }

  hasPart(hash: string): boolean {
    return this.#parts.has(hash)
  }

  reread<T>(run: number, read: (entries: AsyncIterable<LogEntry>) => Promise<T>): Promise<T> {
    return this.#past.reread(run, read)
  }

  #isOver(index: number): boolean {
    const run = this.#index.get(index)
    if (!run) return true
    if (!run.own && run.endedAt === 0) return false
    this.#index.over(run)
    return true
  }

  get figures(): LogFigures {
    const { bytes, segments } = this.#store
    const oldest = [this.#index.oldestAt, segments?.since].filter((at) => at !== undefined)
    return {
      bytes,
      segments: segments?.count,
      runs: this.#index.runs,
      compactedAt: this.#compactor.endedAt,
      oldestMs: oldest.length > 0 ? Math.max(0, this.#clock.now() - Math.min(...oldest)) : 0,
    }
  }

  /** Looks at the clock, so that a jump is told before anything of it is written. */
  #lookLater(): void {
    this.#lookAtClock()
    const look = () => {
      this.#lookLater()
      this.#compactor.keepLimits()
    }
    this.#look = this.#clock.timer(LOOK_MS, look, 'background')
  }

  #lookAtClock(): void {
    const { time } = this.#index
    time.see(this.#clock.now())
    const { jump } = time
    if (jump && jump.to !== this.#told) {
      const [logAt, clockAt] = [jump.from, jump.to].map((at) => new Date(at).toISOString())
      const days = Math.round((jump.to - jump.from) / DAY_MS)
      this.#logger.warn({ logAt, clockAt, days }, JUMPED)
    }
    this.#told = jump?.to
  }

  /** Ends all that is under way. */
  async close(): Promise<void> {
    this.#look?.cancel()
    await this.#compactor.close()
    await this.#checkpoints.close()
    await this.#past.close(new TeamClosedError('The team was closed before the run was read.', {}))
  }
}

const JUMPED =
  'the clock is more than a day ahead of the newest record of the durable log: no run is forgotten by its age until the clock has gone on from there for an hour. Look at it'

/** Yields the turns of messages that are in no mailbox, because their runs wait until they are resumed. */
function* interruptedTurns({ work }: OldLog, book: RunBook): Generator<GivenTurn> {
  for (const { run, recipient, turn, attempt, id } of work.messages())
    if (turn > 0 && book.interrupted.hasIndex(run)) yield [recipient, turn, attempt, id]
}
