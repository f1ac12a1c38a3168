/** The durable log of one team: takes it when the team starts, goes on with what is in it, and gives it free. */
import type { Logger } from '../../actors/definition/tool.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { type DramatisError, describe, LogHeldError, TeamClosedError } from '../../shared/errors.ts'
import { type LogFigures, newLogName } from '../host/journal.ts'
import { partsIn } from '../log/entry-codec.ts'
import { inBlock } from '../log/read-entries.ts'
import type { GivenTurn, HostRecord, LogEntry } from '../log/records.ts'
import type { RunBook } from '../runs/runs.ts'
import type { DurableLog } from '../settings/settings.ts'
import { FileStore } from '../store/file-store.ts'
import type { Checkpoint, LogStore, OpenedLog, Position } from '../store/log-files.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { TakenLog } from './checkpoints.ts'
import { Compactor } from './compactor.ts'
import { type LogFollower, LogKeeper, SLOW_MS } from './log-keeper.ts'
import { logSince, RecoveredLog } from './recovered-log.ts'
import { Recovery } from './recovery.ts'
import type { PartIndex, RunIndex } from './run-index.ts'
import { restoreEnded } from './run-recovery.ts'
import { Slices } from './slices.ts'
import { type TeamParts, teamFacts } from './team-facts.ts'
import { PastRunReader, TraceArchive } from './trace-archive.ts'

/** Log that was taken, and what its team is made of. */
interface Taken extends Pick<TakenLog, 'atRest' | 'unlearn' | 'keep' | 'last' | 'old' | 'store'> {
  readonly archive: TraceArchive | undefined
  readonly book: RunBook
  readonly owners: Supervisor
  readonly parts: TeamParts
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
  /** Agents of the team that have left: number of the last record of it, by index. */
  readonly #left: Map<number, number>
  #look: Timer | undefined
  /** Time to which the clock has jumped, as it was told. */
  #told: number | undefined
  /** Runs of which nothing is under way any more, and whose end may not be written yet. */
  #quiet: number[] = []

