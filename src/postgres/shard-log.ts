/**
 * The log of one shard. An append is one statement that writes only if the shard's last claim is this one's and the log
 * ends where this one believes: whatever process thinks that it owns a shard, only the last claim can write.
 */
import { randomUUID } from 'node:crypto'
import type { ShardLog } from '../runtime/cluster/cluster-store.ts'
import { blockLength } from '../runtime/store/block-format.ts'
import { blocksIn, chunkOf, type LogEnd, nextGroup, type WaitingBlock } from '../runtime/store/chunks.ts'
import type {
  Block,
  Checkpoint,
  LogState,
  OpenedLog,
  Position,
  ReadOptions,
  StoredBlock,
} from '../runtime/store/log-files.ts'
import { type DramatisError, describe, LogCorruptError, LogHeldError, LogLostError } from '../shared/errors.ts'
import { checkpointAt, writeCheckpoint } from './checkpoint-rows.ts'
import { type Database, isPassing } from './database.ts'
import { LOCK_CLASS } from './schema.ts'
import type { Chunk, Writes } from './writes.ts'

/** Bytes of one chunk, about: blocks that wait for the write before go out together. */
const CHUNK_BYTES = 2 ** 20
/** Bytes of its last chunks that an owner keeps, to write them again where a failover has lost them. */
const KEPT_BYTES = 2 ** 18
const CHUNKS_A_READ = 32

/** True for a member `m` that seems to live. $3: suspectMs, $4: ttlMs */
export const LIVES = `(m.seen > clock_timestamp() - $3 * interval '1 ms' or m.seen > clock_timestamp() - $4 * interval '1 ms'
  and exists (select from pg_locks l
    where l.locktype = 'advisory' and l.classid = ${LOCK_CLASS} and l.objid = m.serial and l.granted))`

/**
 * Takes what nobody holds, what stands in the own name, and, but in the grace after a failover, what the dead hold. The
 * end of a log is doubtful if nobody who lived has compared it with what was acknowledged before the failover. It stays
 * so until its owner, who has seen to it, asks for tasks.
 */
const CLAIM = `with before as (
    select *, $9 and timeline < $7 and not coalesce(
        (select sync from dramatis.epoch e where e.cluster = $1 and e.timeline = s.timeline), false) as doubtful
    from dramatis.shard s where cluster = $1 and shard = $2 and (owner is null or owner = $5 or
      not exists (select from dramatis.member m where m.id = s.owner and ${LIVES})
      and not exists (select from dramatis.epoch e where e.cluster = $1 and e.at > clock_timestamp() - $8 * interval '1 ms'
        and exists (select from dramatis.epoch o where o.cluster = $1 and o.timeline < e.timeline)))
    for update)
  update dramatis.shard s
  set incarnation = s.incarnation + 1, claim = $6, owner = $5,
    timeline = case when doubtful then s.timeline else $7 end, cut = case when doubtful then $7 else s.cut end
  from before where s.cluster = before.cluster and s.shard = before.shard
  returning s.incarnation, s.position::float8, s.first::float8, s.last_seq::float8 as "lastSeq",
    before.claim as before, before.doubtful, s.high::float8, s.checkpoint, s.checkpoint_at::float8 as "checkpointAt"`

const DROP = `with cut as (
    select max(position) as at from dramatis.chunk where cluster = $1 and shard = $2 and position <= $3),
  gone as (
    delete from dramatis.chunk c using cut where c.cluster = $1 and c.shard = $2 and c.position < cut.at
      and exists (select from dramatis.shard s where s.cluster = $1 and s.shard = $2 and s.claim = $4))
  update dramatis.shard s set first = cut.at, checkpoint = case when checkpoint_at >= cut.at then checkpoint end from cut
  where s.cluster = $1 and s.shard = $2 and s.claim = $4 and cut.at is not null returning s.first::float8`

