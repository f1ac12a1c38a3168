import type {
  Block,
  LogState,
  LogStore,
  OpenedLog,
  Position,
  ReadOptions,
  StoredBlock,
} from '../../src/runtime/store/log-files.ts'
import { LogHeldError, LogLostError } from '../../src/shared/errors.ts'

/** What outlives the stores that have it, as a folder does. */
export class MemoryDisk {
  readonly blocks: StoredBlock[] = []
  incarnation = 0
  position = 0
  owner: MemoryStore | undefined
}

/** The contract in its shortest form: what the file store must not differ from. */
export class MemoryStore implements LogStore {
  readonly #disk: MemoryDisk
  state: LogState = 'new'

  constructor(disk: MemoryDisk) {
    this.#disk = disk
  }

  get bytes(): number {
    return this.#disk.blocks.reduce((sum, { entries }) => sum + entries.byteLength, 0)
  }

  async open(signal?: AbortSignal): Promise<OpenedLog> {
    signal?.throwIfAborted()
    const { owner, blocks } = this.#disk
    if (owner) throw new LogHeldError('held', { pid: process.pid, host: 'here' })
    this.#disk.owner = this
    this.state = 'open'
    const lastSeq = blocks.findLast(({ carried }) => !carried)?.lastSeq ?? 0
    return { incarnation: ++this.#disk.incarnation, lastSeq, cut: undefined }
  }

  async append(block: Block): Promise<Position> {
    if (this.state !== 'open') throw new LogLostError('the log is not open')
    const position = this.#disk.position++
    const entries = Uint8Array.from(block.entries)
    this.#disk.blocks.push({ ...block, entries, position, incarnation: this.#disk.incarnation })
    return position
  }

  async sync(): Promise<void> {}

  async *read({ from = 0, runs }: ReadOptions = {}): AsyncGenerator<StoredBlock> {
    for (const block of [...this.#disk.blocks])
      if (block.position >= from && (!runs || block.runs.some((run) => runs.has(run)))) yield block
  }

  async dropBefore(position: Position): Promise<void> {
    const { blocks } = this.#disk
    const kept = blocks.filter((block) => block.position >= position)
    blocks.splice(0, blocks.length, ...kept)
  }

  async close(): Promise<void> {
    this.state = 'closed'
    if (this.#disk.owner === this) this.#disk.owner = undefined
  }
}
