/**
 * Code that a thread runs before it is an agent: the bundled entry. It is read once for the process, and compiled by
 * the first threads for all later ones.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ownFile } from '../../own-files.ts'

/** As thread-boot.cjs reads it. */
interface ThreadEntry {
  readonly path: string
  /** A function of `require`, of the path, of what imports a module, and of what is to be called after a turn. */
  readonly source: string
  /** In shared memory; undefined until a thread has compiled it. */
  readonly compiled: Uint8Array | undefined
  /** Room for what one thread has compiled by the end of a turn; undefined if there is that already. */
  readonly kept: Kept | undefined
}

/** In shared memory. */
interface Kept {
  /** Number of bytes; 0: none yet; below 0: a thread is about to write them. */
  readonly length: Int32Array
  readonly bytes: Uint8Array
}

/** Three times of what it takes. The system has no page for what nobody writes. */
const MOST_KEPT = 2 ** 20

export class ThreadCode {
  /** The file that begins a thread. */
  readonly boot = ownFile('actors/loop/thread-boot.cjs')
  readonly #path = fileURLToPath(ownFile('actors/loop/thread-entry.bundle.cjs'))
  readonly #source = `(function (require, __filename, importModule, turnEnded) {${readFileSync(this.#path, 'utf8')}\n})`
  #compiled: Uint8Array | undefined
  readonly #kept = {
    length: new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)),
    bytes: new Uint8Array(new SharedArrayBuffer(MOST_KEPT)),
  }

  /** Returns the entry as a thread gets it that starts now: with all that others have compiled. */
  get entry(): ThreadEntry {
    const { length, bytes } = this.#kept
    const [path, source] = [this.#path, this.#source]
    const kept = Atomics.load(length, 0)
    return kept > 0
      ? { path, source, compiled: bytes.subarray(0, kept), kept: undefined }
      : { path, source, compiled: this.#compiled, kept: this.#kept }
  }

  /** Takes what the boot of a thread has compiled, if it is the first. */
  take(compiled: Uint8Array | undefined): void {
    this.#compiled ??= compiled
  }
}

let code: ThreadCode | undefined

/** Throws `ConfigurationError` where this package was bundled without its files. */
export function threadCode(): ThreadCode {
  code ??= new ThreadCode()
  return code
}