export class PostgresLog implements ShardLog {
  readonly shard: number
  readonly #database: Database
  readonly #writes: Writes
  readonly #onLost: (error: DramatisError) => void
  /** The fence. */
  readonly claim = randomUUID()
  /** Tasks of the last answer of `take`, which is to be marked with the next one. */
  given: readonly string[] = []
  lost: number | undefined
  #claimBefore: string | undefined
  state: LogState = 'new'
  readonly segmentBytes = 2 ** 23
  /** So many bytes are read when the shard is taken from a process that died, and the checkpoint. */
  readonly checkpointBytes = 2 ** 22
  #incarnation = 0
  #first = 0
  /** End of the log when this one claimed it. */
  #claimedAt = 0
  #end = 0
  #logEnd: LogEnd = { lastSeq: 0, carried: 0 }
  #waiting: WaitingBlock[] = []
  /** Those who wait until the log has been compared with the primary that there is now. */
  #comparisons: (() => void)[] = []
  #work: Promise<void> | undefined
  #last: Chunk[] = []
  #failure: DramatisError | undefined
  #isClosing = false

  constructor(database: Database, writes: Writes, shard: number, onLost: (error: DramatisError) => void) {
    this.#database = database
    this.#writes = writes
    this.shard = shard
    this.#onLost = onLost
  }

  get bytes(): number {
    return this.#end - this.#first
  }

