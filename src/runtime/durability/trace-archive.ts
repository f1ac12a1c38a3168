/** Folder with what runs did that a log has forgotten: a JSON file for each run, for its owner alone. */

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Directory } from '../../mailbox/codec.ts'
import { ConfigurationError, describe, UnknownRunError } from '../../shared/errors.ts'
import { type AloneEntry, aloneEntries, entriesOf, whileMoved } from '../log/read-entries.ts'
import type { LogEntry } from '../log/records.ts'
import { RunLog } from '../log/run-log.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { PastRun, PastRuns } from '../runs/recalled-runs.ts'
import type { ListedRun } from '../runs/run.ts'
import { historyOf, traceOf } from '../runs/trace.ts'
import {
  hasCode,
  type LogFiles,
  type LogStore,
  realFiles,
  removeIfThere,
  type StoredBlock,
  writeWhole,
} from '../store/log-files.ts'
import { RecoveredRun } from './recovered-run.ts'
import { hashOf, type LoggedRun, type PartIndex, type RunIndex } from './run-index.ts'
import { endingOf } from './run-recovery.ts'

export class PastRunReader implements PastRuns {
  readonly #store: LogStore
  readonly #index: RunIndex
  readonly #parts: PartIndex
  readonly #restore: (run: RecoveredRun) => void
  /** Reads that are under way: the part of the log where they read stays. */
  readonly #reading = new Set<Promise<unknown>>()
  #dropping: Promise<void> = Promise.resolve()
  readonly #closed = new AbortController()

  /** `restore`: adds a run to those that the team has in memory. */
  constructor(
    store: LogStore,
    { index, parts }: { index: RunIndex; parts: PartIndex },
    restore: (run: RecoveredRun) => void = () => {},
  ) {
    this.#store = store
    this.#index = index
    this.#parts = parts
    this.#restore = restore
  }

  find(runId: string): PastRun | undefined {
    const run = this.#index.find(runId)
    return run && run.endedAt > 0 ? run : undefined
  }

  isOf(run: PastRun, query: string): boolean {
    return this.#index.get(run.index)?.queryHash === hashOf(query)
  }

  newest(caller?: string): Iterable<ListedRun> {
    return this.#index.newest(caller)
  }

  async load(run: PastRun): Promise<void> {
    this.#restore(await this.read(run))
  }

  async read(run: PastRun): Promise<RecoveredRun> {
    return this.#read(async () => {
      const logged = this.#index.get(run.index)
      const old = logged && (await whileMoved(() => this.#entriesIn(logged)))
      if (!logged || !old?.finished) throw gone(run)
      old.stored = await this.#parts.read(this.#store, logged.parts)
      return old
    })
  }

  reread<T>(index: number, read: (entries: AsyncIterable<LogEntry>) => Promise<T>): Promise<T> {
    return this.#read(() =>
      whileMoved(() => {
        const run = this.#index.get(index)
        return read(run ? this.#entriesOf(run, (entry) => entry.run === index) : NOTHING)
      }),
    )
  }

