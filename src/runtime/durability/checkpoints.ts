/**
 * Writes checkpoints of a log that is in use: after so many bytes, when it is compacted, and at its end. One that
 * cannot be written costs the next opening time, and nothing else.
 */
import type { Logger } from '../../actors/definition/tool.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { CancelledError, describe } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import type { KeepSettings } from '../settings/settings.ts'
import type { Checkpoint, LogStore, Position } from '../store/log-files.ts'
import { checkpointPieces, type LogPart, type Moment } from './checkpoint.ts'
import type { RecoveredLog } from './recovered-log.ts'
import type { LoggedRun, Referrers } from './run-index.ts'
import { Slices } from './slices.ts'
import type { Fact } from './team-facts.ts'
import type { PastRunReader } from './trace-archive.ts'

/** A log that this process has, and what it knows of it. */
export interface TakenLog {
  readonly clock: Scheduler
  readonly logger: Logger
  readonly store: LogStore
  readonly keep: KeepSettings
  /** The log as it was opened. Its indices of runs and parts go on. */
  readonly old: RecoveredLog
  readonly last?: Checkpoint | undefined
  readonly past: PastRunReader
  facts(): Iterable<Fact>
  log(fact: Fact): void
  /** Numbers of the records of agents that have left. */
  left(): Iterable<number>
  referrers(): Referrers
  /** Called with each run before the log forgets it. If it rejects, the log keeps the run. */
  leaves(run: LoggedRun): Promise<void>
  /** Calls `act` in a moment in which nothing is being written, with the number of the next entry. */
  atRest(act: (next: number) => void): Promise<void>
  /** Lets no entry that is written from now on have copies of what these runs have said. */
  unlearn(runs: Iterable<number>): void
  /** Number of the last entry that was logged, and the time of the facts, in epoch ms. */
  lastSeq(): number
  now(): number
  /** Resolves when all that was logged until now is written. */
  written(): Promise<void>
}

const CHECKPOINT_BYTES = 16 * 2 ** 20
/** To read as many bytes takes no longer than to write a checkpoint. */
const LEAST_BYTES = 2 ** 20
/** Time that the end of a process waits for a checkpoint. */
const END_MS = 5_000

export class Checkpoints {
  readonly #log: TakenLog
  /** Returns the parts in which the store gives up space. */
  readonly #logParts: () => readonly LogPart[]
  #last: Checkpoint | undefined
  /** Position of the last block, and the bytes of blocks behind the last checkpoint. */
  #position: Position | undefined
  #bytes: number
  /** Size of the last checkpoint: what they take of the disk's time is bounded by what the log takes. */
  #lastBytes = 0
  #writing: Promise<void> | undefined
  readonly #closed = new AbortController()

  constructor(log: TakenLog, logParts: () => readonly LogPart[]) {
    this.#log = log
    this.#logParts = logParts
    this.#last = log.last
    this.#position = log.old.blocks.reduce(later, log.last?.position)
    this.#bytes = log.old.readBytes
  }

  /** Notes that a block was written. */
  wrote(position: Position, bytes: number): void {
    this.#position = position
    this.#bytes += bytes
  }

  /** True when the next one is to be written. No entries may be carried meanwhile. */
  get isDue(): boolean {
    return this.#bytes >= Math.max(this.#lastBytes, this.#log.store.checkpointBytes ?? CHECKPOINT_BYTES)
  }

  /** Bytes for which a checkpoint pays. */
  get #least(): number {
    return Math.min(LEAST_BYTES, this.#log.store.checkpointBytes ?? LEAST_BYTES)
  }

  /** Writes a checkpoint, if the store keeps any and it pays. Rejects when this is closed. */
  write(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  /** Writes the last one, if it pays and there is room. */
  async close(): Promise<void> {
    const { clock, store } = this.#log
    const cancel = () => this.#closed.abort(new CancelledError('The log is closed.', {}))
    const limit = clock.timer(END_MS, cancel)
    await this.#writing?.catch(() => {})
    if (store.state === 'open' && this.#bytes >= this.#least) await this.write().catch(() => {}) // told
    limit.cancel()
    cancel()
    await this.#writing?.catch(() => {})
  }

  async #write(): Promise<void> {
    const { logger, store } = this.#log
    if (!store.checkpoint || this.#position === undefined || store.bytes < this.#least) return
    this.#closed.signal.throwIfAborted()
    try {
      const moment = await this.#moment()
      const { position, next } = moment
      this.#last = await store.checkpoint(position, next - 1, this.#pieces(moment))
    } catch (error) {
      this.#closed.signal.throwIfAborted()
      const text = 'no checkpoint of the durable log could be written: the next start reads more of it'
      logger.warn({ error: describe(error) }, text)
    }
  }

  async #moment(): Promise<Moment> {
    const { old, atRest, left } = this.#log
    let moment: Moment | undefined
    const take = (next: number) => {
      const [runs, parts] = [old.index.rows(), old.parts.rows()]
      moment = { position: this.#position!, next, runs, parts, logParts: this.#logParts(), ofTeam: new Set(left()) }
      this.#bytes = 0
    }
    await unlessAborted(this.#closed.signal, atRest(take))
    return moment!
  }

  /** The checkpoint may be found when its last piece has come: then the disk has all that it says. */
  async *#pieces(moment: Moment): AsyncGenerator<Uint8Array> {
    const { clock, store, written } = this.#log
    const { signal } = this.#closed
    const slices = new Slices(clock, signal)
    let bytes = 0
    for await (const piece of checkpointPieces(moment, { ...this.#log, slices, signal, last: this.#last })) {
      bytes += piece.byteLength
      yield piece
    }
    this.#lastBytes = bytes
    await unlessAborted(this.#closed.signal, written())
    await unlessAborted(this.#closed.signal, store.sync())
  }
}

const later = (last: Position | undefined, { position }: { readonly position: Position }): Position | undefined =>
  last === undefined ? position : Math.max(last, position)
