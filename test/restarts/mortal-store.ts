/** A log in memory whose writes take time, and whose process can die in the middle of them. */
import { LogLostError } from '../../src/errors.ts'
import type { Block, LogState, LogStore, OpenedLog, Position, StoredBlock } from '../../src/runtime/store/log-store.ts'
import type { SteppedClock } from '../../src/runtime/testing/virtual-clock.ts'
import type { Dice } from '../dice.ts'

/** Blocks that outlive their process. */
export class Disk {
  readonly blocks: StoredBlock[] = []
  incarnation = 0
}

const never = new Promise<never>(() => {})

/** The store of one process. Blocks are on the disk a while after they are appended, in order. */
export class MortalStore implements LogStore {
  readonly #disk: Disk
  readonly #clock: SteppedClock
  readonly #dice: Dice
  /** Appended, but not said to be written yet. */
  readonly #underWay: StoredBlock[] = []
  #writtenAt = 0
  #dead = false
  /** The blocks that were there when the log was taken. */
  found: readonly StoredBlock[] | undefined
  state: LogState = 'new'
  /** Called with each block that is appended. */
  onAppend = () => {}

  constructor(disk: Disk, clock: SteppedClock, dice: Dice) {
    this.#disk = disk
    this.#clock = clock
    this.#dice = dice
  }

  get bytes(): number {
    return this.#disk.blocks.reduce((sum, { entries }) => sum + entries.byteLength, 0)
  }

  async open(): Promise<OpenedLog> {
    await this.#takesTime()
    if (this.#dead) return never
    this.state = 'open'
    this.found = [...this.#disk.blocks]
    return {
      incarnation: ++this.#disk.incarnation,
      lastSeq: this.#disk.blocks.at(-1)?.lastSeq ?? 0,
      cut: undefined,
    }
  }

  async append(block: Block): Promise<Position> {
    if (this.#dead) return never
    if (this.state !== 'open') throw new LogLostError('the log is not open')
    const stored = {
      ...block,
      position: this.#disk.blocks.length + this.#underWay.length,
      incarnation: this.#disk.incarnation,
    }
    this.#underWay.push(stored)
    this.onAppend()
    await this.#takesTime()
    if (this.#dead) return never
    while (this.#underWay.length > 0 && !this.#disk.blocks.includes(stored))
      this.#disk.blocks.push(this.#underWay.shift()!)
    return stored.position
  }

  /** Nothing of this process gets to the disk any more but some of the blocks that were under way. */
  die(): void {
    this.#dead = true
    this.#disk.blocks.push(...this.#underWay.slice(0, this.#dice.upTo(this.#underWay.length + 1)))
  }

  async sync(): Promise<void> {
    await this.#takesTime()
    if (this.#dead) return never
  }

  async *read(): AsyncGenerator<StoredBlock> {
    for (const block of this.found ?? []) {
      if (this.#dice.chance(0.2)) await this.#takesTime()
      if (this.#dead) return never
      yield block
    }
  }

  async dropBefore(): Promise<void> {}

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
