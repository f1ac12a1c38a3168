/**
 * The log of one shard: a stream, in which a message is a chunk. Each is taken only behind the last one that its writer
 * knows: whatever process thinks that it owns a shard, only the last claim, a message too, can write. The last message
 * says whose the shard is.
 */
import { randomUUID } from 'node:crypto'
import type { StoredMsg } from '@nats-io/jetstream'
import type { ShardLog } from '../runtime/cluster/cluster-store.ts'
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
import { systemClock } from '../shared/clock.ts'
import { type DramatisError, describe, LogCorruptError, LogHeldError, LogLostError } from '../shared/errors.ts'
import { unlessAborted } from '../shared/on-abort.ts'
import { type Brokers, MESSAGE_BYTES } from './brokers.ts'
import { CheckpointParts, type NamedCheckpoint, PART } from './checkpoint-parts.ts'
import type { HeldShard, Members, Owner } from './members.ts'

/** A position is the number of a message, the first one of a chunk in parts, and that of a block in it. */
const BLOCKS = 4_096
const READS_AT_ONCE = 32
const READ_TRIES = 40
const PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000
/** Times `ttlMs` after which a write that waits is told to who operates it. */
export const STUCK = 3
/** Time that a checkpoint may wait for the brokers when it is whole. */
const SHOW_MS = 10_000

export class JetStreamLog implements ShardLog {
  readonly shard: number
  readonly #brokers: Brokers
  readonly #members: Members
  readonly #onLost: (error: DramatisError) => void
  readonly #stream: string
  readonly #subject: string
  state: LogState = 'new'
  lost: number | undefined
  bytes = 0
  readonly segmentBytes = 2 ** 23
  /** So many bytes are read when the shard is taken from a process that died, and the checkpoint. */
  readonly checkpointBytes = 2 ** 22
  /** Number of the first task that it has not been asked for yet, and under which connection that was so. */
  nextTask = 1
  taken = 0
  #incarnation = 0
  #first = 1
  /** Number of the last message. */
  #last = 0
  #end: LogEnd = { lastSeq: 0, carried: 0 }
  #waiting: WaitingBlock[] = []
  readonly #parts: CheckpointParts
  /** The checkpoint that each message names from now on. */
  #checkpoint: NamedCheckpoint | undefined
  /** Messages without blocks that are to be written: what changes with them, and who waits for that. */
  #says: { readonly change: () => void; resolve(): void; reject(error: DramatisError): void }[] = []
  #work: Promise<void> | undefined
  #failure: DramatisError | undefined
  #isClosing = false

  constructor(brokers: Brokers, members: Members, shard: number, onLost: (error: DramatisError) => void) {
    this.#brokers = brokers
    this.#members = members
    this.shard = shard
    this.#onLost = onLost
    this.#stream = brokers.streamOf(`log_${shard}`)
    this.#subject = brokers.subjectOf('log', shard)
    this.#parts = new CheckpointParts(brokers, shard)
  }