  constructor({ archive, book, owners, parts, ...taken }: Taken) {
    const { agentStates, clock, journal, logger } = owners
    const { keep, old, store } = taken
    const { index } = old
    this.#clock = clock
    this.#logger = logger
    this.#store = store
    this.#index = index
    this.#parts = old.parts
    this.#left = new Map(Array.from(old.left, ([agent, { seq }]) => [agent, seq]))
    this.#past = new PastRunReader(store, old, (run) => restoreEnded(owners, book, run))
    this.#compactor = new Compactor({
      ...taken,
      clock,
      logger,
      past: this.#past,
      *facts() {
        yield* teamFacts(owners, parts)
        yield* index.keyFacts()
        yield { kind: 'turns', turns: [...interruptedTurns(old, book)], again: true }
      },
      log: (fact) => journal.keep(undefined, fact),
      left: () => this.#left.values(),
      referrers: () => ({
        index,
        conversations: agentStates.conversations.all(),
        letters: journal.deadLetters.entries,
      }),
      leaves: async (run) => archive?.write(await this.#past.read(run), run),
      lastSeq: () => journal.seq - 1,
      now: () => clock.now(),
      written: async () => journal.written(),
    })
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
    if (record.kind === 'run.launched' && record.output?.part) this.#parts.referred(record.output.part)
    if (record.kind === 'agent.left' && record.run === 0) this.#left.set(record.index, record.seq)
  }

  wrote(position: Position, entries: Uint8Array): void {
    const { sizes, leans } = inBlock(entries)
    this.#index.at({ position, carried: false, sizes, leans })
    if (this.#parts.areComing) this.#parts.at(position, partsIn(entries))
    if (this.#quiet.length > 0) this.#quiet = this.#quiet.filter((index) => !this.#isOver(index))
    this.#compactor.wrote(position, entries.byteLength, sizes.get(0))
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

  async close(): Promise<void> {
    this.#look?.cancel()
    await this.#compactor.close()
    await this.#compactor.checkpoints.close()
    await this.#past.close(new TeamClosedError('The team was closed before the run was read.', {}))
  }
}

const JUMPED =
  'the clock is more than a day ahead of the newest record of the durable log: no run is forgotten by its age until the clock has gone on from there for an hour. Look at it'

/** Yields the turns of messages that are in no mailbox, because their runs wait until they are resumed. */
function* interruptedTurns({ work }: RecoveredLog, book: RunBook): Generator<GivenTurn> {
  for (const { run, recipient, turn, attempt, id } of work.messages())
    if (turn > 0 && book.interrupted.hasIndex(run)) yield [recipient, turn, attempt, id]
}

export class TeamLog {
  readonly #owners: Supervisor
  readonly #parts: TeamParts
  readonly #runs: RunBook
  readonly #settings: DurableLog
  readonly #newStore: () => LogStore
  readonly #archive: TraceArchive | undefined
  #keeper: LogKeeper | undefined
  #upkeep: LogUpkeep | undefined
  #opening: Promise<void> | undefined
  /** Error that came when the team's own store was open. */
  #unusable: unknown
  readonly #closed = new AbortController()

  /** `newStore`: makes the store in place of files, for tests. */
  constructor(owners: Supervisor, parts: TeamParts, runs: RunBook, settings: DurableLog, newStore?: () => LogStore) {
    this.#owners = owners
    owners.journal.name = undefined // known when the log is open
    this.#parts = parts
    this.#runs = runs
    this.#settings = settings
    const { archive: folder } = settings
    const name = (index: number) => owners.directory.name(index)
    this.#archive = folder === undefined ? undefined : new TraceArchive({ folder, redactor: owners.redactor, name })
    const onRoom = (hasRoom: boolean) => this.#tellRoom(hasRoom)
    const onLost = (error: DramatisError) => this.#keeper?.loses(error)
    this.#newStore =
      newStore ?? (() => settings.store ?? new FileStore(settings.path ?? '', { clock: owners.clock, onRoom, onLost }))
  }

  /**
   * Takes the log, before any thread is made. Rejects with `LogHeldError`, `LogCorruptError`, `LogVersionError` or
   * `LogLostError`; then it can be tried again.
   */
  open(): Promise<void> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }

  async #open(): Promise<void> {
    if (this.#unusable) throw this.#unusable
    await this.#archive?.open()
    const { store, opened } = await this.#take()
    try {
      const { old, last } = await this.#read(store, opened)
      if (this.#closed.signal.aborted) throw this.#closed.signal.reason
      const cut = 'the end of the log was cut: the process, or the machine, died while it wrote there'
      if (opened.cut) this.#owners.logger.warn({ ...this.#place, bytes: opened.cut.bytes }, cut)
      old.deaths.end(opened.ended === true)
      this.#parts.budgets.assertCurrency(old.team.payments)
      this.#begin(store, opened, old, last, await old.readParts(store))
    } catch (error) {
      if (this.#settings.store) this.#unusable = error // it was opened, and that is done once
      await store.close()
      throw error
    }
  }

  /** Reads the log from its last checkpoint on; all of it, if that one cannot be used. */
  async #read(
    store: LogStore,
    { checkpoint, checkpointUnusable }: OpenedLog,
  ): Promise<{ old: RecoveredLog; last: Checkpoint | undefined }> {
    const { windowMs } = this.#parts.budgets
    const slices = new Slices(this.#owners.clock, this.#closed.signal)
    if (checkpointUnusable !== undefined) this.#tellUnusable(checkpointUnusable)
    if (checkpoint)
      try {
        return { old: await logSince(checkpoint, store, windowMs, slices), last: checkpoint }
      } catch (error) {
        this.#closed.signal.throwIfAborted()
        this.#tellUnusable(describe(error))
      }
    return { old: await RecoveredLog.from((options) => store.read(options), windowMs, { slices }), last: undefined }
  }

  #tellUnusable(reason: string): void {
    const text = 'the checkpoint of the durable log is not used: all of the log is read, and a new one is written'
    this.#owners.logger.warn({ ...this.#place, reason }, text)
  }

  /** Takes the log, if need be when the process that has it has ended. */
  async #take(): Promise<{ store: LogStore; opened: OpenedLog }> {
    const { clock, logger } = this.#owners
    const { waitForLogMs } = this.#settings
    const { signal } = this.#closed
    const until = clock.monotonic() + waitForLogMs
    for (let isTold = false; ; isTold = true) {
      const store = this.#newStore()
      try {
        return { store, opened: await store.open() }
      } catch (error) {
        const leftMs = until - clock.monotonic()
        if (!(error instanceof LogHeldError) || leftMs <= 0) throw error
        const text = 'another process has the durable log: the start waits until it has ended'
        if (!isTold) logger.info({ ...error.details, waitForLogMs }, text)
        await clock.sleep(Math.min(LOOK_AGAIN_MS, leftMs), signal)
      }
    }
  }

  #begin(
    store: LogStore,
    { incarnation, ended }: OpenedLog,
    old: RecoveredLog,
    last: Checkpoint | undefined,
    bytes: ReadonlyMap<string, Uint8Array>,
  ): void {
    const { clock, directory, journal, logger } = this.#owners
    const { commits, keep, onMismatch, resumes, syncMs } = this.#settings
    const lost = (error: DramatisError) => this.#lost(error)
    const upkeep = new LogUpkeep({
      archive: this.#archive,
      atRest: (act) => keeper.atRest(act),
      unlearn: (runs) => keeper.unlearn(runs),
      book: this.#runs,
      keep,
      last,
      old,
      owners: this.#owners,
      parts: this.#parts,
      store,
    })
    this.#upkeep = upkeep
    const slow = (isSlow: boolean) => this.#tellSlow(store, isSlow)
    const end = old.next
    const keeper = new LogKeeper({ clock, journal, store, commits, syncMs, end, lost, slow, follower: upkeep })
    this.#keeper = keeper
    const name = old.name ?? newLogName()
    journal.keepWith(keeper, old.next, name)
    journal.keep(undefined, { kind: 'log.opened', incarnation, name, ...(ended && { ended }) })
    this.#parts.budgets.restore(old.team.payments)
    const recovery = new Recovery({ owners: this.#owners, parts: this.#parts, book: this.#runs, old, onMismatch })
    const ofLog = { stored: new Map<string, Uint8Array>() } // refers to them until the runs and conversations do
    for (const [hash, each] of bytes) this.#owners.parts.hold(ofLog, hash, each)
    const { going, hindrances, lacking } = recovery.perform(resumes === 'manual')
    this.#owners.parts.release(ofLog)
    for (const error of lacking)
      logger.warn({ agent: error.details.agent, error: error.message }, 'an agent that was made earlier is not there')
    for (const { index, name, removed } of directory.byIndex)
      if (!removed && old.names.get(index)?.name !== name) journal.keep(undefined, { kind: 'name', index, name })
    this.#runs.joinPast()
    this.#runs.keepLaunched()
    for (const { message, details } of hindrances)
      logger.warn({ runId: details.runId, error: message }, 'a run of an earlier process stays interrupted')
    if (going.length === 0) return
    const ids = going.map(({ id }) => id)
    const text =
      ids.length === 1 ? 'a run of an earlier process goes on' : `${ids.length} runs of an earlier process go on`
    logger.info({ runIds: ids.slice(0, MOST_NAMED) }, text)
  }

  get #place(): { path?: string } {
    const { path } = this.#settings
    return path === undefined ? {} : { path }
  }

  #tellRoom(hasRoom: boolean): void {
    const { logger } = this.#owners
    if (hasRoom) logger.info(this.#place, 'the disk of the durable log has room again: the team goes on')
    else
      logger.warn(
        this.#place,
        'the disk of the durable log has no room: new runs, answers and results wait until there is some',
      )
  }

  /** Files tell of a full disk by themselves. */
  #tellSlow({ state }: LogStore, isSlow: boolean): void {
    const { logger } = this.#owners
    if (!isSlow) logger.info(this.#place, 'the durable log writes in time again: the team goes on')
    else if (this.#settings.store || state !== 'full')
      logger.warn(
        { ...this.#place, state, afterMs: SLOW_MS },
        'the durable log takes long to write: new runs, answers and results wait until it has. Look at its store',
      )
  }

  #lost(error: DramatisError): void {
    const text =
      'the durable log is lost: runs are interrupted, and no more are taken. What it had stays: start again when the cause is gone'
    this.#owners.logger.error({ ...this.#place, error: error.message }, text)
    this.#runs.endings.interrupt(error)
  }

  /** Writes what is left; what comes after is in no log. Never rejects: the threads must end whatever happens. */
  async seal(): Promise<void> {
    this.#closed.abort(new TeamClosedError('The team was closed before it had its log.', {}))
    await this.#opening?.catch(() => {})
    await this.#inOrder(async () => {
      await this.#upkeep?.close()
      const { endsWithSession: ends } = this.#settings
      this.#owners.journal.keep(undefined, { kind: 'log.closed', ...(ends && { ends }) })
      await this.#keeper?.seal()
    })
  }

  /** Gives the log free, for another process to go on with its runs. Never rejects. */
  async close(): Promise<void> {
    await this.#inOrder(async () => this.#keeper?.close())
  }

  async #inOrder(act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      const text = 'the durable log could not be closed in order: what was not synced by then may be missing'
      this.#owners.logger.error({ ...this.#place, error: describe(error) }, text)
    }
  }
}

/** Time between two looks at a log that another process has. */
const LOOK_AGAIN_MS = 100

const MOST_NAMED = 20
