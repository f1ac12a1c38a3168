/**
 * Writes the log of a team to its store. What one task of the event loop has logged is in one block, so it is in the
 * log together or not at all. While a block is written the next one gathers.
 */
import type { Scheduler, Timer } from '../../clock.ts'
import { DramatisError, describe, LogLostError, TeamClosedError } from '../../errors.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { EntryEncoder } from '../log/entry-codec.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal, JournalKeeper, LogFigures, LogHealth } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import type { LogStore, Position } from '../store/log-store.ts'
import { BlockBuffers } from './block-buffers.ts'
import { SLOW_MS, StoreWatch } from './store-watch.ts'

interface Needs {
  readonly clock: Scheduler
  readonly journal: Pick<Journal, 'tell' | 'keep'>
  readonly store: LogStore
  /** True if each block must survive the death of the machine before anybody is told of what it says. */
  readonly commits: boolean
  /** Time after which a written block is synced, in ms. */
  readonly syncMs: number
  /** Number behind the last entry that the log had when it was opened. */
  readonly end: number
  /** Called once, when nothing can be written any more. */
  lost(error: DramatisError): void
  /** Called when the store takes long for something, and with false when it has done all that it was given. */
  slow?(isSlow: boolean): void
  readonly follower?: LogFollower
}

/** Follows what is written. */
export interface LogFollower {
  /** Called with each record, before it is written. */
  see(record: HostRecord): void
  /** Called when entries stand in the log. */
  wrote(position: Position, entries: Uint8Array): void
  /** True if the bytes with that hash stand in the log, or will. */
  hasPart(hash: string): boolean
  /** Reads the entries of a run that stand in the log. */
  reread: JournalKeeper['reread']
  readonly figures: LogFigures
}

interface Waiting {
  readonly promise: Promise<void>
  resolve(written: Promise<void>): void
}

export class LogKeeper implements JournalKeeper {
  readonly #needs: Needs
  end: number
  readonly #encoder = new EntryEncoder()
  readonly #buffers = new BlockBuffers()
  #pending: LogEntry[] = []
  #handed: { cell: Cell; envelope: Envelope<RunState> }[] = []
  #isScheduled = false
  /** Settles when the store has written all that it was given: until then it gets nothing more. */
  #resting: Promise<void> | undefined
  /** Settles with the block that is gathered now. */
  #waiting: Waiting | undefined
  /** Settles with the last block that was given to the store. */
  #last: Promise<void> = Promise.resolve()
  /** Settles when the last block survives the death of the machine, as soon as somebody has asked for that. */
  #kept: Promise<void> | undefined
  /** Reason why nothing is taken any more: the log is lost or closed. */
  #over: DramatisError | undefined
  #isLost = false
  #sync: Timer | undefined
  readonly #watch: StoreWatch

  constructor(needs: Needs) {
    this.#needs = needs
    this.#watch = new StoreWatch(needs.clock, (isSlow) => needs.slow?.(isSlow))
    this.end = needs.end
  }