  /** As its owner tells it to others. */
  get held(): HeldShard {
    return { shard: this.shard, incarnation: this.#incarnation, last: this.#last, bytes: this.bytes }
  }

  async open(signal?: AbortSignal): Promise<OpenedLog> {
    const config = { subjects: [this.#subject], deny_delete: true, max_msg_size: 2 ** 20 }
    const { state } = await this.#brokers.stream(this.#stream, config, signal)
    let rival: number | undefined
    for (;;) {
      signal?.throwIfAborted()
      const last = await this.#brokers.message(this.#stream, { last_by_subj: this.#subject })
      if (!last && state.last_seq > 0) throw new Error(`stream ${this.#stream} has a leader that is behind`)
      const before = claimIn(last)
      const { owner } = before
      if (owner && (before.incarnation === rival || !(await this.#members.isFree(this.shard, last?.seq ?? 0, owner))))
        throw heldBy(this.shard, owner)
      ;[this.#first, this.#last] = [Math.max(1, state.first_seq), last?.seq ?? 0]
      const known = this.#members.known.get(this.shard)
      const isShorter = known !== undefined && known.last > this.#last
      this.#incarnation = Math.max(before.incarnation, isShorter ? known.incarnation : 0) + 1
      this.#end = { lastSeq: before.lastSeq, carried: 0 }
      const { checkpoint, first } = before
      if (first > 0 && this.#first > first) throw this.#damaged(first, 'is not there, though nobody has dropped it')
      this.#checkpoint = checkpoint && messageOf(checkpoint.position) >= this.#first ? checkpoint : undefined
      if (await this.#put(new Uint8Array(), this.#end, { signal })) {
        this.bytes = state.bytes
        this.lost = isShorter ? Math.max(0, known.bytes - state.bytes) : undefined
        this.state = 'open'
        this.#members.beat() // others need not wait to hear whose it is
        const opened = { incarnation: this.#incarnation, lastSeq: before.lastSeq, cut: undefined }
        return this.#checkpoint ? { ...opened, checkpoint: this.#parts.checkpoint(this.#checkpoint) } : opened
      }
      if (owner?.id !== this.#members.self.id) rival = before.incarnation // if it writes on, it lives
    }
  }

  append(block: Block): Promise<Position> {
    return new Promise((resolve, reject) => {
      if (this.state !== 'open' || this.#isClosing)
        return reject(this.#failure ?? new LogLostError('the log is not open', {}))
      this.#waiting.push({ block, resolve, reject })
      this.#begin()
    })
  }

  /** Gives up others that were there before, when this one is named: so none of a later owner. */
  async checkpoint(position: Position, _lastSeq: number, pieces: AsyncIterable<Uint8Array>): Promise<Checkpoint> {
    const others = await this.#parts.names()
    const checkpoint = await this.#parts.write(position, pieces)
    const shown = this.#say(() => {
      this.#checkpoint = checkpoint
    })
    await unlessAborted(AbortSignal.timeout(SHOW_MS), shown)
    await this.#parts.forget(others)
    return this.#parts.checkpoint(checkpoint)
  }

  async sync(): Promise<void> {
    await this.#work
    if (this.#failure) throw this.#failure
  }

  /** Looks whether somebody has claimed the shard, which is told. Who writes finds out by that. */
  async compare(): Promise<void> {
    const next = await this.#messageAt(this.#last + 1).catch(() => undefined)
    if (!next || this.#work || this.state !== 'open') return
    if (next.header.get(INCARNATION) !== String(this.#incarnation)) this.#lose(this.#taken())
  }

  /** Yields the blocks of a log that somebody else has, as far as it goes now. */
  async *look(): AsyncGenerator<StoredBlock> {
    const { state } = (await this.#brokers.stateOf(this.#stream)) ?? {}
    if (!state) return
    ;[this.#first, this.#last] = [Math.max(1, state.first_seq), state.last_seq]
    yield* this.read()
  }

  async *read(options: ReadOptions = {}): AsyncGenerator<StoredBlock> {
    const { from = 0, signal } = options
    const until = this.#last
    let next = Math.max(this.#first, messageOf(from))
    const ahead: Promise<StoredMsg | undefined>[] = []
    let parts: StoredMsg[] = []
    for (let seq = next, atOnce = 1; seq <= until; seq++, atOnce = Math.min(2 * atOnce, READS_AT_ONCE)) {
      signal?.throwIfAborted() // who looks at the first block alone need not get many
      while (ahead.length < atOnce && next <= until) {
        const message = this.#insistOn(next++)
        message.catch(() => {}) // its turn comes
        ahead.push(message)
      }
      const message = await ahead.shift()
      if (!message) continue
      parts = parts.filter((part) => part.header.get(INCARNATION) === message.header.get(INCARNATION)) // others are void
      parts.push(message)
      if (message.header.has(PART)) continue
      const bytes = Buffer.concat(parts.map(({ data }) => data))
      const [first] = parts
      const positionOf = (_: number, index: number) => first!.seq * BLOCKS + index
      parts = []
      yield* blocksIn(bytes, options, positionOf, (at) => this.#damaged(seq, `is damaged at byte ${at}`))
    }
  }

  /**
   * Purges below the message of that position, so the last one stays: it says whose the shard is. The new begin is
   * noted before. So the owner alone purges, and messages that are gone without a note are missed.
   */
  async dropBefore(position: Position): Promise<void> {
    const seq = messageOf(position)
    if (seq <= this.#first) return // a purge below number 1 would be one of all
    await this.#say(() => {
      this.#first = seq
    })
    await this.#brokers.patiently(() => this.#brokers.purge(this.#stream, { seq }))
    const { state } = (await this.#brokers.patiently(() => this.#brokers.stateOf(this.#stream))) ?? {}
    this.bytes = Math.min(this.bytes, state?.bytes ?? this.bytes)
  }

  async close(): Promise<void> {
    if (this.state === 'new') this.state = 'closed'
    if (this.#isClosing) return this.#work
    this.#isClosing = true
    await this.#work
    if (this.state !== 'open') return
    this.#work = this.#put(new Uint8Array(), this.#end, { isFree: true }).then(
      () => {},
      () => {}, // this process's death frees it too
    )
    await this.#work
    this.state = 'closed'
    this.#members.beat()
  }

  #begin(): void {
    this.#work ??= Promise.resolve().then(() => this.#writeAll())
  }

  async #writeAll(): Promise<void> {
    try {
      while (!this.#failure && (this.#waiting.length > 0 || this.#says.length > 0)) {
        if (this.#says.length > 0) await this.#sayNext()
        else await this.#writeNext()
      }
    } catch (error) {
      this.#lose(error)
    } finally {
      this.#work = undefined
    }
  }

  async #writeNext(): Promise<void> {
    const group = nextGroup(this.#waiting.slice(0, BLOCKS), MESSAGE_BYTES)
    const { bytes, end } = chunkOf(group, this.#incarnation, 0, this.#end)
    const first = this.#last + 1
    for (let from = 0; from < bytes.length; from += MESSAGE_BYTES) {
      const isPart = from + MESSAGE_BYTES < bytes.length
      const is = await this.#put(bytes.subarray(from, from + MESSAGE_BYTES), isPart ? this.#end : end, { isPart })
      if (!is) throw this.#taken()
    }
    this.bytes += bytes.length
    this.#end = end
    this.#waiting.splice(0, group.length)
    for (const [index, { resolve }] of group.entries()) resolve(first * BLOCKS + index)
  }

  /** Changes what each message says from now on. Resolves when one has said it. */
  #say(change: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.state !== 'open' || this.#isClosing)
        return reject(this.#failure ?? new LogLostError('the log is not open', {}))
      this.#says.push({ change, resolve, reject })
      this.#begin()
    })
  }

  async #sayNext(): Promise<void> {
    const { change, resolve } = this.#says[0]!
    change()
    if (!(await this.#put(new Uint8Array(), this.#end))) throw this.#taken()
    this.#says.shift()
    resolve()
  }

  /**
   * Writes behind the last message, and resolves to false if another one stands there. It is sent again with the same
   * condition until that is known, so it is written once.
   */
  async #put(
    data: Uint8Array,
    { lastSeq }: LogEnd,
    { isPart, isFree, signal }: { isPart?: boolean; isFree?: boolean; signal?: AbortSignal | undefined } = {},
  ): Promise<boolean> {
    const nonce = randomUUID()
    const headers = {
      [INCARNATION]: String(this.#incarnation),
      [OWNER]: isFree ? '' : JSON.stringify(this.#members.self),
      [LAST_SEQ]: String(lastSeq),
      [NONCE]: nonce,
      [FIRST]: String(this.#first),
      ...(this.#checkpoint && { [CHECKPOINT]: JSON.stringify(this.#checkpoint) }),
      ...(isPart && { [PART]: '1' }),
    }
    const { ttlMs } = this.#members.times
    const began = systemClock.monotonic()
    let [shorterAt, isTold] = [Number.POSITIVE_INFINITY, false]
    for (let pause = PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      signal?.throwIfAborted()
      try {
        const number = await this.#brokers.put(this.#subject, data, headers, { last: this.#last })
        if (number !== undefined && number !== this.#last + 1)
          throw new LogLostError(`the brokers took ${number} behind ${this.#last}: no condition holds there`, {})
        const there = number ? nonce : (await this.#messageAt(this.#last + 1))?.header.get(NONCE)
        if (there === nonce) break
        if (there !== undefined) return false
        const left = (await this.#brokers.stateOf(this.#stream))?.state.last_seq ?? 0
        shorterAt = left < this.#last ? Math.min(shorterAt, systemClock.monotonic()) : Number.POSITIVE_INFINITY
        if (systemClock.monotonic() - shorterAt > ttlMs)
          // a broker that has just begun to lead may be behind
          throw this.#cutTo(left)
      } catch (error) {
        if (error instanceof LogLostError) throw error
        if (this.#isClosing) throw new LogLostError('it was closed while the brokers were away', {}, error)
        if (await this.#brokers.hasLost(this.#stream, STUCK * ttlMs).catch(() => false)) throw this.#cutTo(0)
      }
      if (!isTold && systemClock.monotonic() - began > STUCK * ttlMs) {
        isTold = true
        await this.#warnOfStall(STUCK * ttlMs)
      }
      await systemClock.sleep(pause, signal)
    }
    this.#last += 1
    return true
  }

  async #warnOfStall(ms: number): Promise<void> {
    const info = await this.#brokers.stateOf(this.#stream).catch(() => undefined)
    this.#brokers.options.warn(
      `an append to shard ${this.shard} has waited for ${ms / 1_000} s: stream ${this.#stream} is led by ${info?.cluster?.leader ?? 'nobody who answers'}. Let another broker lead it: nats stream cluster step-down`,
    )
  }

  #messageAt(seq: number): Promise<StoredMsg | undefined> {
    return this.#brokers.message(this.#stream, { seq })
  }

  /** A message that has been there; nothing if it was dropped meanwhile. */
  async #insistOn(seq: number): Promise<StoredMsg | undefined> {
    for (let tries = 0; tries < READ_TRIES; tries++) {
      const message = await this.#brokers.patiently(() => this.#messageAt(seq))
      if (!message && this.state === 'new')
        this.#first = (await this.#brokers.stateOf(this.#stream))?.state.first_seq ?? seq + 1
      if (message || seq < this.#first) return message
      await systemClock.sleep(PAUSE_MS) // a broker that led before answers, and is behind
    }
    throw this.#damaged(seq, 'is not there')
  }

  #taken(): LogLostError {
    return new LogLostError(`shard ${this.shard} was taken by another process`, { shard: this.shard })
  }

  #cutTo(left: number): LogLostError {
    return new LogLostError(`the brokers have lost acknowledged entries: they have ${left} of ${this.#last}`, {})
  }

  #damaged(seq: number, how: string): LogCorruptError {
    return new LogCorruptError(`message ${seq} of stream ${this.#stream} ${how}`, { offset: seq * BLOCKS })
  }

  #lose(error: unknown): void {
    this.#failure ??=
      error instanceof LogLostError
        ? error
        : new LogLostError(`the log of shard ${this.shard} is lost: ${describe(error)}`, {}, error)
    this.state = 'lost'
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
    for (const { reject } of this.#says.splice(0)) reject(this.#failure)
    if (!this.#isClosing) this.#onLost(this.#failure)
  }
}

const [INCARNATION, OWNER, LAST_SEQ] = ['Incarnation', 'Owner', 'Last-Seq'] as const
const [NONCE, CHECKPOINT, FIRST] = ['Nonce', 'Checkpoint', 'First'] as const

/** Number of the message in which a block stands. */
const messageOf = (position: Position) => Math.floor(position / BLOCKS)

interface Claim {
  readonly incarnation: number
  readonly lastSeq: number
  readonly owner: Owner | undefined
  readonly checkpoint: NamedCheckpoint | undefined
  /** Number of the first message that has not been dropped; 0 where that is not known. */
  readonly first: number
}

/** Reads the last message of a shard. */
export function claimIn(message: StoredMsg | undefined): Claim {
  if (!message) return { incarnation: 0, lastSeq: 0, owner: undefined, checkpoint: undefined, first: 0 }
  const { header, seq } = message
  if (!header.has(INCARNATION))
    throw new LogCorruptError(`message ${seq} of a shard's stream is none of its owner`, { offset: seq * BLOCKS })
  const [owner, checkpoint] = [header.get(OWNER), header.get(CHECKPOINT)]
  return {
    incarnation: Number(header.get(INCARNATION)),
    lastSeq: Number(header.get(LAST_SEQ)),
    owner: owner === '' ? undefined : (JSON.parse(owner) as Owner),
    first: Number(header.get(FIRST)),
    checkpoint: checkpoint === '' ? undefined : (JSON.parse(checkpoint) as NamedCheckpoint),
  }
}

function heldBy(shard: number, { pid, host }: Owner): LogHeldError {
  return new LogHeldError(`shard ${shard} is held by process ${pid} on ${host}`, { pid, host })
}
