/** The interface of a durable log: blocks that are appended in order, and read again after the process has died. */

/**
 * Place of a block in a log. Positions ascend with the blocks; nothing else may be concluded from their value.
 */
export type Position = number

/** Entries that are in the log together or not at all. */
export interface Block {
  /** Number of its first and its last entry. Blocks follow each other without a gap, except for carried ones. */
  firstSeq: number
  lastSeq: number
  /** Repeats entries of older segments, under their old numbers. */
  carried: boolean
  /** Indices of the runs that have entries here. */
  runs: readonly number[]
  /** The store does not look into them. */
  entries: Uint8Array
}

export interface StoredBlock extends Block {
  position: Position
  /** Number of the `open` under which the block was written. */
  incarnation: number
}

/** Note of the log's user about all blocks up to one: with it they need not be read again. */
export interface Checkpoint {
  /** Position of the last of these blocks. */
  readonly position: Position
  /** Yields the pieces that it was made of. Throws where they are damaged. */
  read(): AsyncIterable<Uint8Array>
}

export interface OpenedLog {
  /** Above that of every process that had this log before. */
  incarnation: number
  /** Number of the last entry, 0 in an empty log. */
  lastSeq: number
  /** True if the process before had the log until it ended by itself: by `process.exit`, or by an uncaught error. */
  ended?: boolean
  /** The last checkpoint, if the store has one that is whole and belongs to its blocks. */
  checkpoint?: Checkpoint
  /** Why a checkpoint that is there cannot be used. */
  checkpointUnusable?: string
  /** Unfinished block at the end, left by a process or a machine that died: it was cut off. */
  cut: { position: Position; bytes: number } | undefined
}

export interface ReadOptions {
  /** Position of a block: leaves out the blocks before. */
  from?: Position
  /** Leaves out blocks in which none of these runs has a part. */
  runs?: ReadonlySet<number>
  signal?: AbortSignal
}

/**
 * `full`: the disk has no room, appends wait and are tried again. `lost`: nothing can be appended any more; what stands
 * in the log stays readable.
 */
export type LogState = 'new' | 'open' | 'full' | 'lost' | 'closed'

/** Keeps the log of a team. All implementations pass one contract suite. */
export interface LogStore {
  readonly state: LogState
  /** Size of what is kept. */
  readonly bytes: number
  /** Number of the files of a log, and the time at which the first of them was begun, in epoch ms. */
  readonly segments?: { readonly count: number; readonly since: number } | undefined
  /** Size of the pieces, about, in which `dropBefore` gives up space. Default: 64 MiB. */
  readonly segmentBytes?: number
  /** Bytes that are appended between two checkpoints, about. Default: 16 MiB. */
  readonly checkpointBytes?: number
  /**
   * Takes the log for this process and checks it: all of it, or what stands behind its checkpoint.
   *
   * @throws LogHeldError, LogCorruptError, LogVersionError, LogLostError
   */
  open(signal?: AbortSignal): Promise<OpenedLog>
  /**
   * Appends behind all earlier blocks. Resolves when the block survives the death of the process; waits while the store
   * is full. Rejects with `LogLostError` when this or an earlier block could not be written. The bytes of its entries
   * are the store's until then; the caller writes over them afterwards.
   */
  append(block: Block): Promise<Position>
  /**
   * Resolves when all blocks that were written before the call survive the death of the machine. A failure is final:
   * nobody knows what the disk has.
   */
  sync(): Promise<void>
  /** The blocks in their order, checked: throws `LogCorruptError` where one is damaged. */
  read(options?: ReadOptions): AsyncIterable<StoredBlock>
  /** Gives up space that lies wholly before a position. The caller has carried on what is still needed. */
  dropBefore(position: Position): Promise<void>
  /**
   * Keeps a checkpoint of all blocks up to that one, in place of the one before, when all of its pieces have come; then
   * it survives the death of the machine. `lastSeq`: number of the last entry that it covers. Optional: the log of a
   * store without checkpoints is read whole at each opening. A store must not give out one that is damaged, or that was
   * made of other blocks.
   */
  checkpoint?(position: Position, lastSeq: number, pieces: AsyncIterable<Uint8Array>): Promise<Checkpoint>
  /** Writes and syncs what was appended, and gives the log free. Blocks that wait for room are refused. */
  close(): Promise<void>
}
