/**
 * Index of the runs that a durable log has: where each one stands, how large it is, and how it ended. A run that ended
 * long ago costs some hundred bytes of memory here, and nothing else.
 */

import { createHash } from 'node:crypto'
import { hashesInMessages } from '../../actors/definition/content.ts'
import { addUsage, NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'
import { type Conversation, historyOf } from '../../actors/model/conversation.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import { hashesOf } from '../../mailbox/stored-parts.ts'
import type { ErrorCode } from '../../shared/errors.ts'
import { callerIn, isKeyed } from '../host/run.ts'
import { type PartEntry, partBytes } from '../log/entry-codec.ts'
import { type SeenBlock, whileMoved } from '../log/read-entries.ts'
import type { HostRecord, RecordOf, Unrecorded } from '../log/records.ts'
import { isLong, isNewer, type ListedRun, listedQuery } from '../runs/run.ts'
import { billionthsOf, MoneySum } from '../settings/money.ts'
import type { KeepSettings } from '../settings/settings.ts'
import type { LogStore, Position } from '../store/log-files.ts'
import { LogTime } from './log-keeper.ts'

/*
 * The parts whose bytes a durable log has, and where they stand. They belong to the team: several runs, conversations
 * and dead letters may refer to the same bytes.
 */

interface Place {
  readonly seq: number
  readonly size: number
  /** Undefined as long as the block is not written. */
  readonly position: Position | undefined
}

/** A part as a checkpoint has it: its hash, and what the index knows of it. */
export type PartRow = readonly [hash: string, seq: number, size: number, position: Position]

export interface Referrers {
  readonly index: { values(): Iterable<Pick<LoggedRun, 'parts'>> }
  readonly conversations: Iterable<{ readonly conversation: Conversation }>
  readonly letters: Iterable<{ readonly letter: DeadLetter }>
}

export class PartIndex {
  readonly #places = new Map<string, Place>()
  #unwritten = 0
  /** Hashes of parts that a record refers to which is not written yet. */
  readonly #asked = new Set<string>()

  get bytes(): number {
    let bytes = 0
    for (const { size } of this.#places.values()) bytes += size
    return bytes
  }

  rows(): PartRow[] {
    const rows: PartRow[] = []
    for (const [hash, { seq, size, position }] of this.#places)
      if (position !== undefined) rows.push([hash, seq, size, position])
    return rows
  }

  restore(rows: readonly PartRow[]): void {
    for (const [hash, seq, size, position] of rows) this.#places.set(hash, { seq, size, position })
  }

  /** Notes that the log has nothing before that position any more. */
  dropped(before: Position): void {
    for (const [hash, { position }] of this.#places)
      if (position !== undefined && position < before) this.#places.delete(hash)
  }

  /** Checks for a part, for who is about to refer to it: it stays until `referred`. */
  has(hash: string): boolean {
    if (!this.#places.has(hash)) return false
    this.#asked.add(hash)
    return true
  }

  /** Notes that the record which refers to a part is among those that the index of runs knows. */
  referred(hash: string): void {
    this.#asked.delete(hash)
  }

  get areComing(): boolean {
    return this.#unwritten > 0
  }

  see({ hash, seq, size }: PartEntry): void {
    this.#places.set(hash, { seq, size, position: undefined })
    this.#unwritten += 1
  }

  /** Notes where a block stands that has these parts. */
  at(position: Position, parts: Iterable<PartEntry>): void {
    for (const { hash, seq, size } of parts) {
      const place = this.#places.get(hash)
      if (place && place.position === undefined) this.#unwritten -= 1
      this.#places.set(hash, { seq, size, position })
    }
  }

  /**
   * Returns the numbers of the entries of the parts that something refers to. The log forgets the others: who refers to
   * them later writes them again.
   */
  needed(referrers: Referrers): Set<number> {
    const needed = hashesIn(referrers)
    for (const [hash, { position }] of this.#places)
      if (!needed.has(hash) && !this.#asked.has(hash) && position !== undefined) this.#places.delete(hash)
    return new Set(Array.from(this.#places.values(), ({ seq }) => seq))
  }

  /** Reads parts from the log. Those that it does not have are left out. */
  async read(store: LogStore, hashes: Iterable<string>): Promise<Map<string, Uint8Array>> {
    const found = new Map<string, Uint8Array>()
    for (const hash of hashes) {
      const bytes = found.has(hash) ? undefined : await whileMoved(() => this.#readOne(store, hash))
      if (bytes) found.set(hash, bytes)
    }
    return found
  }

  async #readOne(store: LogStore, hash: string): Promise<Uint8Array | undefined> {
    const from = this.#places.get(hash)?.position
    if (from === undefined) return undefined
    for await (const { entries } of store.read({ from })) return partBytes(entries, hash)
    return undefined
  }
}

/** Returns the hashes of all parts that something refers to. */
export function hashesIn({ index, conversations, letters }: Referrers): Set<string> {
  const hashes = new Set<string>()
  for (const { parts } of index.values()) for (const hash of parts) hashes.add(hash)
  for (const { conversation } of conversations)
    for (const hash of hashesInMessages(historyOf(conversation))) hashes.add(hash)
  for (const { letter } of letters) for (const hash of hashesOf(letter.message.parts ?? [])) hashes.add(hash)
  return hashes
}

export class RunOrder<R extends Pick<ListedRun, 'index' | 'startedAt'>> {
  readonly #runs: R[] = []

  /** Most come in their order, so the place of one is looked for from the end. */
  add(run: R): void {
    this.#runs.splice(this.#runs.findLastIndex((other) => isNewer(run, other)) + 1, 0, run)
  }

  delete(run: R): void {
    const at = this.#runs.indexOf(run)
    if (at >= 0) this.#runs.splice(at, 1)
  }

  get size(): number {
    return this.#runs.length
  }

  /** Yields the runs, the one that started last is first. */
  *newest(): Iterable<R> {
    for (let at = this.#runs.length - 1; at >= 0; at--) yield this.#runs[at]!
  }
}

/** A run as a checkpoint has it. */
export type RunRow = Omit<LoggedRun, 'parts' | 'step' | 'tenant'> & {
  readonly parts: readonly string[]
  /** Checkpoints of older versions do not have it. */
  readonly tenant?: string | null
}

export type EndStatus = 'finished' | 'failed' | 'aborted'

export interface LoggedRun {
  readonly index: number
  readonly id: string
  /** Query of the run as the list has it. */
  readonly query: string
  /** True if the log alone has all of the query. */
  readonly isCut: boolean
  /** Number made from the query: runs of the same query have the same one. */
  readonly queryHash: number
  /** True for the work that a message from outside has caused. */
  readonly own: boolean
  readonly threadId: string | null
  readonly caller: string | null
  readonly tenant: string | null
  /** True if an idempotency key has begun it. */
  readonly isKeyed: boolean
  readonly output: string | undefined
  readonly startedAt: number
  usage: TokenUsage
  /** Cost by model; absent: none. */
  paid?: Readonly<Record<string, number>>
  errorCode: ErrorCode | null
  /** Epoch ms; 0 as long as it has no end. */
  endedAt: number
  /** Time of the log at its end, from which on its age counts. */
  agedFrom: number
  status: EndStatus
  /** False once it has an end and nothing of it is under way any more. */
  open: boolean
  bytes: number
  /** Run before it in its thread, if its entries have copies of what that one said. */
  leansOn: number | undefined
  readonly parts: Set<string>
  /** Bytes of these parts. Those that several runs refer to count for each. */
  partBytes: number
  /** First and last position of each part of the log that has entries of it: two numbers a part. */
  places: Position[]
  /** Step of a compaction that its last entries came from; 0 if they were not carried. */
  step: number
}

/** Stands for the step of entries whose places a checkpoint has: what comes later has places of its own. */
const RESTORED = -2

const DAY_MS = 86_400_000
const KEYS = 1_000

export class RunIndex {
  readonly #byIndex = new Map<number, LoggedRun>()
  readonly #byId = new Map<string, LoggedRun>()
  readonly #order = new RunOrder<LoggedRun>()
  readonly #ofCallers = new Map<string, RunOrder<LoggedRun>>()
  /** Runs that are over, the one that ended first is first. */
  readonly #over = new Set<LoggedRun>()
  /** Ends of forgotten runs that idempotency keys have begun, by id. */
  readonly #keys = new Map<string, number>()
  /** Number of the compaction step that carries entries now. */
  step = 0
  readonly time = new LogTime()
  #lastSeq = 0

  see(record: HostRecord): void {
    const now = this.#timeAt(record)
    if (record.kind === 'run.launched') return this.#add(record)
    if (record.kind === 'runs.gone')
      for (const gone of record.runs.flatMap((index) => this.#byIndex.get(index) ?? [])) this.forget(gone)
    if (record.kind === 'keys') for (const [id, endedAt] of record.keys) this.#keys.set(id, endedAt)
    const run = this.#byIndex.get(record.run)
    if (!run) return
    if (record.kind === 'part.used') refer(run, record)
    else if (record.kind === 'model.called') {
      run.usage = addUsage(run.usage, record.usage)
      if (record.money) {
        const sum = new MoneySum(run.paid)
        sum.add(record.model, billionthsOf(record.money))
        run.paid = sum.byModel
      }
    } else if (record.kind === 'run.aborted') run.status = 'aborted'
    else if (record.kind === 'run.finished') {
      if (run.endedAt === 0) run.agedFrom = now
      run.endedAt = record.at
      run.errorCode = record.error?.code ?? null
      if (run.status !== 'aborted') run.status = record.error ? 'failed' : 'finished'
    }
  }

  rows(): RunRow[] {
    return Array.from(this.#byIndex.values(), ({ step: _, ...run }) => ({
      ...run,
      parts: [...run.parts],
      places: [...run.places],
    }))
  }

  restore(rows: readonly RunRow[]): void {
    for (const row of rows) {
      this.time.believe(row.agedFrom)
      this.#enter({ tenant: null, ...row, parts: new Set(row.parts), places: [...row.places], step: RESTORED })
    }
  }

  /** Returns the time of the log at a record. One that was carried says nothing of the time at its place. */
  #timeAt({ seq, at }: HostRecord): number {
    if (seq <= this.#lastSeq) return Math.min(at, this.time.now)
    this.#lastSeq = seq
    return this.time.see(at)
  }

  #add(record: RecordOf<'run.launched'>): void {
    const { run: index, id, query, own, startedAt, threadId, metadata, tenant = null, output } = record
    if (this.#byIndex.has(index)) return // its record was carried
    const run: LoggedRun = {
      index,
      id,
      query: listedQuery(query),
      isCut: isLong(query),
      queryHash: hashOf(query),
      own,
      threadId: threadId ?? null,
      caller: callerIn(metadata),
      tenant,
      isKeyed: isKeyed(metadata),
      output: output?.digest,
      startedAt,
      usage: NO_TOKENS,
      errorCode: null,
      endedAt: 0,
      agedFrom: 0,
      status: 'finished',
      open: true,
      bytes: 0,
      leansOn: undefined,
      parts: new Set(),
      partBytes: 0,
      places: [],
      step: 0,
    }
    const { part, size = 0 } = output ?? {}
    if (part !== undefined) refer(run, { hash: part, size })
    this.#enter(run)
  }

  #enter(run: LoggedRun): void {
    this.#byIndex.set(run.index, run)
    for (const order of this.#ordersOf(run)) order.add(run)
    if (!run.own) this.#byId.set(run.id, run)
  }

  #ordersOf({ caller }: LoggedRun): RunOrder<LoggedRun>[] {
    if (caller === null) return [this.#order]
    const own = this.#ofCallers.get(caller) ?? new RunOrder()
    this.#ofCallers.set(caller, own)
    return [this.#order, own]
  }

  /** Notes where a block stands, and what its runs have in it. */
  at({ position, carried, sizes, leans }: Omit<SeenBlock, 'bytes' | 'parts'>): void {
    for (const [index, bytes] of sizes) {
      const run = this.#byIndex.get(index)
      if (!run) continue
      run.bytes += bytes
      place(run, position, carried ? -1 : 0)
    }
    for (const [index, leansOn] of leans) {
      const run = this.#byIndex.get(index)
      if (run) run.leansOn = leansOn
    }
  }

  get leaning(): Map<number, LoggedRun[]> {
    const leaning = new Map<number, LoggedRun[]>()
    for (const run of this.#byIndex.values())
      if (run.leansOn !== undefined) leaning.set(run.leansOn, [...(leaning.get(run.leansOn) ?? []), run])
    return leaning
  }

  /** Returns the run and those that it leans on, one after the other, as far as the log has them. */
  chainOf(run: LoggedRun): LoggedRun[] {
    const chain = [run]
    for (let next = this.#before(run); next; next = this.#before(next)) chain.push(next)
    return chain
  }

  #before({ leansOn }: LoggedRun): LoggedRun | undefined {
    return leansOn === undefined ? undefined : this.#byIndex.get(leansOn)
  }

  /** Notes where a block stands whose entries were carried: their bytes are counted already. */
  carriedTo(position: Position, runs: Iterable<number>): void {
    for (const index of runs) {
      const run = this.#byIndex.get(index)
      if (run) place(run, position, this.step)
    }
  }

  get(index: number): LoggedRun | undefined {
    return this.#byIndex.get(index)
  }

  /** Finds a run by its id: the last one, if the id was used again after the log had forgotten it. */
  find(id: string): LoggedRun | undefined {
    return this.#byId.get(id)
  }

  /** Checks whether a run that the log must have was under way at that time, in epoch ms. */
  isUnderWayAt(at: number): boolean {
    for (const { own, startedAt, endedAt } of this.#byIndex.values())
      if (!own && startedAt <= at && (endedAt === 0 || at <= endedAt)) return true
    return false
  }

  values(): Iterable<LoggedRun> {
    return this.#byIndex.values()
  }

  /** Yields the runs that have an end, the one that started last is first. `caller`: those of that one alone. */
  *newest(caller?: string): Iterable<LoggedRun> {
    const order = caller === undefined ? this.#order : this.#ofCallers.get(caller)
    for (const run of order?.newest() ?? []) if (run.endedAt > 0 && !run.own) yield run
  }

  get size(): number {
    return this.#byIndex.size
  }

  /** Number of the runs that are no work of messages from outside. */
  get runs(): number {
    return this.#byId.size
  }

  /** Begin of the run that began first, in epoch ms. */
  get oldestAt(): number | undefined {
    let oldest: number | undefined
    for (const { startedAt } of this.#byIndex.values()) oldest = Math.min(oldest ?? startedAt, startedAt)
    return oldest
  }

  /** Notes that a run has an end, or is the work of a message, and that nothing of it is under way any more. */
  over(run: LoggedRun): void {
    run.open = false
    this.#over.add(run)
  }

  get bytes(): number {
    let bytes = 0
    for (const run of this.#byIndex.values()) if (run.open || !run.own) bytes += run.bytes
    return bytes
  }

  /** Checks for a forgotten run whose idempotency key still holds. */
  hasForgotten(id: string, { keysMs = DAY_MS }: KeepSettings, now: number): boolean {
    const endedAt = this.#keys.get(id)
    return endedAt !== undefined && now - endedAt <= keysMs
  }

  *keyFacts(): Generator<Extract<Unrecorded, { kind: 'keys' }>> {
    const keys = [...this.#keys]
    for (let at = 0; at < keys.length; at += KEYS) yield { kind: 'keys', keys: keys.slice(at, at + KEYS) }
  }

  /** Runs that are over and beyond the limits, at that time of the log. Forgets keys that hold no more. */
  expired(keep: KeepSettings, now: number): LoggedRun[] {
    for (const id of this.#keys.keys()) if (!this.hasForgotten(id, keep, now)) this.#keys.delete(id)
    const ended = [...this.#over].filter(({ own }) => !own)
    let bytes = ended.reduce((sum, run) => sum + run.bytes + run.partBytes, 0)
    let runs = ended.length
    const gone = [...this.#over].filter(({ own }) => own)
    for (const run of ended) {
      if (runs <= keep.runs && bytes <= keep.bytes && now - run.agedFrom <= keep.days * DAY_MS) continue
      gone.push(run)
      runs -= 1
      bytes -= run.bytes + run.partBytes
    }
    return gone
  }

  forget(run: LoggedRun): void {
    if (run.isKeyed) this.#keys.set(run.id, run.endedAt)
    this.#over.delete(run)
    this.#byIndex.delete(run.index)
    for (const order of this.#ordersOf(run)) order.delete(run)
    if (run.caller !== null && this.#ofCallers.get(run.caller)?.size === 0) this.#ofCallers.delete(run.caller)
    if (this.#byId.get(run.id) === run) this.#byId.delete(run.id)
  }

  /** Notes that the log has nothing before that position any more. */
  dropped(before: Position): void {
    for (const run of this.#byIndex.values()) {
      const { places } = run
      if (places.length === 0 || places[0]! >= before) continue
      run.places = []
      for (let at = 0; at < places.length; at += 2)
        if (places[at + 1]! >= before) run.places.push(Math.max(places[at]!, before), places[at + 1]!)
    }
  }
}

/** Makes a number of a text that is the same for the same text, and hardly for another. */
export const hashOf = (text: string): number => createHash('sha256').update(text).digest().readUIntBE(0, 6)

function refer(run: LoggedRun, { hash, size }: { readonly hash: string; readonly size: number }): void {
  if (run.parts.has(hash)) return
  run.parts.add(hash)
  run.partBytes += size
}

function place(run: LoggedRun, position: Position, step: number): void {
  const { places } = run
  if (places.length > 0 && run.step === step) places[places.length - 1] = position
  else places.push(position, position)
  run.step = step
}
