/** A log in memory whose writes take time, and whose process can die in the middle of them. */

import type {
  Block,
  Checkpoint,
  LogState,
  LogStore,
  OpenedLog,
  Position,
  ReadOptions,
  StoredBlock,
} from '../../src/runtime/store/log-files.ts'
import type { SteppedClock } from '../../src/runtime/testing/virtual-clock.ts'
import { LogLostError } from '../../src/shared/errors.ts'
import type { Dice } from '../dice.ts'

/** Blocks that outlive their process. */
export class Disk {
  readonly blocks: StoredBlock[] = []
  incarnation = 0
  /** Number of the next block. */
  next = 0
  #checkpoint: Checkpoint | undefined
  /** How often one was written, and how often a process has begun by one. */
  checkpoints = 0
  resumed = 0
  /** How often space was given up. */
  dropped = 0
  /** How often it had no room for a while. */
  fulls = 0
  /** How often a write failed for good. */
  losses = 0

  keep(checkpoint: Checkpoint): void {
    this.#checkpoint = checkpoint
    this.checkpoints += 1
  }

  /** The last checkpoint, if its block is there. */
  get found(): Checkpoint | undefined {
    const last = this.#checkpoint
    return this.blocks.some(({ position }) => position === last?.position) ? last : undefined
  }
}

/** What goes wrong with the disk while a process has the log: with so many blocks from the beginning. */
export interface DiskFaults {
  /** It has no room for that long, in ms. */
  readonly full?: { readonly after: number; readonly ms: number }
  /** A write fails, or with `syncs` the sync behind it, and nothing is written any more. */
  readonly lost?: { readonly after: number; readonly syncs: boolean }
}

async function* iterated<T>(all: readonly T[]): AsyncGenerator<T> {
  yield* all
}

/** A promise that is never settled, for a process that has died. Each wait has its own, which goes with the wait. */
export const never = () => new Promise<never>(() => {})

/** The store of one process. Blocks are on the disk a while after they are appended, in order. */
export class MortalStore implements LogStore {
  readonly #disk: Disk
  readonly #clock: SteppedClock
  readonly #dice: Dice
  /** Appended, but not said to be written yet. */
  readonly #underWay: StoredBlock[] = []
  readonly #faults: DiskFaults
  #writtenAt = 0
  #dead = false
  #appended = 0
  /** The blocks that were there when the log was taken. */
  found: readonly StoredBlock[] | undefined
  state: LogState = 'new'
  readonly segmentBytes: number
  /** Bytes between two checkpoints. By default they come with compactions alone. */
  checkpointBytes = 2 ** 30
  /** Called with each block that is appended, and when space is given up: then without one. */
  onAppend = (_block?: Block): void => {}

  /** `segmentBytes`: size of the parts in which space is given up. By default none is. */
  constructor(disk: Disk, clock: SteppedClock, dice: Dice, segmentBytes = 2 ** 30, faults: DiskFaults = {}) {
    this.#faults = faults
    this.segmentBytes = segmentBytes
    this.#disk = disk
    this.#clock = clock
    this.#dice = dice
  }

  get bytes(): number {
    return this.#disk.blocks.reduce((sum, { entries }) => sum + entries.byteLength, 0)
  }

  async open(): Promise<OpenedLog> {
    await this.#takesTime()
    if (this.#dead) return never()
    this.state = 'open'
    this.found = [...this.#disk.blocks]
    const checkpoint = this.#disk.found
    if (checkpoint) this.#disk.resumed += 1
    return {
      incarnation: ++this.#disk.incarnation,
      lastSeq: this.#disk.blocks.findLast(({ carried }) => !carried)?.lastSeq ?? 0,
      cut: undefined,
      ...(checkpoint && { checkpoint }),
    }
  }

  async checkpoint(position: Position, _lastSeq: number, pieces: AsyncIterable<Uint8Array>): Promise<Checkpoint> {
    const kept: Uint8Array[] = []
    for await (const piece of pieces) {
      await this.#takesTime()
      if (this.#dead) return never()
      kept.push(Uint8Array.from(piece))
    }
    if (this.#dead) return never()
    const checkpoint = { position, read: () => iterated(kept) }
    this.#disk.keep(checkpoint)
    return checkpoint
  }

  async append(block: Block): Promise<Position> {
    if (this.#dead) return never()
    if (this.state !== 'open' && this.state !== 'full') throw new LogLostError('the log is not open')
    const { full, lost } = this.#faults
    this.#appended += 1
    const stored = {
      ...block,
      entries: Uint8Array.from(block.entries),
      position: this.#disk.next++,
      incarnation: this.#disk.incarnation,
    }
    this.#underWay.push(stored)
    this.onAppend(block)
    if (this.#appended === full?.after) await this.#isFull(full.ms)
    else await this.#takesTime()
    if (this.#dead) return never()
    if (this.#appended >= (lost?.after ?? Number.POSITIVE_INFINITY) && lost?.syncs === false) this.#loses()
    this.#throwIfLost()
    while (this.#underWay.length > 0 && !this.#disk.blocks.includes(stored))
      this.#disk.blocks.push(this.#underWay.shift()!)
    return stored.position
  }

  /** Nothing of this process gets to the disk any more but some of the blocks that were under way. */
  die(): void {
    if (this.#dead) return
    this.#dead = true
    this.#keepSome()
  }

  async sync(): Promise<void> {
    await this.#takesTime()
    if (this.#dead) return never()
    if (this.#appended >= (this.#faults.lost?.after ?? Number.POSITIVE_INFINITY)) this.#loses()
    this.#throwIfLost()
  }

  /** Some of the blocks that were under way are on the disk all the same. */
  #loses(): void {
    if (this.state === 'lost') return
    this.state = 'lost'
    this.#disk.losses += 1
    this.#keepSome()
  }

  #throwIfLost(): void {
    if (this.state === 'lost') throw new LogLostError('EIO: injected')
  }

  async #isFull(ms: number): Promise<void> {
    this.state = 'full'
    this.#disk.fulls += 1
    this.#writtenAt = this.#clock.monotonic() + ms
    await this.#takesTime()
    if (this.state === 'full') this.state = 'open'
  }

  #keepSome(): void {
    this.#disk.blocks.push(...this.#underWay.splice(0, this.#dice.upTo(this.#underWay.length + 1)))
    this.#underWay.length = 0
  }

  async *read({ from = 0 }: ReadOptions = {}): AsyncGenerator<StoredBlock> {
    for (const block of [...this.#disk.blocks]) {
      if (block.position < from) continue
      if (this.#dice.chance(0.2)) await this.#takesTime()
      if (this.#dead) return never()
      yield block
    }
  }

  async dropBefore(position: Position): Promise<void> {
    this.onAppend()
    await this.#takesTime()
    if (this.#dead) return never()
    const { blocks } = this.#disk
    while (blocks.length > 0 && blocks[0]!.position < position) blocks.shift()
    this.#disk.dropped += 1
  }

  async close(): Promise<void> {
    this.state = 'closed'
  }

  /** Never ends before what was begun earlier. */
  #takesTime(): Promise<void> {
    const now = this.#clock.monotonic()
    this.#writtenAt = Math.max(this.#writtenAt, now + this.#dice.upTo(4))
    return this.#clock.sleep(this.#writtenAt - now)
  }
}