  async open(signal?: AbortSignal): Promise<OpenedLog> {
    signal?.throwIfAborted()
    const { id, options, timeline, isLater } = this.#database
    const { suspectMs, ttlMs, graceMs } = options.times
    const values = [...this.#key, suspectMs, ttlMs, id, this.claim, timeline, graceMs, isLater]
    const { rows } = await this.#database.query<Claimed>(CLAIM, values)
    const [row] = rows
    if (!row) throw await this.#held()
    this.#incarnation = row.incarnation
    this.#claimBefore = row.before ?? undefined
    ;[this.#claimedAt, this.#end, this.#first] = [row.position, row.position, row.first]
    this.#logEnd = { lastSeq: row.lastSeq, carried: 0 }
    this.state = 'open'
    this.lost = row.doubtful ? Math.max(0, row.high - row.position) : undefined
    const { incarnation, lastSeq, checkpoint, checkpointAt: at } = row
    return {
      incarnation,
      lastSeq,
      cut: undefined,
      ...(checkpoint && at !== null && { checkpoint: checkpointAt(this.#asking, this.#key, checkpoint, at) }),
    }
  }

  append(block: Block): Promise<Position> {
    return new Promise((resolve, reject) => {
      if (this.state !== 'open') return reject(this.#failure ?? new LogLostError('the log is not open', {}))
      this.#waiting.push({ block, resolve, reject })
      this.#begin()
    })
  }

  async sync(): Promise<void> {
    await this.#work
    if (this.#failure) throw this.#failure
  }

  /**
   * Compares the log with what this process remembers, and writes again what a failover has lost. If somebody else has
   * claimed the shard, that is told.
   */
  async compare(): Promise<void> {
    if (this.state !== 'open') return
    await new Promise<void>((resolve) => {
      this.#comparisons.push(resolve)
      this.#begin()
    })
  }

  read(options: ReadOptions = {}): AsyncGenerator<StoredBlock> {
    return readChunks(this.#asking, this.#key, { first: () => this.#first, until: this.#end }, options)
  }

  async dropBefore(position: Position): Promise<void> {
    const { rows } = await this.#insist<{ first: number }>(DROP, [...this.#key, position, this.claim])
    this.#first = rows[0]?.first ?? this.#first
  }

  checkpoint(position: Position, _lastSeq: number, pieces: AsyncIterable<Uint8Array>): Promise<Checkpoint> {
    return writeCheckpoint({ key: this.#key, claim: this.claim, ask: this.#asking }, position, pieces)
  }

  async close(): Promise<void> {
    if (this.state === 'new' || this.state === 'closed') {
      this.state = 'closed'
      return
    }
    this.#isClosing = true
    await this.#work
    if (this.state !== 'open') return
    this.state = 'closed'
    const text = 'update dramatis.shard set owner = null where cluster = $1 and shard = $2 and claim = $3'
    await this.#query(text, [...this.#key, this.claim]).catch(() => {}) // this process's death frees it too
  }

  get #key(): [string, number] {
    return [this.#database.cluster, this.shard]
  }

  #query<Row extends object = object>(text: string, values: readonly unknown[]) {
    return this.#database.query<Row & Record<string, unknown>>(text, values)
  }

  /** Asks for what may be asked again. */
  #insist<Row extends object = object>(text: string, values: readonly unknown[]) {
    return this.#patiently(() => this.#query<Row>(text, values))
  }

  readonly #asking = <Row extends object>(text: string, values: readonly unknown[]) => this.#insist<Row>(text, values)

  #begin(): void {
    this.#work ??= Promise.resolve().then(() => this.#writeAll())
  }

  async #writeAll(): Promise<void> {
    try {
      while (!this.#failure && (this.#waiting.length > 0 || this.#comparisons.length > 0)) {
        const told = this.#comparisons.length
        if (told > 0) await this.#patiently(() => this.#mend())
        for (const resolve of this.#comparisons.splice(0, told)) resolve()
        if (this.#waiting.length > 0) await this.#writeNext()
      }
    } catch (error) {
      this.#lose(error)
    } finally {
      this.#work = undefined
    }
  }

  /** Blocks that wait go out together, also those that come until the process's next statement begins. */
  async #writeNext(): Promise<void> {
    let group: readonly WaitingBlock[] = []
    let end = this.#logEnd
    let chunk: Chunk | undefined
    const made = () => {
      if (chunk) return chunk
      group = nextGroup(this.#waiting, CHUNK_BYTES)
      const { bytes, end: after } = chunkOf(group, this.#incarnation, this.#end, this.#logEnd)
      end = after
      chunk = { position: this.#end, bytes, lastSeq: after.lastSeq }
      return chunk
    }
    await this.#patiently(() => this.#write(made))
    this.#remember(made())
    this.#waiting.splice(0, group.length)
    for (const { block, resolve } of group) {
      resolve(this.#end)
      this.#end += blockLength(block)
    }
    this.#logEnd = end
  }

  #remember(chunk: Chunk): void {
    this.#last.push(chunk)
    let bytes = this.#last.reduce((sum, each) => sum + each.bytes.length, 0)
    while (bytes > KEPT_BYTES && this.#last.length > 1) bytes -= this.#last.shift()!.bytes.length
  }

  #send(chunk: () => Chunk): Promise<boolean> {
    return this.#writes.append(this.shard, this.claim, chunk)
  }

  /** The condition lets it in once, so a try whose answer was lost is no harm. */
  async #write(chunk: () => Chunk): Promise<void> {
    while (!(await this.#send(chunk))) {
      if (await this.#isThere(chunk())) return
      await this.#mend()
    }
  }

  /** True if an earlier try was written. It was read, so a standby may not have it yet: a write behind it says so. */
  async #isThere({ position, bytes }: Chunk): Promise<boolean> {
    const text =
      'select claim, length(bytes) as length from dramatis.chunk where cluster = $1 and shard = $2 and position = $3'
    const { rows } = await this.#query<{ claim: string; length: number }>(text, [...this.#key, position])
    if (rows[0]?.claim !== this.claim || rows[0].length !== bytes.length) return false
    const confirm = 'update dramatis.shard set last_seq = last_seq where cluster = $1 and shard = $2 and claim = $3'
    return (await this.#query(confirm, [...this.#key, this.claim])).rowCount === 1
  }

  /** Brings the database to where this owner had it. @throws LogLostError where somebody else has claimed the shard */
  async #mend(): Promise<void> {
    const row = await this.#ownRow()
    const from = this.#last.findIndex(({ position }) => position === row.position)
    if (row.position < this.#end) {
      if (from < 0)
        throw new LogLostError(
          `the database has lost acknowledged entries: it has ${row.position} of ${this.#end} bytes`,
          {},
        )
      for (const chunk of this.#last.slice(from))
        if (!(await this.#send(() => chunk))) throw Object.assign(new Error('changed meanwhile'), { code: '40001' })
    }
    const { timeline, id } = this.#database
    this.given = []
    await this.#query(COMPARED, [...this.#key, this.claim, timeline, id])
  }

  /**
   * The shard's row. If the claim itself was lost, it is put again, unless somebody has claimed the shard since, or the
   * owner before this one, who lives on, has written behind the claim.
   */
  async #ownRow(): Promise<{ position: number }> {
    const text = 'select claim, incarnation, position::float8 from dramatis.shard where cluster = $1 and shard = $2'
    const { rows } = await this.#query<{ claim: string; incarnation: number; position: number }>(text, this.#key)
    const [row] = rows
    if (row?.claim === this.claim) return row
    if (row && row.claim === (this.#claimBefore ?? null) && row.position === this.#claimedAt) {
      const again = `update dramatis.shard set claim = $3, incarnation = $4, owner = $5
        where cluster = $1 and shard = $2 and claim is not distinct from $6 and position = $7`
      const before = this.#claimBefore ?? null
      const values = [...this.#key, this.claim, this.#incarnation, this.#database.id, before, this.#claimedAt]
      if ((await this.#query(again, values)).rowCount === 1) return row
    }
    throw new LogLostError(
      `shard ${this.shard} was taken by another process: incarnation ${row?.incarnation} after ${this.#incarnation}`,
      { shard: this.shard },
    )
  }

  /** Waits while the database is away. A log that is being closed waits no longer. */
  #patiently<T>(act: () => Promise<T>): Promise<T> {
    return this.#database.patiently(async () => {
      try {
        return await act()
      } catch (error) {
        if (this.#isClosing && isPassing(error))
          throw new LogLostError('it was closed while the database was away', {}, error)
        throw error
      }
    })
  }

  #lose(error: unknown): void {
    this.#failure ??=
      error instanceof LogLostError
        ? error
        : new LogLostError(`the log of shard ${this.shard} is lost: ${describe(error)}`, {}, error)
    this.state = 'lost'
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
    for (const resolve of this.#comparisons.splice(0)) resolve()
    if (!this.#isClosing) this.#onLost(this.#failure)
  }

  async #held(): Promise<LogHeldError> {
    const text = `select m.host, m.pid, m.address from dramatis.shard s join dramatis.member m on m.id = s.owner
      where s.cluster = $1 and s.shard = $2`
    const { rows } = await this.#query<{ host: string; pid: number }>(text, this.#key)
    const { pid, host } = rows[0] ?? {}
    return new LogHeldError(`shard ${this.shard} is held by process ${pid} on ${host}`, { pid, host })
  }
}

type Ask = <Row extends object>(text: string, values: readonly unknown[]) => Promise<{ rows: Row[] }>

/** Yields the blocks of a shard. `first`: the begin of its log, which its owner may give up while it is read. */
export async function* readChunks(
  ask: Ask,
  key: readonly [cluster: string, shard: number],
  { first, until }: { first(): number; until: number },
  options: ReadOptions,
): AsyncGenerator<StoredBlock> {
  const { from = 0, signal } = options
  const damaged = (offset: Position) =>
    new LogCorruptError(`the log of shard ${key[1]} is damaged at byte ${offset}`, { offset })
  const begin = await ask<{ at: number | null }>(BEGIN, [...key, from])
  let next = begin.rows[0]?.at ?? from
  for (let limit = 1; next < until; limit = Math.min(2 * limit, CHUNKS_A_READ)) {
    signal?.throwIfAborted() // who looks at the first block alone need not get many
    const { rows } = await ask<{ position: number; bytes: Buffer }>(CHUNKS, [...key, next, limit])
    if (rows.length === 0) return
    for (const { position, bytes } of rows) {
      if (position !== next && position > first()) throw damaged(next)
      const place = (at: number) => position + at
      yield* blocksIn(bytes, options, place, (at) => damaged(place(at)))
      next = position + bytes.length
    }
  }
}

const BEGIN =
  'select max(position)::float8 as at from dramatis.chunk where cluster = $1 and shard = $2 and position <= $3'

/** Outcomes may be gone of which the log knows: all that is open is given again, and ends as the log has it. */
const COMPARED = `with again as (
    update dramatis.task set given = null where cluster = $1 and shard = $2 and given = $3 and settled is null)
  update dramatis.shard set timeline = $4, high = 0, owner = $5 where cluster = $1 and shard = $2 and claim = $3`

const CHUNKS = `select position::float8, bytes from dramatis.chunk
  where cluster = $1 and shard = $2 and position >= $3 order by position limit $4`

interface Claimed {
  readonly [column: string]: unknown
  readonly incarnation: number
  readonly position: number
  readonly first: number
  readonly lastSeq: number
  /** The claim before this one. */
  readonly before: string | null
  readonly doubtful: boolean
  readonly high: number
  readonly checkpoint: string | null
  readonly checkpointAt: number | null
}