  /** Reads the entries of a run that lean on another one, written so that they do not. */
  alone({ index }: Pick<LoggedRun, 'index'>): Promise<AloneEntry[]> {
    return this.#read(() =>
      whileMoved(async () => {
        const run = this.#index.get(index)
        if (!run) return []
        const chain = this.#index.chainOf(run)
        const runs = new Set(chain.map(({ index }) => index))
        const alone: AloneEntry[] = []
        for await (const entry of aloneEntries(() => this.#blocksOf(chain), run.index, runs)) alone.push(entry)
        return alone
      }),
    )
  }

  /** Yields entries of a run, of those that it leans on, and of the team. */
  async *#entriesOf(run: LoggedRun, isWanted: (entry: LogEntry) => boolean): AsyncGenerator<LogEntry> {
    const chain = this.#index.chainOf(run)
    const runs = new Set([0, ...chain.map(({ index }) => index)])
    for await (const entry of entriesOf(() => this.#blocksOf(chain), { runs })) if (isWanted(entry)) yield entry
  }

  async #entriesIn(run: LoggedRun): Promise<RecoveredRun | undefined> {
    let old: RecoveredRun | undefined
    for await (const entry of this.#entriesOf(run, (entry) => entry.run === run.index || entry.run === 0)) {
      if (entry.run === 0) old?.meanwhile(entry)
      else if (entry.kind === 'run.launched') old ??= new RecoveredRun(entry)
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
      for await (const block of this.#store.read({ ...options, from })) {
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

  async close(reason: Error): Promise<void> {
    this.#closed.abort(reason)
    await Promise.all(this.#reading)
  }
}

const NOTHING: AsyncIterable<LogEntry> = {
  [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }),
}

const gone = ({ id }: PastRun) =>
  new UnknownRunError(`The log has run "${id}" no more: it was forgotten while it was asked for.`, { runId: id })

interface TraceArchiveNeeds {
  readonly folder: string
  readonly redactor: Pick<Redactor, 'data'>
  name(index: number): string
  readonly files?: LogFiles
}

/** Characters of an id that a file name may have; the others are written as bytes. */
const PLAIN = /[\w.-]/
const LONGEST_NAME = 150
const HASH_LENGTH = 16

export class TraceArchive {
  readonly #needs: TraceArchiveNeeds
  readonly #files: LogFiles

  constructor(needs: TraceArchiveNeeds) {
    this.#needs = needs
    this.#files = needs.files ?? realFiles
  }

  get folder(): string {
    return this.#needs.folder
  }

  /**
   * Makes the folder if there is none, and checks that files can be written there.
   *
   * @throws ConfigurationError
   */
  async open(): Promise<void> {
    const { folder } = this.#needs
    const probe = join(folder, `probe-${process.pid}.tmp`)
    try {
      await this.#files.folder(folder)
      await this.#write(probe, '')
      await removeIfThere(probe, this.#files)
      await this.#removeOldProbes()
    } catch (error) {
      throw unwritable(folder, folder, error)
    }
  }

  /** Removes what processes have left that were killed while they checked the folder. */
  async #removeOldProbes(): Promise<void> {
    const { folder } = this.#needs
    for (const name of await this.#files.list(folder)) {
      const pid = PROBE.exec(name)?.[1]
      if (pid && !isAlive(Number(pid))) await removeIfThere(join(folder, name), this.#files)
    }
  }

  /**
   * Writes the file of a run. When it resolves the file survives the death of the machine. If it rejects, no half of a
   * file takes room in the folder.
   *
   * @throws ConfigurationError that names the file
   */
  async write(run: RecoveredRun, logged: LoggedRun): Promise<void> {
    const { folder, redactor } = this.#needs
    const path = join(folder, fileName(logged))
    const text = `${JSON.stringify(redactor.data(this.#content(run, logged)), null, 2)}\n`
    try {
      await this.#write(`${path}.tmp`, text)
      await this.#files.rename(`${path}.tmp`, path)
      await this.#files.syncFolder(folder)
    } catch (error) {
      await this.#files.remove(`${path}.tmp`).catch(() => {}) // where it stays, the next attempt removes it
      throw unwritable(path, folder, error)
    }
  }

  #content(run: RecoveredRun, { id, startedAt, endedAt, status }: LoggedRun) {
    const { query, threadId, metadata } = run.launched
    const log = new RunLog()
    for (const entry of run.entries) log.adopt(entry)
    const directory = this.#directoryOf(run)
    return {
      run: {
        id,
        query,
        ...(threadId !== undefined && { threadId }),
        metadata,
        status,
        startedAt,
        endedAt,
        ...endOf(run),
      },
      messages: historyOf(log, directory),
      ...partsOf(run),
      trace: traceOf(log, directory),
    }
  }

  #directoryOf({ agents, index, launched }: RecoveredRun): Directory {
    const own = new Map(Array.from(agents, ([name, at]) => [at, name]))
    return {
      name: (at) => own.get(at) ?? this.#needs.name(at),
      runId: (at) => (at === index ? launched.id : ''),
    }
  }

  async #write(path: string, text: string): Promise<void> {
    await removeIfThere(path, this.#files)
    const file = await this.#files.create(path)
    try {
      await writeWhole(file, Buffer.from(text), 0)
      await file.sync()
    } finally {
      await file.close()
    }
  }
}

/** Makes the error for a file or folder that cannot be written. Some errors of the system do not name it. */
function unwritable(path: string, folder: string, cause: unknown): ConfigurationError {
  const accepted = 'a folder with room, that this process can make, read and write'
  const text = `stateManagement.archive: ${path} cannot be written: ${describe(cause)}; accepted: ${accepted}.`
  return new ConfigurationError(text, { path: 'stateManagement.archive', got: folder, accepted }, cause)
}

const PROBE = /^probe-(\d+)\.tmp$/

/** A process of another container may be taken for dead: its check does without the file once that is written. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return !hasCode(error, 'ESRCH')
  }
}

/** Returns the bytes of the large parts that the messages refer to, by their SHA-256. */
function partsOf({ stored, launched }: RecoveredRun): { parts?: Record<string, string> } {
  const ofMessages = [...stored].filter(([hash]) => hash !== launched.output?.part)
  if (ofMessages.length === 0) return {}
  return { parts: Object.fromEntries(ofMessages.map(([hash, bytes]) => [hash, Buffer.from(bytes).toString('base64')])) }
}

function endOf(run: RecoveredRun) {
  const ending = endingOf(run)
  if ('error' in ending) return { error: ending.error }
  const { finalOutput, data } = ending
  return { finalOutput, ...(data !== undefined && { data }) }
}

/** Returns a name that begins with the time, since an id may be used again when the log has forgotten it. */
export function fileName({ id, startedAt }: Pick<LoggedRun, 'id' | 'startedAt'>): string {
  const time = new Date(startedAt).toISOString().replaceAll(':', '-')
  const bytes = Array.from(Buffer.from(id), (byte) => {
    const letter = String.fromCharCode(byte)
    return PLAIN.test(letter) ? letter : `%${byte.toString(16).padStart(2, '0')}`
  })
  const name = bytes.join('')
  const hash = createHash('sha256').update(id).digest('hex').slice(0, HASH_LENGTH)
  return `${time}-${name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}-${hash}` : name}.json`
}
