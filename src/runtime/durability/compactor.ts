/**
 * Keeps the log bounded: `RunIndex.expired` says which runs are given up. What the team itself has is logged again as
 * full values; then, from the oldest part of the log on, the entries of runs that are kept are carried to its end,
 * under their old numbers, and the part is given up. The process may die between any two writes: until a part is gone,
 * both its places say the same.
 */

import { CancelledError, describe } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { entrySpans, isOfIncarnation, isOfLog, leanOf, partsIn } from '../log/entry-codec.ts'
import type { Block, Position } from '../store/log-files.ts'
import { CARRIED_BYTES, Carrier, type LogPart } from './checkpoint.ts'
import { Checkpoints, type TakenLog } from './checkpoints.ts'
import type { LoggedRun, RunIndex } from './run-index.ts'
import { Slices } from './slices.ts'
import type { Fact } from './team-facts.ts'

/** Runs that are archived at the same time: each waits for the disk many times, and for turns of others between. */
const GROUP_RUNS = 8
/** Bytes of runs that are archived at the same time, since they are in memory. A larger run is alone. */
const GROUP_BYTES = 8 * 2 ** 20

/** Yields the runs that are forgotten, in groups; `leaning`: runs by the one that they lean on. */
const leavingGroups = (
  runs: readonly LoggedRun[],
  leaning: ReadonlyMap<number, readonly LoggedRun[]>,
): Generator<LoggedRun[]> => groupsOf(lastFirst(runs, leaning))

/** Yields the runs in their order, so many at a time as may be archived at once; none with one that leans on it. */
function* groupsOf(runs: Iterable<LoggedRun>): Generator<LoggedRun[]> {
  let [group, bytes]: [LoggedRun[], number] = [[], 0]
  for (const run of runs) {
    const size = run.bytes + run.partBytes
    const goesAfter = group.some(({ leansOn }) => leansOn === run.index)
    if (goesAfter || group.length === GROUP_RUNS || (group.length > 0 && bytes + size > GROUP_BYTES)) {
      yield group
      ;[group, bytes] = [[], 0]
    }
    group.push(run)
    bytes += size
  }
  if (group.length > 0) yield group
}

/**
 * Yields the runs in their order, but for those that others of them lean on: these come behind those, so that nothing
 * has to be written again of runs that are forgotten together.
 */
function* lastFirst(
  runs: readonly LoggedRun[],
  leaning: ReadonlyMap<number, readonly LoggedRun[]>,
): Generator<LoggedRun> {
  const left = new Map(runs.map((run) => [run.index, run]))
  const isLast = ({ index }: LoggedRun) => !leaning.get(index)?.some((other) => left.has(other.index))
  for (const run of runs)
    for (let next: LoggedRun | undefined = run; next && isLast(next); next = left.get(next.leansOn ?? 0)) {
      if (!left.delete(next.index)) break
      yield next
    }
}

/** Report of a compaction. */
export interface Compacted {
  /** Bytes of the log before and after it. */
  readonly before: number
  readonly after: number
  readonly runsForgotten: number
  /** Number of runs that should have been forgotten, and that could not be archived. */
  readonly runsNotArchived: number
}

/** Failures after which a compaction archives no more runs. */
const MOST_FAILURES = 3
const SEGMENT_BYTES = 64 * 2 ** 20
const NOT_ARCHIVED =
  'runs could not be archived (stateManagement.archive): the log keeps them, and tries it again when it is compacted next'

/** Facts that are logged in one task. Those of large kinds are alone. */
const FACTS = 64
const SMALL_FACTS: ReadonlySet<Fact['kind']> = new Set(['name', 'numbers', 'thread', 'turns'])

export class Compactor {
  readonly #log: TakenLog
  /** Written between the steps of a compaction: it drops blocks before them alone. */
  readonly checkpoints: Checkpoints
  /** Positions at which the parts begin in which space is given up. */
  readonly #parts: Position[] = []
  #partBytes = 0
  /** Size of the log from which on it is looked at again. */
  #next = 0
  #factBytes = 0
  #isLoggingFacts = false
  endedAt: number | undefined
  /** Runs that were forgotten, which the log does not say yet. */
  #gone: number[] = []
  #running: Promise<Compacted> | undefined
  /** Settles when the checkpoint is written that is under way. */
  #noting: Promise<void> | undefined
  readonly #closed = new AbortController()
  readonly #slices: Slices

  constructor(log: TakenLog) {
    this.#log = log
    this.#slices = new Slices(log.clock, this.#closed.signal)
    this.checkpoints = new Checkpoints(log, () => this.#logParts)
    // Blocks that were carried were read last, and may stand before others.
    const blocks = [...log.old.blocks].sort((a, b) => a.position - b.position)
    for (const { position, bytes } of blocks) this.#add(position, bytes)
    this.#partBytes = this.#most // the next block begins a part
  }

  get #index(): RunIndex {
    return this.#log.old.index
  }