  take(entry: LogEntry): void {
    if (this.#over) return
    this.#pending.push(entry)
    this.#schedule()
  }

  handed(cell: Cell, envelope: Envelope<RunState>): void {
    if (this.#over) return
    this.#handed.push({ cell, envelope })
    this.#schedule()
  }

  hasPart(hash: string): boolean {
    const isComing = this.#pending.some((entry) => entry.kind === 'part' && entry.hash === hash)
    return isComing || this.#needs.follower?.hasPart(hash) === true
  }

  written(): Promise<void> {
    const over = this.#over
    if (over) return this.#last.catch(() => {}).then(() => Promise.reject(over)) // `end` is final then
    if (this.#pending.length === 0) return this.#keptLast()
    this.#waiting ??= waiting()
    return this.#waiting.promise
  }

  get figures(): LogFigures | undefined {
    return this.#needs.follower?.figures
  }

  get health(): LogHealth {
    const { lagMs } = this.#watch
    const { state } = this.#needs.store
    return { ok: state !== 'full' && state !== 'lost' && !this.#isLost && lagMs < SLOW_MS, lagMs }
  }

  /** A block of which nobody is told is synced later, with the next one or after `syncMs`. */
  #keptLast(): Promise<void> {
    const { commits, store } = this.#needs
    if (!commits) return this.#last
    if (!this.#kept) {
      this.#kept = this.#last.then(() => this.#watch.during(() => store.sync()))
      this.#kept.catch((error: unknown) => this.loses(error))
    }
    return this.#kept
  }

  async reread<T>(run: number, read: (entries: AsyncIterable<LogEntry>) => Promise<T>): Promise<T> {
    await this.written()
    const { follower } = this.#needs
    if (!follower) throw new LogLostError('Nobody knows where the log has the run.', {})
    return follower.reread(run, read)
  }

  /** Lets no entry that is written from now on have copies of what these runs have said. */
  unlearn(runs: Iterable<number>): void {
    this.#encoder.silence(runs)
  }

  /**
   * Calls `act` with the next entry's number, when all that the store was given is written and it got no more. To read
   * what it gets then, nothing is needed of runs that are over.
   */
  atRest(act: (next: number) => void): Promise<void> {
    const resting = this.#last.then(() => {
      if (this.#resting !== resting) return
      this.#resting = undefined
      act(this.end)
      this.#encoder.silence()
      if (!this.#over) this.#flush()
    })
    this.#resting = resting
    return resting
  }

  /** Writes what is left, and gives the log free. Rejects if something of it is not written: the disk may be full. */
  async close(): Promise<void> {
    const wasOver = this.#over !== undefined
    this.#resting = undefined
    if (this.#pending.length > 0 && !wasOver) this.#flush()
    this.#ends(new TeamClosedError('The team was closed; a later process goes on with its runs.', {}))
    await this.#needs.store.close() // before the last block: only this ends its wait for room on the disk
    if (!wasOver) await this.#last
  }

  /** A task of its own: what others do in one task, promises included, is not cut in two. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#needs.clock.defer(() => {
      this.#isScheduled = false
      if (!this.#over) this.#flush()
    })
  }

  #flush(): void {
    if (this.#resting) return // it goes on then
    const { follower, journal, store } = this.#needs
    journal.tell() // what readers log about it belongs to the same block
    this.#noteTurns()
    const entries = this.#pending
    if (entries.length === 0) return
    this.#pending = []
    const runs = new Set<number>()
    for (const entry of entries) {
      runs.add(entry.run)
      if (entry.kind !== 'frames') follower?.see(entry)
    }
    const block = {
      firstSeq: entries[0]!.seq,
      lastSeq: lastSeq(entries.at(-1)!),
      carried: false,
      runs: [...runs],
      entries: this.#encoder.encode(entries, this.#buffers.take),
    }
    const before = this.#last
    this.#last = this.#watch
      .during(() => store.append(block))
      .then(async (position) => {
        await before // a store may tell of them in another order
        this.end = block.lastSeq + 1
        follower?.wrote(position, block.entries)
        this.#buffers.giveBack(block.entries)
        this.#syncLater()
      })
    this.#kept = undefined
    this.#last.catch((error: unknown) => this.loses(error))
    this.#waiting?.resolve(this.#keptLast())
    this.#waiting = undefined
  }

  /** Records the open turns that messages were given: frames of a turn have its number, and no message. */
  #noteTurns(): void {
    const open = this.#handed.filter(({ cell, envelope }) => cell.mailbox.holds(envelope))
    this.#handed = []
    if (open.length === 0) return
    this.#needs.journal.keep(undefined, {
      kind: 'turns',
      turns: open.map(({ cell, envelope: { memory, at, turn, attempt } }) => [
        cell.index,
        turn,
        attempt,
        idOf(memory, at),
      ]),
    })
  }

  #syncLater(): void {
    const { clock, store, syncMs } = this.#needs
    this.#sync ??= clock.timer(syncMs, () => {
      this.#sync = undefined
      this.#watch.during(() => store.sync()).catch((error: unknown) => this.loses(error))
    })
  }

  /** Takes nothing more: the log is lost. */
  loses(error: unknown): void {
    if (this.#over) return
    const lost =
      error instanceof DramatisError ? error : new LogLostError(`The log is lost: ${describe(error)}`, {}, error)
    this.#isLost = true
    this.#ends(lost)
    this.#needs.lost(lost)
  }

  /** Takes nothing more. Who waits for what is not written gets the reason. */
  #ends(reason: DramatisError): void {
    this.#over ??= reason
    this.#pending = []
    this.#handed = []
    this.#waiting?.resolve(Promise.reject(reason))
    this.#waiting = undefined
    this.#sync?.cancel()
    this.#watch.end()
  }
}

function waiting(): Waiting {
  let resolve: Waiting['resolve'] = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  promise.catch(() => {}) // nobody has to wait for it
  return { promise, resolve }
}
