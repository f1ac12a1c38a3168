/** Reads runs that have ended from the durable log, when somebody asks for them. */

import { UnknownRunError } from '../../errors.ts'
import { type AloneEntry, aloneEntries, entriesOf, whileMoved } from '../log/read-entries.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import type { PastRun, PastRuns } from '../runs/past-runs.ts'
import type { ListedRun } from '../runs/run-list.ts'
import type { LogStore, StoredBlock } from '../store/log-store.ts'
import { OldRun } from './old-run.ts'
import type { PartIndex } from './part-index.ts'
import { hashOf, type LoggedRun, type RunIndex } from './run-index.ts'

interface Needs {
  readonly store: LogStore
  readonly index: RunIndex
  readonly parts: PartIndex
  /** Adds a run to those that the team has in memory. */
  restore(run: OldRun): void
}

export class PastRunReader implements PastRuns {
  readonly #needs: Needs
  /** Reads that are under way: the part of the log where they read stays. */
  readonly #reading = new Set<Promise<unknown>>()
  #dropping: Promise<void> = Promise.resolve()
  readonly #closed = new AbortController()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  find(runId: string): PastRun | undefined {
    const run = this.#needs.index.find(runId)
    return run && run.endedAt > 0 ? run : undefined
  }

  isOf(run: PastRun, query: string): boolean {
    return this.#needs.index.get(run.index)?.queryHash === hashOf(query)
  }

  newest(caller?: string): Iterable<ListedRun> {
    return this.#needs.index.newest(caller)
  }

  async load(run: PastRun): Promise<void> {
    this.#needs.restore(await this.read(run))
  }

  /** Reads all entries of a run. */
  async read(run: PastRun): Promise<OldRun> {
    return this.#read(async () => {
      const logged = this.#needs.index.get(run.index)
      const old = logged && (await whileMoved(() => this.#entriesIn(logged)))
      if (!logged || !old?.finished) throw gone(run)
      old.stored = await this.#needs.parts.read(this.#needs.store, logged.parts)
      return old
    })
  }

  /** Reads the entries of a run, which may be under way. */
  reread<T>(index: number, read: (entries: AsyncIterable<LogEntry>) => Promise<T>): Promise<T> {
    return this.#read(() =>
      whileMoved(() => {
        const run = this.#needs.index.get(index)
        return read(run ? this.#entriesOf(run, (entry) => entry.run === index) : NOTHING)
      }),
    )
  }

  /** Reads the entries of a run that lean on another one, written so that they do not. */
  alone({ index }: Pick<LoggedRun, 'index'>): Promise<AloneEntry[]> {
    return this.#read(() =>
      whileMoved(async () => {
        const run = this.#needs.index.get(index)
        if (!run) return []
        const chain = this.#needs.index.chainOf(run)
        const runs = new Set(chain.map(({ index }) => index))
        const alone: AloneEntry[] = []
        for await (const entry of aloneEntries(() => this.#blocksOf(chain), run.index, runs)) alone.push(entry)
        return alone
      }),
    )
  }

  /** Yields entries of a run, of those that it leans on, and of the team. */
  async *#entriesOf(run: LoggedRun, isWanted: (entry: LogEntry) => boolean): AsyncGenerator<LogEntry> {
    const chain = this.#needs.index.chainOf(run)
    const runs = new Set([0, ...chain.map(({ index }) => index)])
    for await (const entry of entriesOf(() => this.#blocksOf(chain), { runs })) if (isWanted(entry)) yield entry
  }

  async #entriesIn(run: LoggedRun): Promise<OldRun | undefined> {
    let old: OldRun | undefined
    for await (const entry of this.#entriesOf(run, (entry) => entry.run === run.index || entry.run === 0)) {
      if (entry.run === 0) old?.meanwhile(entry)
      else if (isLaunch(entry)) old ??= new OldRun(entry)
      else old?.see(entry)
    }
    return old
  }

  /** Yields each block once: the parts of blocks that were carried lie among the others after a restart. */
  async *#blocksOf(runs: readonly LoggedRun[]): AsyncGenerator<StoredBlock> {
    const options = { runs: new Set([0, ...runs.map(({ index }) => index)]), signal: this.#closed.signal }
    const parts = runs.flatMap(({ places }) =>
      Array.from({ length: places.length / 2 }, (_, n) => ({ from: places[2 * n]!, to: places[2 * n + 1]! })),
    )
    let last = -1
    for (const { from, to } of parts.sort((a, b) => a.from - b.from)) {
      if (to <= last) continue
      for await (const block of this.#needs.store.read({ ...options, from })) {
        if (block.position > to) break
        if (block.position > last) yield block
        last = Math.max(last, block.position)
      }
    }
  }

  async #read<T>(act: () => Promise<T>): Promise<T> {
    await this.#dropping
    const reading = act()
    const settled = reading.catch(() => {})
    this.#reading.add(settled)
    void settled.then(() => this.#reading.delete(settled))
    return reading
  }

  /** Gives up a part of the log when nobody reads there. Reads that come later wait. */
  drop(giveUp: () => Promise<void>): Promise<void> {
    const dropping = Promise.all(this.#reading).then(giveUp)
    this.#dropping = dropping.catch(() => {}) // told to who drops
    return dropping
  }

  /** Ends all reads. */
  async close(reason: Error): Promise<void> {
    this.#closed.abort(reason)
    await Promise.all(this.#reading)
  }
}

const isLaunch = (entry: LogEntry): entry is Extract<HostRecord, { kind: 'run.launched' }> =>
  entry.kind === 'run.launched'

const NOTHING: AsyncIterable<LogEntry> = {
  [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }),
}

const gone = ({ id }: PastRun) =>
  new UnknownRunError(`The log has run "${id}" no more: it was forgotten while it was asked for.`, { runId: id })
