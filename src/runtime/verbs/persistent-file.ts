/** Keeps the state 'persistent' in a file, for a team without a durable log. Source: document 002, 2.4.1. */
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Kept } from '../../actors/turn/shared-state.ts'
import { ConfigurationError, describe } from '../../errors.ts'
import { isObject } from '../checks/checks.ts'
import type { StateStore } from './state-store.ts'

const VERSION = 1

export class PersistentFile {
  readonly #path: string
  /** Describes the file as it was when this last read or wrote it. */
  #seen = ''
  #last: Promise<unknown> = Promise.resolve()

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Calls `act` when the store has what the file has, also what another process wrote there, and writes the file if
   * `act` has changed the store. Calls run one after the other. If the file cannot be written, the store does not keep
   * the change either.
   *
   * Rejects with `ConfigurationError` for a file that cannot be read or written, or is of another kind.
   */
  use<T>(store: StateStore, act: () => T, hasChanged: (result: T) => boolean): Promise<T> {
    const used = this.#last.then(async () => {
      await this.#load(store)
      const result = act()
      if (hasChanged(result)) await this.#save(store)
      return result
    })
    this.#last = used.catch(() => {})
    return used
  }

  async #load(store: StateStore): Promise<void> {
    try {
      const now = await this.#stamp()
      if (now === this.#seen) return
      store.replace(now === ABSENT ? [] : valuesIn(await readFile(this.#path, 'utf8')))
      this.#seen = now
    } catch (error) {
      throw this.#fault('read', error)
    }
  }

  /** Writes beside the file and puts that in its place: the file is never half written. */
  async #save(store: StateStore): Promise<void> {
    const beside = `${this.#path}.${process.pid}.tmp`
    try {
      await mkdir(dirname(this.#path), { recursive: true })
      const values = Object.fromEntries(store.entries())
      await writeFile(beside, `${JSON.stringify({ version: VERSION, values })}\n`, { mode: 0o600, flush: true })
      await rename(beside, this.#path)
      this.#seen = await this.#stamp()
    } catch (error) {
      this.#seen = '' // the next use reads what the file has
      await rm(beside, { force: true }).catch(() => {})
      throw this.#fault('written', error)
    }
  }

  async #stamp(): Promise<string> {
    try {
      const { ino, mtimeNs, size } = await stat(this.#path, { bigint: true })
      return `${ino} ${mtimeNs} ${size}`
    } catch (error) {
      if (Object(error).code === 'ENOENT') return ABSENT
      throw error
    }
  }

  #fault(what: 'read' | 'written', cause: unknown): ConfigurationError {
    const text = `persistentFile: ${this.#path} cannot be ${what}: ${describe(cause)}. Name another file, or mend this one.`
    return new ConfigurationError(text, { path: 'persistentFile', file: this.#path }, cause)
  }
}

const ABSENT = 'absent'

/** Returns the values of a file. Throws for a text that is none of this kind. */
function valuesIn(text: string): [key: string, kept: Kept][] {
  const { version, values } = Object(JSON.parse(text)) as { version?: unknown; values?: unknown }
  if (version !== VERSION || !isObject(values)) throw new Error(`it has no values of version ${VERSION}`)
  return Object.entries(values).map(([key, kept]) => {
    const { version: writes, value }: Partial<Kept> = Object(kept)
    if (!Number.isSafeInteger(writes) || value === undefined) throw new Error(`its value of "${key}" has no version`)
    return [key, { version: Number(writes), value }]
  })
}
