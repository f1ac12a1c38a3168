/**
 * Writes the log of a team to its store. What one task of the event loop has logged is in one block, so it is in the
 * log together or not at all. While a block is written the next one gathers.
 */

import { idOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { DramatisError, describe, LogLostError, TeamClosedError } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import type { Journal, JournalKeeper, LogFigures, LogHealth } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import { EntryEncoder } from '../log/entry-codec.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { LogStore, Position } from '../store/log-files.ts'

/**
 * Buffers for the entries of blocks, each used again when its block is written. A new one for each block would keep the
 * garbage collector busy.
 */
const LEAST_BYTES = 2 ** 16
/** Bytes of the buffers that are kept, all together. */
const KEPT_BYTES = 2 ** 24

class BlockBuffers {
  /** Buffers that nobody has, the smallest first. */
  readonly #free: Buffer[] = []

  /** Returns a buffer with at least so many bytes, whatever they are. */
  readonly take = (bytes: number): Buffer => {
    const at = this.#free.findIndex(({ length }) => length >= bytes)
    if (at >= 0) return this.#free.splice(at, 1)[0]!
    return Buffer.allocUnsafeSlow(Math.max(LEAST_BYTES, 2 ** Math.ceil(Math.log2(bytes))))
  }

  /** Takes back the buffer of a block that is written. Where they are too many, the smallest go. */
  giveBack({ buffer }: Uint8Array): void {
    if (buffer.byteLength > KEPT_BYTES) return
    this.#free.push(Buffer.from(buffer))
    this.#free.sort((one, other) => one.length - other.length)
    let bytes = this.#free.reduce((sum, { length }) => sum + length, 0)
    while (bytes > KEPT_BYTES) bytes -= this.#free.shift()!.length
  }
}

/** Time in ms after which a store takes long: all that waits for the log waits so long, too. */
export const SLOW_MS = 10_000
/** Time that the last block may take, in ms, before the threads of a team that is closed are ended all the same. */
const LONGEST_SEAL_MS = 2_000

export class StoreWatch {
  readonly #clock: Scheduler
  readonly #tell: (isSlow: boolean) => void
  /** Times since which the store is at work on something, the oldest first. */
  readonly #work = new Set<{ since: number }>()
  #look: Timer | undefined
  #isSlow = false
  #isOver = false

  constructor(clock: Scheduler, tell: (isSlow: boolean) => void) {
    this.#clock = clock
    this.#tell = tell
  }

  /** Has the store do something. What it throws is a rejection: a store of somebody's own may do that. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const entry = { since: this.#clock.monotonic() }
    this.#work.add(entry)
    this.#lookIn(SLOW_MS)
    let result: T
    try {
      result = await work()
    } finally {
      this.#work.delete(entry)
    }
    if (this.#isSlow && this.lagMs < SLOW_MS) this.#setSlow(false)
    return result
  }

  /** Time in ms that the store has been at work on the oldest thing that it has not done. */
  get lagMs(): number {
    const [oldest] = this.#work
    return oldest ? this.#clock.monotonic() - oldest.since : 0
  }

  /** Ends the watch: nothing is told any more. */
  end(): void {
    this.#isOver = true
    this.#look?.cancel()
  }

  #lookIn(ms: number): void {
    if (this.#isOver) return
    this.#look ??= this.#clock.timer(ms, () => {
      this.#look = undefined
      if (this.#work.size === 0) return
      const { lagMs } = this
      if (lagMs >= SLOW_MS && !this.#isSlow) this.#setSlow(true)
      this.#lookIn(lagMs < SLOW_MS ? SLOW_MS - lagMs : SLOW_MS)
    })
  }

  #setSlow(isSlow: boolean): void {
    this.#isSlow = isSlow
    if (!this.#isOver) this.#tell(isSlow)
  }
}

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
  #handed: { agent: Agent; envelope: Envelope<RunState> }[] = []
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
  #isSealed = false
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

  handed(agent: Agent, envelope: Envelope<RunState>): void {
    if (this.#over) return
    this.#handed.push({ agent, envelope })
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

  /**
   * Takes nothing more, and writes what is left. A store without room, or one that takes long, is closed: nothing else
   * ends its wait, and with it that of who waits for the last block.
   */
  async seal(): Promise<void> {
    this.#takesNoMore()
    if (this.#needs.store.state === 'full' || !(await this.#isWrittenInTime())) await this.#needs.store.close()
  }

  #takesNoMore(): void {
    if (this.#over) return
    this.#resting = undefined
    if (this.#pending.length > 0) this.#flush()
    this.#isSealed = true
    this.#ends(new TeamClosedError('The team was closed; a later process goes on with its runs.', {}))
  }

  #isWrittenInTime(): Promise<boolean> {
    return new Promise((resolve) => {
      const limit = this.#needs.clock.timer(LONGEST_SEAL_MS, () => resolve(false), true)
      const written = () => {
        limit.cancel()
        resolve(true)
      }
      this.#last.then(written, written)
    })
  }

  /** Gives the log free. Rejects if something of it is not written: the disk may be full. */
  async close(): Promise<void> {
    this.#takesNoMore()
    await this.#needs.store.close()
    if (this.#isSealed) await this.#last
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
    const open = this.#handed.filter(({ agent, envelope }) => agent.mailbox.holds(envelope))
    this.#handed = []
    if (open.length === 0) return
    this.#needs.journal.keep(undefined, {
      kind: 'turns',
      turns: open.map(({ agent, envelope: { memory, at, turn, attempt } }) => [
        agent.index,
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

/**
 * Time of a log: that of its records, as long as these are no more than a day apart. Runs are forgotten by their age in
 * it, so that a clock that is wrong for a while makes the log forget none. A clock that has jumped ahead is believed
 * when it has gone on from there for an hour.
 */
const DAY_MS = 86_400_000
const CALM_MS = 3_600_000

/** Jump of the clock that is not believed yet, in epoch ms. */
export interface Jump {
  /** Time of the log before it. */
  readonly from: number
  readonly to: number
}

export class LogTime {
  #now = 0
  #jump: (Jump & { last: number }) | undefined

  /** Notes the time of a record, or of the clock, and returns the time of the log. */
  see(at: number): number {
    if (this.#now === 0 || at <= this.#now + DAY_MS) this.believe(at)
    else if (!this.#jump || Math.abs(at - this.#jump.last) > DAY_MS) this.#jump = { from: this.#now, to: at, last: at }
    else if (at - this.#jump.to < CALM_MS) this.#jump.last = at
    else this.believe(at)
    return this.#now
  }

  /** Notes a time that is right. */
  believe(at: number): void {
    this.#now = Math.max(this.#now, at)
    this.#jump = undefined
  }

  get now(): number {
    return this.#now
  }

  get jump(): Jump | undefined {
    return this.#jump
  }
}
