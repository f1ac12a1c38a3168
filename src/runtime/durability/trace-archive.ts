/** Folder with what runs did that a log has forgotten: a JSON file for each run, for its owner alone. */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { ConfigurationError, describe } from '../../errors.ts'
import type { Directory } from '../../mailbox/codec.ts'
import { RunLog } from '../log/run-log.ts'
import type { Redactor } from '../logging/redactor.ts'
import { historyOf, traceOf } from '../runs/trace.ts'
import { hasCode, type LogFiles, realFiles } from '../store/log-files.ts'
import type { OldRun } from './old-run.ts'
import type { LoggedRun } from './run-index.ts'
import { endingOf } from './run-recovery.ts'

interface Needs {
  /** Path of the folder. */
  readonly folder: string
  readonly redactor: Pick<Redactor, 'data'>
  /** Finds the name of an agent of the team. */
  name(index: number): string
  readonly files?: LogFiles
}

/** Characters of an id that a file name may have; the others are written as bytes. */
const PLAIN = /[\w.-]/
const LONGEST_NAME = 150
const HASH_LENGTH = 16

export class TraceArchive {
  readonly #needs: Needs
  readonly #files: LogFiles

  constructor(needs: Needs) {
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
      await this.#removeIfThere(probe)
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
      if (pid && !isAlive(Number(pid))) await this.#removeIfThere(join(folder, name))
    }
  }

  /**
   * Writes the file of a run. When it resolves the file survives the death of the machine. If it rejects, no half of a
   * file takes room in the folder.
   *
   * @throws ConfigurationError that names the file
   */
  async write(run: OldRun, logged: LoggedRun): Promise<void> {
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

  #content(run: OldRun, { id, startedAt, endedAt, status }: LoggedRun) {
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
      ...(run.stored.size > 0 && { parts: base64Of(run.stored) }),
      trace: traceOf(log, directory),
    }
  }

  #directoryOf({ agents, index, launched }: OldRun): Directory {
    const own = new Map(Array.from(agents, ([name, at]) => [at, name]))
    return {
      name: (at) => own.get(at) ?? this.#needs.name(at),
      runId: (at) => (at === index ? launched.id : ''),
    }
  }

  async #write(path: string, text: string): Promise<void> {
    await this.#removeIfThere(path)
    const file = await this.#files.create(path)
    try {
      const bytes = Buffer.from(text)
      for (let at = 0; at < bytes.length; ) at += await file.write(bytes.subarray(at), at)
      await file.sync()
    } finally {
      await file.close()
    }
  }

  async #removeIfThere(path: string): Promise<void> {
    await this.#files.remove(path).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT')) throw error
    })
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
function base64Of(stored: OldRun['stored']): Record<string, string> {
  return Object.fromEntries(Array.from(stored, ([hash, bytes]) => [hash, Buffer.from(bytes).toString('base64')]))
}

function endOf(run: OldRun) {
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