  get #most(): number {
    return this.#log.store.segmentBytes ?? SEGMENT_BYTES
  }

  /** Notes that a block was written. `ofTeam`: bytes that belong to no run. */
  wrote(position: Position, bytes: number, ofTeam = 0): void {
    this.#add(position, bytes)
    if (this.#isLoggingFacts) this.#factBytes += ofTeam
    this.checkpoints.wrote(position, bytes)
  }

  #add(position: Position, bytes: number): void {
    if (this.#parts.length === 0 || this.#partBytes >= this.#most) {
      this.#parts.push(position)
      this.#partBytes = 0
    }
    this.#partBytes += bytes
  }

  get #logParts(): LogPart[] {
    const last = this.#parts.length - 1
    return this.#parts.map((position, n) => ({ position, bytes: n === last ? this.#partBytes : this.#most }))
  }

  /** Compacts the log in the background if it has grown enough, or writes a checkpoint if it is time for one. */
  consider(): void {
    if (this.#log.store.bytes >= this.#next) this.#compactBehind()
    else if (this.checkpoints.isDue && !this.#isBusy) this.#note()
  }

  /** Forgets runs in the background that are beyond the limits by now, however little the log has grown. */
  keepLimits(): void {
    if (this.#expired.length > 0) this.#compactBehind()
  }

  get #expired(): LoggedRun[] {
    const { clock, keep } = this.#log
    return this.#index.expired(keep, this.#index.time.see(clock.now()))
  }

  get #isBusy(): boolean {
    return this.#running !== undefined || this.#noting !== undefined || this.#closed.signal.aborted
  }

  #compactBehind(): void {
    const { store, logger } = this.#log
    if (this.#isBusy) return
    this.compact().catch((error: unknown) => {
      if (this.#closed.signal.aborted || store.state === 'lost') return // told elsewhere
      logger.warn(
        { error: describe(error) },
        'the durable log could not be compacted; it is tried again when it has grown',
      )
    })
  }

  /** Writes a checkpoint, while nothing is carried. */
  #note(): void {
    const over = () => {
      this.#noting = undefined
    }
    this.#noting = this.checkpoints.write().then(over, over)
  }

  /** Compacts the log as far as it pays; `all`: whatever it pays. One at a time. */
  compact(all = false): Promise<Compacted> {
    this.#running ??= this.#compact(all).finally(() => {
      this.#running = undefined
      this.#next = this.#log.store.bytes + this.#most
    })
    return this.#running
  }

  async close(): Promise<void> {
    this.#closed.abort(new CancelledError('The log is closed.', {}))
    await this.#running?.catch(() => {}) // told to who asked for it
  }

  async #compact(all: boolean): Promise<Compacted> {
    const { store } = this.#log
    const before = store.bytes
    await this.#noting
    if (!all) await this.#giveUpParts(false) // archived by a process that was ended before it came to that
    const forgetting = this.#forget(this.#expired)
    const forgotten = await forgetting.finally(() => this.#logGone())
    await this.#giveUpParts(all)
    this.endedAt = this.#log.clock.now()
    return { before, after: store.bytes, ...forgotten }
  }

  /**
   * Returns the numbers of the records of the team that are carried under them, like those of runs: what they say
   * concerns the entries of runs that stand before them. Parts that nothing refers to any more are given up with it.
   */
  #carried(): ReadonlySet<number> {
    const { left, old, referrers } = this.#log
    return new Set([...left(), ...old.parts.needed(referrers())])
  }

  /** Gives up the oldest parts of the log as far as it pays; `all`: whatever it pays. */
  async #giveUpParts(all: boolean): Promise<void> {
    const { store, old } = this.#log
    this.#carried() // gives up what nobody refers to
    const alive = old.index.bytes + this.#factBytes + old.parts.bytes
    if (!all && store.bytes <= 2 * (alive + this.#most)) return
    const end = this.#parts.at(-1) ?? 0
    await this.#logFacts()
    await this.checkpoints.write()
    const enough = all ? 0 : alive * 1.25 + this.#most
    while (this.#parts.length > 1 && this.#parts[0]! < end && store.bytes > enough) await this.#giveUp()
    await this.checkpoints.write()
  }

  /**
   * Forgets runs, but for those that cannot be archived. The log learns it meanwhile: to archive runs takes long, and a
   * process that is ended before all of them are would archive them all again.
   */
  async #forget(runs: readonly LoggedRun[]): Promise<Pick<Compacted, 'runsForgotten' | 'runsNotArchived'>> {
    let [runsForgotten, runsNotArchived] = [0, 0]
    let failure: { runId: string; error: string } | undefined
    const leaning = await this.#leaning(runs)
    const leave = async (run: LoggedRun) => {
      const others = leaning.get(run.index) ?? []
      if (others.some(({ open }) => open)) return // they go on; it is forgotten when they have ended
      try {
        if (!run.own) await unlessAborted(this.#closed.signal, this.#log.leaves(run))
      } catch (error) {
        this.#closed.signal.throwIfAborted()
        failure ??= { runId: run.id, error: describe(error) }
        runsNotArchived += 1
        return
      }
      for (const other of others) await this.#letStandAlone(other, run)
      if (!run.own) runsForgotten += 1
      this.#index.forget(run)
      this.#gone.push(run.index)
      if (this.#slices.isOver) this.#logGone()
      await this.#slices.othersTurn()
    }
    for (const group of leavingGroups(runs, leaning)) {
      const isTried = runsNotArchived < MOST_FAILURES
      await Promise.all(group.filter(({ own }) => own || isTried).map(leave))
      if (!isTried) runsNotArchived += group.filter(({ own }) => !own).length
      await this.#noteIfDue()
    }
    if (failure) this.#log.logger.warn({ ...failure, runs: runsNotArchived }, NOT_ARCHIVED)
    return { runsForgotten, runsNotArchived }
  }

  /** Returns which runs lean on others. From now on none begins to lean on these ones. */
  async #leaning(runs: readonly LoggedRun[]): Promise<ReadonlyMap<number, LoggedRun[]>> {
    if (runs.length === 0) return new Map()
    this.#log.unlearn(runs.map(({ index }) => index))
    await unlessAborted(this.#closed.signal, this.#log.written())
    return this.#index.leaning
  }

  /** Writes again what a run has in common with the one that is forgotten. */
  async #letStandAlone(run: LoggedRun, forgotten: LoggedRun): Promise<void> {
    const { past } = this.#log
    const index = this.#index
    if (index.get(run.index) !== run || run.leansOn !== forgotten.index) return
    index.step += 1
    const carrier = new Carrier()
    for (const { seq, bytes } of await unlessAborted(this.#closed.signal, past.alone(run))) {
      carrier.add(run.index, seq, bytes)
      run.bytes += bytes.byteLength
    }
    if (carrier.bytes > 0) await this.#append(carrier.take())
    run.leansOn = undefined
  }

  /** Logs which runs were forgotten, behind all of their entries: nothing of them is carried on. */
  #logGone(): void {
    if (this.#gone.length > 0) this.#log.log({ kind: 'runs.gone', runs: this.#gone.splice(0) })
  }

  /** Logs the facts of the team behind all parts that are given up. */
  async #logFacts(): Promise<void> {
    const { facts, log, written } = this.#log
    this.#factBytes = 0
    this.#isLoggingFacts = true
    try {
      let count = 0
      for (const fact of facts()) {
        log(fact)
        count += 1
        if (count % FACTS === 0 || !SMALL_FACTS.has(fact.kind)) await unlessAborted(this.#closed.signal, written())
      }
      await unlessAborted(this.#closed.signal, written())
    } finally {
      this.#isLoggingFacts = false
    }
  }

  /** Carries on what is needed of the first part, and gives the part up. */
  async #giveUp(): Promise<void> {
    const { store, past } = this.#log
    const index = this.#index
    const [from, until] = [this.#parts[0]!, this.#parts[1]!]
    index.step += 1
    const carrier = new Carrier()
    const carried = this.#carried()
    for await (const block of store.read({ from, signal: this.#closed.signal })) {
      if (block.position >= until) break
      for (const { run, seq, at, from: start, to } of entrySpans(block.entries)) {
        const entry = block.entries.subarray(start, to)
        const ofTeam =
          run === 0 && (carried.has(seq) || isOfLog(entry) || (isOfIncarnation(entry) && index.isUnderWayAt(at)))
        if (ofTeam || (index.get(run) && !this.#isAlone(entry))) carrier.add(run, seq, entry)
      }
      if (carrier.bytes >= CARRIED_BYTES) await this.#append(carrier.take())
      await this.#noteIfDue()
      await this.#slices.othersTurn()
    }
    if (carrier.bytes > 0) await this.#append(carrier.take())
    await unlessAborted(this.#closed.signal, store.sync())
    await unlessAborted(
      this.#closed.signal,
      past.drop(() => store.dropBefore(until)),
    )
    this.#parts.shift()
    index.dropped(until)
  }

  /** Checks for an entry that was written again, when the run was forgotten that it has copies of. */
  #isAlone(entry: Uint8Array): boolean {
    const leansOn = leanOf(entry)
    return leansOn !== 0 && !this.#index.get(leansOn)
  }

  async #noteIfDue(): Promise<void> {
    if (this.checkpoints.isDue) await this.checkpoints.write()
  }

  async #append(block: Block): Promise<void> {
    const position = await unlessAborted(this.#closed.signal, this.#log.store.append(block))
    this.#index.carriedTo(position, block.runs)
    this.#log.old.parts.at(position, partsIn(block.entries))
    this.wrote(position, block.entries.byteLength)
  }
}
